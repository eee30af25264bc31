"""What the JSON reader is fed with; ``fuzz.py`` feeds it."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from sparkcohort.runtime.values.json_plan import packed, plan
from sparkcohort.runtime.values.types import ColumnType, array, mapping
from sparkcohort.runtime.values.types import struct as struct_type
from tests.kit.fuzz import Fuzzed
from tests.kit.json_records import MORE_NUMBERS, NUMBERS, PRIMITIVES, TEXTS

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


def seeds() -> list[str]:
    """Every value for every primitive, and what is nested."""
    whole = [*NUMBERS, *MORE_NUMBERS, "true", "false", "null", "[1]", '{"a": 1.50}', *map(json.dumps, TEXTS)]
    names = "abcdefghijklmnop"[: len(PRIMITIVES)]
    flat = [f"{{{json.dumps(name)}:{value}}}" for value in whole for name in names]  # short, so that a hit hits
    nested = (
        '{"o":{"n":1,"s":"x","n":"y"},"l":[{"n":1},{"n":"x"},null],"m":{"k":{"s":1.50},"k":{}},"ll":[[1],[],[2,3]],'
        '"ml":{"a":["b"]},"e":{"z":[1,{}]},"d":[1e400,NaN],"l":3,"o":{"s":{"a":[true]}}}'
    )
    more = [
        "",
        " ",
        "null",
        "[]",
        '"\\ud83d\\ude00"',
        '{"o":"\\ud800"}',
        '{"ll":[[1],["x"]],"ml":{"a":[[]]}} x',
        nested,
    ]
    return [f"{number:02x}" + each.encode().hex() for number in range(len(TARGETS)) for each in [*flat, *more]]


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


def least() -> list[str]:
    """What the corpus keeps, whatever else reaches the same code: a good record of every plan, and one that is no UTF-8."""
    good = [f"{number:02x}" + b"{}".hex() for number in range(len(TARGETS))]
    return [*good, "00" + b'{"a":"\xff"}'.hex()]


FUZZED = Fuzzed("json", SOURCES, plans, seeds, least, yyjson)
