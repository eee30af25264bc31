"""Drawn types, and JSON for them that mostly fits; names and values that come again and again, so that faults meet."""

from __future__ import annotations

import json
from functools import cache

from hypothesis import strategies as st

from sparkcohort.runtime.values.types import ColumnType, array, decimal, mapping, struct

PRIMITIVES = [
    *map(ColumnType, ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary")),
    *map(ColumnType, ("date", "timestamp", "timestamp_ntz")),
    decimal(5, 2),
    decimal(38, 0),
    decimal(38, 38),
    decimal(1, 0),
]
SPECIAL = ("tinyint", "string", "binary")
NAMES = ["a", "b", "ab", "ba", "aab", "abb", "", "é", "name", "nome", "x" * 40]
WHOLE = [0, 1, -1, 127, 128, -128, -129, 32767, 32768, -32768, -32769, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, -(2**63)]
NUMBERS = [*map(str, WHOLE), "-0", "1.0", "0.5", "-2.25", "1e2", "1E-2", "123456.75", "999.99", "-999.99", "0.005"]
SECONDS = [number for number in NUMBERS if len(number) < 12]  # which TIMESTAMP can hold
PLAIN_NUMBERS = (
    "-9223372036854775809 18446744073709551615 18446744073709551616 -0.0 1e400 -1e400 1e-400 1.10 99999 1e37 "
    "1e38 0.0049999999 1.5e3 9.5 9223372036855 123456789012345678901.5 NaN Infinity -Infinity 5e-324 "
    "2.2250738585072014e-308"
)
MORE_NUMBERS = [str(2**63), "1" + "0" * 40, "0." + "9" * 39, "9" * 38, *PLAIN_NUMBERS.split()]
ODD_TEXTS = ["", "x" * 30, "é", "\U0001f600", '"', "\\", "/", "\x00", "\x1f", "\u2028", " YWJj  YWJj\n"]
PLAIN_TEXTS = (
    "a|true|1|NaN|+INF|-Infinity|1.5|1,000.25|-.5|5.|+1e2|1e|.|2020-02-29|2019-02-29| 2020-1-2 |2020-01-02T|"
    "0000-03-01|2020|2020-12|12345678|-5|+5|--5|+-5|-+5|-0400-02-29|+2020-01-01|2020-01-02 x|2020-13-01|"
    "2020-00-10|2020-01-02 03:04:05|2020-01-02T3:4:5.678|2020-01-02T03:04:05.1234567Z|"
    "2020-01-02 03:04:05+01:00|2020-01-02 03:04:05 -1:30|2020-01-02 03:04:05UTC+2|2020-01-02 03:04:05GMT|"
    "2020-01-02 03:04|2020-01-02 24:00|2020-01-02 03:04:05.|2020-01-02 03:04:60|2020-01-02 03:04:05+19:00|"
    "2020-01-02 03:04:05+0130|2020-01-02 3|2020-01-02 03:04:05+013015|2020-01-02 03:04:05+01:30:15|"
    "200000-01-01 00:00:00|999999-01-01|9999999-01-01|YWJj|YQ==|YWI=|YQ=|YQ|Y===|YW Jj|YWJj!|+/+/|YQ==YQ=="
)
TEXTS = [*ODD_TEXTS, *PLAIN_TEXTS.split("|")]


@st.composite
def types(draw: st.DrawFn, depth: int = 3, rare: bool = True) -> ColumnType:
    """A struct, of others too; without ``rare``, none with a type that the page of differences has much to say of."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=6))
    return struct({name: draw(_types(depth - 1, rare)) for name in names if rare or (name and name.isascii())})


@cache
def _types(depth: int, rare: bool) -> st.SearchStrategy[ColumnType]:
    primitives = st.sampled_from([each for each in PRIMITIVES if rare or each.kind not in SPECIAL])
    if not depth:
        return primitives
    inner = _types(depth - 1, rare)
    return primitives | st.builds(array, inner) | st.builds(mapping, inner) | types(depth, rare)


def string(text: str) -> str:
    """A string in JSON, some with escapes."""
    return json.dumps(text, ensure_ascii=len(text) % 2 == 0)


@st.composite
def values(draw: st.DrawFn, kind: ColumnType, rare: bool = True) -> str:
    """JSON for a type, or for another one; without ``rare``, none that stands in the page of differences."""
    seconds = kind.kind == "timestamp" and not rare
    if draw(st.integers(0, 9)) == 0:
        kind = draw(st.sampled_from([*PRIMITIVES, array(ColumnType("int")), mapping(ColumnType("int")), struct({})]))
    if draw(st.integers(0, 9)) == 0:
        return "null"
    if kind.kind == "struct":
        return draw(objects(kind, rare))
    if kind.kind == "array":
        return "[" + ",".join(draw(st.lists(values(kind.children[0], rare), max_size=3))) + "]"
    if kind.kind == "map":
        pairs = draw(st.lists(st.tuples(st.sampled_from(NAMES), values(kind.children[1], rare)), max_size=3))
        return "{" + ", ".join(f"{string(name)}: {value}" for name, value in pairs) + "}"
    if kind.kind == "boolean":
        return draw(st.sampled_from(["true", "false"]))
    if kind.kind in ("string", "binary", "date", "timestamp", "timestamp_ntz"):
        return string(draw(st.sampled_from(TEXTS)))
    if seconds:
        return draw(st.sampled_from(SECONDS))
    return draw(st.sampled_from([*NUMBERS, *MORE_NUMBERS] if rare else NUMBERS) | st.integers(-200, 200).map(str))


@st.composite
def objects(draw: st.DrawFn, kind: ColumnType, rare: bool = True) -> str:
    """An object with some of a struct's fields, in any order, some of them twice, and with others."""
    known = list(zip(kind.names, kind.children, strict=True))
    fields: list[tuple[str, ColumnType]] = list(draw(st.permutations(known)))
    if known and draw(st.integers(0, 3)) == 0:
        fields += draw(st.lists(st.sampled_from(known), max_size=2))
    if draw(st.integers(0, 3)) == 0:
        fields.insert(0, (draw(st.sampled_from(NAMES)), draw(st.sampled_from(PRIMITIVES))))
    if fields and draw(st.integers(0, 3)) == 0:
        fields.pop()
    space = draw(st.sampled_from(["", " ", "\n\t"]))
    parts = [f"{string(name)}{space}:{space}{draw(values(each, rare))}" for name, each in fields]
    return "{" + space + f",{space}".join(parts) + "}"


@st.composite
def records(draw: st.DrawFn, kind: ColumnType) -> bytes | None:
    """A record's bytes, or what is left of them after an accident."""
    if draw(st.integers(0, 19)) == 0:
        return draw(
            st.sampled_from([None, b"", b" \n", b"null", b"[]", b"1", b'"a"', b"{}", b"\xef\xbb\xbf{}", b"{}}"])
        )
    record = bytearray(draw(objects(kind)).encode())
    if draw(st.integers(0, 9)) == 0:
        at = draw(st.integers(0, len(record)))
        record[at : at + draw(st.integers(0, 2))] = draw(
            st.binary(max_size=2) | st.sampled_from([b'"', b"\\", b"}", b","])
        )
    return bytes(record) + draw(st.sampled_from([b"", b"", b" ", b" {}", b"\xff"]))


def repeated(kind: ColumnType) -> st.SearchStrategy[str]:
    """JSON for a type or for another one, whose fields come again and again."""
    fits = st.integers(0, 99).map(str)
    if kind.kind == "struct":
        known = zip(kind.names, kind.children, strict=True)
        field = st.one_of([st.tuples(st.just(name), repeated(child)) for name, child in known])
        objects = st.lists(field, max_size=8)
        fits = objects.map(lambda fields: "{" + ",".join(f'"{name}":{value}' for name, value in fields) + "}")
    elif kind.kind == "array":
        fits = st.lists(repeated(kind.children[0]), max_size=3).map(lambda items: "[" + ",".join(items) + "]")
    elif kind.kind == "map":
        pairs = st.lists(repeated(kind.children[1]), max_size=3)
        fits = pairs.map(lambda values: "{" + ",".join(f'"k":{value}' for value in values) + "}")
    return st.one_of(fits, fits, st.sampled_from(["null", "7", '"x"', "[]", "{}", "[1]", '{"n":1}', '{"n":"x"}']))
