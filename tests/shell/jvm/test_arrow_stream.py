"""What the jar reads of a batch of Arrow; bytes that are none are a target of `make fuzz` (``tests.kit.jvm_targets``)."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
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
