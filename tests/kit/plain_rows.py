"""What Arrow holds, as Python's values: dates and times as numbers, since Python knows no year 0."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def plain_rows(rows: Any) -> list[Any]:
    """All rows of an array."""
    return [plain(row) for row in rows]


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
