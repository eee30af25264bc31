"""The native decoder builds the columns that are asked for, in their order, and no others."""

from __future__ import annotations

from functools import partial
from itertools import chain, combinations
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkcohort.native import _native
from sparkcohort.runtime.batches.offset_runs import OffsetRuns
from sparkcohort.runtime.values.columns import KAFKA_ROW, KAFKA_ROW_WITH_HEADERS, OFFSETS, Columns
from tests.kit.parts import NO_END, decoder, in_pieces, logs
from tests.kit.record_batches import Batch, Record, encode
from tests.kit.tier import of_tier

SUBSETS = [*chain.from_iterable(combinations(KAFKA_ROW_WITH_HEADERS, n) for n in range(1, 9))]
LOG = (
    Batch(5, (Record(0, 3, b"k", None, ((b"h", b"1"), (b"h", None))), Record(1, 0, None, b"", ())), 4),
    Batch(12, tuple(Record(n, n, b"key", b"v" * 300) for n in range(0, 300, 3)), 400, codec=1),
)


def rows_of(
    data: bytes, columns: Columns, limit: int = 1_000, window: int = 1 << 20
) -> tuple[pa.Table, list[int], int]:
    """All rows, their offsets as the runs tell them, and the bytes that the batches hold."""
    part = decoder(columns=columns, window=window, by=in_pieces).part(data, 0, len(data), "t", 7, 0, NO_END, -1, None)
    batches, offsets, held = [], list[int](), 0
    while (event := part.take(limit, 1 << 20)) is not None:
        if event[0] == _native.RECORDS and event[5] is not None:
            batch, runs = event[5]
            batch.validate(full=True)
            offsets += expanded(runs, batch.num_rows)
            batches.append(batch)
            held += event[4]
        elif event[0] != _native.UNPACKING and event[0] != _native.RECORDS:
            break
    assert part.begun()[0] >= len(offsets)
    schema = decoder_schema(columns)
    return pa.Table.from_batches(batches, schema), offsets, held


def decoder_schema(columns: Columns) -> pa.Schema:
    """The declared schema."""
    from sparkcohort.runtime.shell.kafka.fetch import arrow_rows

    return arrow_rows.schema(columns)


def expanded(runs: OffsetRuns, rows: int) -> list[int]:
    """The offsets that runs stand for."""
    starts = [*runs]
    ends = [row for _, row in starts[1:]] + [rows]
    return [offset + n for (offset, row), end in zip(starts, ends, strict=True) for n in range(end - row)]


def test_every_subset_is_that_of_the_full_rows() -> None:
    """All 255 of them, each value; the offsets are known without their column, and bytes are those of the columns."""
    data = b"".join(map(encode, LOG))
    full, offsets, held = rows_of(data, KAFKA_ROW_WITH_HEADERS)
    assert full.column("offset").to_pylist() == offsets
    assert len(SUBSETS) == 255
    sizes = dict[Columns, int]()
    for columns in SUBSETS:
        found, its_offsets, sizes[columns] = rows_of(data, columns)
        assert found.equals(full.select([column.name for column in columns]))
        assert its_offsets == offsets
    runs = 16 * (len(OffsetRuns.from_offsets(offsets)) - 1)
    for columns, size in sizes.items():
        assert size == sum(sizes[(column,)] - runs for column in columns) + runs
    assert sizes[tuple(KAFKA_ROW_WITH_HEADERS)] == held


@settings(max_examples=of_tier(quick=12, thorough=60))
@given(
    log=logs(),
    columns=st.permutations(KAFKA_ROW_WITH_HEADERS).flatmap(
        lambda all_: st.integers(1, 8).map(lambda n: tuple(all_[:n]))
    ),
    limit=st.sampled_from([1, 3, 1_000]),
    window=st.sampled_from([1, 100, 1 << 20]),
)
def test_any_log_any_columns_any_order(log: list[Any], columns: Columns, limit: int, window: int) -> None:
    """Gaps, transactions, codecs, pieces: what is there is what the full rows have there."""
    data = b"".join(map(encode, log))
    full, offsets, _ = rows_of(data, KAFKA_ROW_WITH_HEADERS)
    found, its_offsets, _ = rows_of(data, columns, limit, window)
    whole = {column.name for column in columns} >= {"headers", "timestamp"}
    # A record that the full row can't hold is no fault of columns that don't have it.
    n = len(offsets)
    assert its_offsets[:n] == offsets
    assert found.slice(0, n).equals(full.select([column.name for column in columns]))
    assert not whole or len(its_offsets) == n


def test_what_is_not_asked_for_is_no_fault() -> None:
    """A timestamp that microseconds can't hold, and a header key that is no text, fail only those who ask for them."""
    data = encode(Batch(0, (Record(0, 2**60, None, b"v", ((b"\xff", b""),)),)))
    value = KAFKA_ROW[1:2]
    assert rows_of(data, value)[0].to_pydict() == {"value": [b"v"]}
    assert rows_of(data, KAFKA_ROW)[0].num_rows == 0
    assert rows_of(data, KAFKA_ROW_WITH_HEADERS[-1:])[0].num_rows == 0


def test_a_value_that_nobody_asked_for_takes_no_room() -> None:
    """Batches are cut by the bytes that become columns."""
    data = encode(Batch(0, tuple(Record(n, value=b"v" * 10_000) for n in range(500))))
    part = decoder(columns=OFFSETS).part(data, 0, len(data), "t", 7, 0, NO_END, -1, None)
    event = part.take(10_000, 64_000)
    assert event is not None
    assert (event[5][0].num_rows, event[4]) == (500, 4_000)
    assert part.begun()[1] > 500 * 10_000


@pytest.mark.parametrize("fields", [b"", b"\x08", b"\x01\x01", bytes(range(9)), b"\xff"])
def test_what_are_no_fields_is_refused(fields: bytes) -> None:
    """None at all, one twice, and what is none."""
    with pytest.raises(ValueError, match="not fields of a record, each once"):
        _native.Decoder(fields, partial(print), partial(print), 1, 1)
