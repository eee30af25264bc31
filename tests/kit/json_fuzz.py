"""What the JSON reader is fed with; ``fuzz.py`` feeds it."""

from __future__ import annotations

import struct
from pathlib import Path

from sparkcohort.runtime.values.json_plan import packed, plan
from sparkcohort.runtime.values.types import ColumnType, array, mapping
from sparkcohort.runtime.values.types import struct as struct_type
from tests.kit.fuzz import Fuzzed
from tests.kit.json_records import PRIMITIVES

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (
    "values/json.c",
    "values/json_plan.c",
    "values/json_text.c",
    "values/tree.c",
    "values/tree_export.c",
    "arrow/blocks.c",
)

INNER = struct_type({"n": ColumnType("int"), "s": ColumnType("string")})
NESTED = {
    "o": INNER,
    "l": array(INNER),
    "m": mapping(INNER),
    "ll": array(array(ColumnType("bigint"))),
    "ml": mapping(array(ColumnType("string"))),
    "e": struct_type({}),
}
TARGETS = [
    struct_type({"abcdefghijklmnop"[place]: kind for place, kind in enumerate(PRIMITIVES)}),
    struct_type({"abcdefghijklmnop"[place]: kind for place, kind in enumerate(PRIMITIVES) if kind.kind != "decimal"}),
    struct_type({**NESTED, "d": array(ColumnType("double"))}),
    struct_type({}),
]


def yyjson() -> tuple[Path, ...]:
    """The source that the wheel was built from."""
    return (max((ROOT / ".cache" / "sources").glob("yyjson-*/")) / "yyjson.c",)


def plans() -> bytes:
    """As the program reads them."""
    parts = [struct.pack("=q", len(TARGETS))]
    for target in TARGETS:
        fields, names = packed(plan(target))
        parts += [struct.pack("=q", len(fields) // 16), fields, struct.pack("=q", len(names)), names]
    return b"".join(parts)


FUZZED = Fuzzed("json", SOURCES, plans, yyjson)
