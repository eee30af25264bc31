"""Shared memory between agent and task: one copy, nothing overwritten while it is read, and the socket where it can't be."""

from __future__ import annotations

import gc
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkcohort.runtime.protocol.partitions import Range
from sparkcohort.runtime.shell.agent.shared_memory import (
    BUFFERS,
    LEAST_BYTES,
    MOST_BYTES,
    BufferConsumer,
    BufferProducer,
    SharedBatch,
)
from sparkcohort.runtime.shell.agent.task_client import TaskClient
from sparkcohort.runtime.shell.agent.task_frames import MOST_STEPS_AHEAD, Served
from tests.kit.local_server import new_server
from tests.kit.waiting import wait_until

ROWS = 20_000
SCHEMA = pa.schema([("offset", pa.int64()), ("value", pa.binary())])


@cache
def batch_of(first: int, rows: int = ROWS) -> pa.RecordBatch:
    """Rows of 28 bytes each, told apart by their offsets."""
    values = [b"%020d" % at for at in range(first, first + rows)]
    return pa.record_batch([pa.array(range(first, first + rows), pa.int64()), pa.array(values)], schema=SCHEMA)


def lend(lender: BufferProducer, batch: pa.RecordBatch) -> SharedBatch:
    """What is lent for a batch that fits, with a descriptor of the reader's own."""
    lent = lender.lend(batch)
    assert lent is not None
    return lent if lent.descriptor is None else lent._replace(descriptor=os.dup(lent.descriptor))


def test_a_batch_is_read_where_it_was_written() -> None:
    """What is read is what was written, at an address in the buffer; its memory is written anew when nobody reads it."""
    lender, borrower = BufferProducer(), BufferConsumer()
    addresses = set()
    for number in range(10):
        batch = borrower.read(lend(lender, batch_of(number)))
        assert batch.equals(batch_of(number))
        addresses.add(batch.column(1).buffers()[2].address)
        del batch
        lender.take_back(borrower.ended())
    assert len(addresses) == 1
    lender.close()


def test_what_is_kept_stays_as_it_was() -> None:
    """A reader that keeps its batches, or a part of one, finds them unchanged; what has no buffer goes another way."""
    lender, borrower = BufferProducer(), BufferConsumer()
    kept = [borrower.read(lend(lender, batch_of(number))).slice(100, 7).column(1) for number in range(BUFFERS)]
    lender.take_back(borrower.ended())
    assert lender.lend(batch_of(99)) is None
    last = kept.pop()
    assert last.to_pylist() == batch_of(BUFFERS - 1).slice(100, 7).column(1).to_pylist()
    del last
    lender.take_back(borrower.ended())
    assert borrower.read(lend(lender, batch_of(7, 2 * ROWS))).equals(batch_of(7, 2 * ROWS)), (
        "a larger one takes its place"
    )
    for number, part in enumerate(kept):
        assert part.to_pylist() == batch_of(number).slice(100, 7).column(1).to_pylist()
    lender.close()
    assert kept[0].to_pylist() == batch_of(0).slice(100, 7).column(1).to_pylist()


def test_what_is_not_lent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small batches, very large ones, and all of them where the system gives no such memory."""
    lender = BufferProducer()
    assert lender.lend(batch_of(0, 10)) is None
    assert lender.lend(pa.record_batch({"value": pa.array([b"x" * MOST_BYTES])})) is None

    def refuse(*_: object) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "memfd_create", refuse)
    assert [lender.lend(batch_of(0)) for _ in range(3)] == [None, None, None]


def test_no_more_is_read_than_a_buffer_has() -> None:
    """Whatever length is told: of the bytes behind it nobody knows whose they are."""
    batch = pa.record_batch({"value": pa.array([bytes(LEAST_BYTES)])})
    producer = BufferProducer()
    lent = producer.lend(batch)
    assert lent is not None
    assert lent.descriptor is not None
    for told in (lent._replace(nbytes=lent.size + 1), lent._replace(size=2 * lent.size, nbytes=1)):
        with pytest.raises(ValueError):
            BufferConsumer().read(told._replace(descriptor=os.dup(lent.descriptor)))
    producer.close()


def test_what_was_not_lent_is_not_taken_back() -> None:
    """A number that nobody has, or that is free already, is refused."""
    lender = BufferProducer()
    assert lender.lend(batch_of(0))
    lender.take_back(b"\0")
    for wrong in (b"\0", b"\7"):
        with pytest.raises(KeyError):
            lender.take_back(wrong)
    lender.close()


class Large:
    """Serves batches of ``ROWS`` offsets, a few rows in between."""

    def serve(self, ranges: Sequence[Range], *_: Any, **__: Any) -> Iterator[Served]:
        """The steps of a request for one range."""
        (wanted,) = ranges
        at = wanted.start
        while at < wanted.end:
            rows = ROWS if at % 3 else 5
            yield Served([(0, at + rows)], batch_of(at, rows), sizes=[rows])
            at += rows


@pytest.fixture
def client() -> Iterator[TaskClient]:
    """A client of a server of large batches."""
    name = f"cohort-test-{uuid.uuid4().hex}"
    server = new_server(name, "token", Large())
    server.start()
    client = TaskClient(name, "token", 5)
    yield client
    client.close()
    server.close()


@pytest.mark.parametrize("keep", [0, 50])
def test_rows_come_whole_however_many_are_kept(client: TaskClient, keep: int) -> None:
    """Through the socket: a task that lets go at once, later or never gets all rows in order, request after request."""
    end = 15 * ROWS
    for _ in range(2):
        at, kept = 0, list[pa.RecordBatch]()
        for step in client.read([Range("t", 0, 0, end)], [0], 1):
            assert step.batch is not None
            assert step.batch.equals(batch_of(at, step.batch.num_rows))
            at += step.batch.num_rows
            kept = [*kept, step.batch][-keep:] if keep else []
        assert at >= end
        for batch in kept:
            assert batch.equals(batch_of(batch["offset"][0].as_py(), batch.num_rows))


def test_a_task_of_pysparks_reads_all_in_place(client: TaskClient) -> None:
    """Who keeps the first batch, as PySpark does, and the last one, finds every large batch in shared memory."""
    kept, elsewhere = list[pa.RecordBatch](), 0
    for step in client.read([Range("t", 0, 1, 15 * ROWS)], [0], 1):
        assert step.batch is not None
        kept[1:] = [step.batch]
        elsewhere += step.batch.num_rows == ROWS and not in_a_slab(step.batch)
    assert elsewhere == 0


def in_a_slab(batch: pa.RecordBatch) -> bool:
    """Whether the rows lie in shared memory."""
    address = batch.column("value").buffers()[2].address
    maps = [
        line.split()[0].split("-")
        for line in Path("/proc/self/maps").read_text().splitlines()
        if "cohort-batch" in line
    ]
    return any(int(begin, 16) <= address < int(end, 16) for begin, end in maps)


def test_nothing_is_left(client: TaskClient) -> None:
    """A read that is given up leaves neither descriptors nor memory behind; what was taken stays readable."""
    steps = client.read([Range("t", 0, 1, 100 * ROWS)], [0], 1)
    kept = [next(steps) for _ in range(MOST_STEPS_AHEAD)]
    assert mine() > (0, 0)
    del steps
    assert kept[0].batch is not None and kept[0].batch.equals(batch_of(1))
    del kept
    gc.collect()
    wait_until(lambda: mine() == (0, 0), 5, "the memory to go")


def mine() -> tuple[int, int]:
    """This process's descriptors and mappings of buffers."""
    opened = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            opened += "cohort-batch" in str(descriptor.readlink())
    return opened, Path("/proc/self/maps").read_text().count("cohort-batch")
