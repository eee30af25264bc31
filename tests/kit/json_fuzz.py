"""JSON's records as a target of ``targets``: columns of all types."""

from __future__ import annotations

from functools import cache

from sparkcohort.runtime.shell.values.json_decoder import JsonValues
from sparkcohort.runtime.values.types import ColumnType, array, mapping, struct
from tests.kit.json_records import PRIMITIVES
from tests.kit.plain_rows import decode
from tests.kit.targets import Target

INNER = struct({"n": ColumnType("int"), "s": ColumnType("string")})
NESTED = {
    "o": INNER,
    "l": array(INNER),
    "m": mapping(INNER),
    "ll": array(array(ColumnType("bigint"))),
    "ml": mapping(array(ColumnType("string"))),
    "e": struct({}),
}
COLUMNS = [
    struct({"abcdefghijklmnop"[place]: kind for place, kind in enumerate(PRIMITIVES)}),
    struct({"abcdefghijklmnop"[place]: kind for place, kind in enumerate(PRIMITIVES) if kind.kind != "decimal"}),
    struct({**NESTED, "d": array(ColumnType("double"))}),
    struct({}),
]


@cache
def decoders() -> list[JsonValues]:
    """Those of the columns."""
    return [JsonValues(columns) for columns in COLUMNS]


def check(data: bytes) -> None:
    """The number of the columns, then a record."""
    if data:
        decode(decoders()[data[0] % len(COLUMNS)], data[1:])


TARGET = Target("json", check, words=(b"null", b"true", b"\\u00e9", b"2020-01-01 00:00:00", b"1e-5"))
