"""What the jar reads of a batch of Arrow, and what it does with bytes that are none."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.kit.arrow_in_java import ArrowInJava
from tests.kit.tier import of_tier

ROWS = 100
TYPES: dict[str, tuple[str, pa.DataType, Any]] = {
    "boolean": ("boolean", pa.bool_(), lambda i: i % 3 == 0),
    "tiny": ("tinyint", pa.int8(), lambda i: i - 50),
    "small": ("smallint", pa.int16(), lambda i: i * 300 - 15000),
    "whole": ("int", pa.int32(), lambda i: i * 10**7),
    "long": ("bigint", pa.int64(), lambda i: i * 10**15),
    "single": ("float", pa.float32(), lambda i: i / 4),
    "twice": ("double", pa.float64(), lambda i: i / 7),
    "words": ("string", pa.string(), lambda i: "é" * (i % 5) + str(i)),
    "bytes": ("binary", pa.binary(), lambda i: bytes([i]) * (i % 4)),
    "day": ("date", pa.date32(), lambda i: dt.date(1970, 1, 1) + dt.timedelta(days=i)),
    "instant": ("timestamp", pa.timestamp("us", "UTC"), lambda i: i * 10**9),
    "local": ("timestamp_ntz", pa.timestamp("us"), lambda i: i * 10**9),
    "price": ("decimal(10,2)", pa.decimal128(10, 2), lambda i: decimal.Decimal(i * 2 - 100) / 4),
    "large": ("decimal(30,5)", pa.decimal128(30, 5), lambda i: decimal.Decimal((i - 50) * 10**15) / 32),
    "pair": (
        "struct<a:int,b:string>",
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
        lambda i: {"a": i, "b": "q" * (i % 3)},
    ),
    "names": ("array<string>", pa.list_(pa.string()), lambda i: [str(j) for j in range(i % 4)]),
    "counts": ("map<string,int>", pa.map_(pa.string(), pa.int32()), lambda i: [(str(j), j) for j in range(i % 3)]),
    "deep": (
        "array<struct<k:string,v:array<int>>>",
        pa.list_(pa.struct([("k", pa.string()), ("v", pa.list_(pa.int32()))])),
        lambda i: [{"k": str(j), "v": list(range(j))} for j in range(i % 3)],
    ),
}
DDL = ", ".join(f"{name} {ddl}" for name, (ddl, _, _) in TYPES.items())


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArrowInJava]:
    """One JVM for all questions."""
    with ArrowInJava(tmp_path_factory.mktemp("classes")) as running:
        yield running


@pytest.fixture(scope="module")
def batch() -> pa.RecordBatch:
    """Every type, a fifth of its values null."""
    chance = random.Random(1)
    columns = [
        pa.array([None if chance.random() < 0.2 else value(i) for i in range(ROWS)], kind)
        for _, kind, value in TYPES.values()
    ]
    return pa.RecordBatch.from_arrays(columns, list(TYPES))


def _stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _answer(java: ArrowInJava, path: Path, stream: bytes) -> str:
    path.write_bytes(stream)
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
def test_a_batch_has_arrows_values(java: ArrowInJava, batch: pa.RecordBatch, part: slice, tmp_path: Path) -> None:
    """Each type, with nulls, at any start: offsets of lists and bitmaps need not begin at 0."""
    rows = batch.slice(part.start, part.stop - part.start)
    assert _read(_answer(java, tmp_path / "rows.arrow", _stream(rows))) == _expected(rows)


def test_bytes_that_are_no_batch_end_no_process(java: ArrowInJava, batch: pa.RecordBatch, tmp_path: Path) -> None:
    """Offsets and lengths are checked against the memory before use: a lie is an error, never a dead executor."""
    chance, whole = random.Random(2), _stream(batch)
    malformed = 0
    for _ in range(of_tier(quick=400, thorough=4000)):
        stream = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            stream[chance.randrange(len(stream))] = chance.choice((0, 127, 128, 255, chance.randrange(256)))
        if chance.random() < 0.1:
            del stream[chance.randrange(len(stream)) :]
        malformed += _answer(java, tmp_path / "mutated.arrow", bytes(stream)).startswith("malformed: ")
    assert malformed > 0
    assert _read(_answer(java, tmp_path / "rows.arrow", whole)) == _expected(batch)  # it is still alive
