"""What Arrow holds, as Python's values: dates and times as numbers, since Python knows no year 0."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def plain_rows(rows: Any) -> list[Any]:
    """All rows of an array."""
    return [plain(row) for row in rows]


def decode(decoder: Any, *records: bytes) -> int:
    """Decode records, a null and records again, whole and in part, which gives the same rows; how many are good."""
    column = pa.array([*records, None, *records], pa.binary())
    rows, bad = decoder.decode(column)
    rows.validate(full=True)
    part, _ = decoder.decode(column.slice(1, len(records) + 1))  # begins and ends inside of a byte of the validity
    # As text: NaN is itself.
    assert part.to_string(window=10_000) == rows.slice(1, len(records) + 1).to_string(window=10_000)
    return len(rows) - len(bad)


def plain(value: Any) -> Any:
    """One value: a struct is a dict, a map a list of pairs, a time its microseconds."""
    if not value.is_valid:
        return None
    if pa.types.is_struct(value.type):
        return {name: plain(value[name]) for name in value}
    if pa.types.is_map(value.type):
        return [(pair["key"].as_py(), plain(pair["value"])) for pair in value.values]
    if pa.types.is_list(value.type):
        return [plain(item) for item in value.values]
    return value.value if pa.types.is_temporal(value.type) else value.as_py()
