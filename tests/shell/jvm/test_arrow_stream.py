"""What the jar reads of a batch of Arrow, and to whose socket it speaks; bytes that are none are a target of `make fuzz`."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import os
import socket
import struct
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.kit.arrow_in_java import DDL, ReaderInJava, stream, typed_batch

ROWS = 100


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReaderInJava]:
    """One JVM for all questions."""
    with ReaderInJava(tmp_path_factory.mktemp("classes"), "ArrowBatches") as running:
        yield running


@pytest.fixture(scope="module")
def batch() -> pa.RecordBatch:
    """Every type."""
    return typed_batch(ROWS)


def _answer(java: ReaderInJava, path: Path, written: bytes) -> str:
    path.write_bytes(written)
    return java.ask(f"{DDL}\t{path}")


def _as_json(value: Any) -> Any:
    """A value as Spark's ``Row.json`` writes it."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case dt.datetime():
            return str(value.replace(tzinfo=None))
        case dt.date():
            return str(value)
        case decimal.Decimal():
            return float(value)
        case _:
            return value


def _expected(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    rows = batch.to_pylist(maps_as_pydicts="strict")
    return [{name: _as_json(value) for name, value in row.items() if value is not None} for row in rows]


def _read(answer: str) -> list[dict[str, Any]]:
    rows = json.loads(answer)
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


@pytest.mark.parametrize("part", [slice(0, ROWS), slice(13, 63), slice(7, 8), slice(0, 0)], ids=str)
def test_a_batch_has_arrows_values(java: ReaderInJava, batch: pa.RecordBatch, part: slice, tmp_path: Path) -> None:
    """Each type, with nulls, at any start: offsets of lists and bitmaps need not begin at 0."""
    rows = batch.slice(part.start, part.stop - part.start)
    assert _read(_answer(java, tmp_path / "rows.arrow", stream(rows))) == _expected(rows)


@pytest.mark.parametrize("places", [(0, 3, 6), (0, -1, 5), (4, 3, 5), (-1, 3, 5)])
def test_a_value_lies_in_its_buffer(java: ReaderInJava, places: tuple[int, int, int], tmp_path: Path) -> None:
    """Not a byte of what lies behind or before it is read."""
    whole, offsets = stream(pa.record_batch({"w": ["abc", "de"]})), struct.pack("<3i", 0, 3, 5)
    assert whole.count(offsets) == 1
    path = tmp_path / "rows.arrow"
    path.write_bytes(whole.replace(offsets, struct.pack("<3i", *places)))
    assert java.ask(f"w string\t{path}").startswith("malformed: ")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user for a moment")
def test_other_users_are_strangers(java: ReaderInJava) -> None:
    """A socket that another user has opened under the agent's name gets no word: the first one would have the token."""
    name = f"cohort-test-{uuid.uuid4().hex}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(b"\0" + name.encode())
        for user, answer in (
            (0, "connected"),
            (65534, "the agent of this executor: its socket belongs to another user"),
        ):
            os.seteuid(user)
            try:
                server.listen()  # the kernel notes whose socket it is here (unix(7), SO_PEERCRED)
            finally:
                os.seteuid(0)
            assert java.ask(name) == answer
    assert java.ask(name) == "the agent of this executor: there is none"
