"""The jar's reader of slots beside an agent's real socket, for a long time."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pytest

from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.partitions import Range
from sparkcohort.runtime.shell.agent.shared_memory import LEAST_BYTES
from sparkcohort.runtime.shell.agent.task_frames import Served
from tests.kit.arrow_in_java import ReaderInJava
from tests.kit.local_server import new_server
from tests.kit.waiting import wait_until

SLOT: Final = 20
"""Batches of a slot; its connection, its buffers and their descriptors end with it."""
AT_ONCE: Final = 500
BATCHES: Final = 10_000
DDL: Final = "value binary, offset bigint"
SMALL = pa.RecordBatch.from_pydict({"value": [b"v" * 10] * 10, "offset": range(10)})
LARGE = pa.RecordBatch.from_pydict({"value": [b"v" * (LEAST_BYTES // 8)] * 10, "offset": range(10)})
PER_SLOT: Final = SLOT * SMALL.num_rows


class Figures(NamedTuple):
    """What the JVM has open, bytes outside of its heap, and bytes resident."""

    descriptors: int
    outside: int
    resident: int


class Rows:
    """A prefetcher that has a slot's rows: small batches for frames, large ones for shared memory."""

    def serve(self, ranges: Sequence[Range], *_: Any) -> Iterator[Served]:
        """By turns."""
        for step in range(SLOT):
            batch = LARGE if step % 2 else SMALL
            yield Served(((0, (step + 1) * batch.num_rows),), batch, sizes=(batch.nbytes,))


def _claim(action: str, _body: bytes, _timeout_s: float) -> bytes:
    reply = calls.ClaimReply((Range("t", 0, 0, PER_SLOT),), (0,), 1, {}, agent=True)
    return calls.encode(reply) if action == "Claim" else b""


@pytest.mark.thorough("10,000 batches")
@pytest.mark.timeout(300)
def test_what_is_open_and_what_lies_outside_of_the_heap_stay_flat(tmp_path: Path) -> None:
    """Over 10,000 batches: descriptors, mappings, direct memory, resident memory."""
    with ReaderInJava(tmp_path, "SlotReads") as java:
        run = secrets.token_hex(4)
        server = new_server(f"cohort-{run}-{java.ask('name')}", "token", Rows(), call_coordinator=_claim)

        def read(batches: int) -> Figures:
            slots = AT_ONCE // SLOT
            for _ in range(batches // AT_ONCE):
                assert java.ask(f"{DDL}\t{run}\t{slots}") == f"{slots * PER_SLOT} 0"
            return figures()

        def figures() -> Figures:
            return Figures(*map(int, java.ask("figures").split()))

        server.start()
        try:
            warm = read(BATCHES // 4)
            after = read(BATCHES)
            # Java closes what its collector finds a little later than it finds it.
            wait_until(lambda: figures()[:2] <= warm[:2], 20, f"{after} to be {warm} again")
        finally:
            server.close()
        assert after.resident < warm.resident + (16 << 20)
