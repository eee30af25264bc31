"""Drawn Avro schemas, what they may become later, and records for them: JSON and values as fastavro takes them."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from typing import Any

import fastavro
from hypothesis import strategies as st

PRIMITIVES = ("boolean", "int", "long", "float", "double", "bytes", "string")
PROMOTED = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
SYMBOLS = ("RED", "GREEN", "BLUE", "GREY")
EXACT = 1 << 24
"""Ints up to here are exact as floats, into which they may be promoted."""

Draw = st.DrawFn


@st.composite
def schemas(draw: Draw, depth: int = 3) -> dict[str, Any]:
    """A record's schema, as JSON."""
    names = (f"N{number}" for number in itertools.count())
    return _record(draw, names, depth)


def _record(draw: Draw, names: Iterator[str], depth: int) -> dict[str, Any]:
    name = next(names)
    fields = [{"name": f"f{place}", "type": _type(draw, names, depth - 1)} for place in range(draw(st.integers(0, 5)))]
    return {"type": "record", "name": name, "fields": fields}


def _type(draw: Draw, names: Iterator[str], depth: int) -> Any:
    kinds = [*PRIMITIVES, "enum", "fixed", "optional"]
    kind = draw(st.sampled_from([*kinds, "array", "map", "record", "union"] if depth > 0 else kinds))
    if kind == "optional":
        return draw(st.permutations(["null", _branch(draw, names, depth - 1)]))
    if kind == "union":
        unnamed = draw(st.lists(st.sampled_from(PRIMITIVES), unique=True, max_size=3))
        branches = [*unnamed, *(_named(draw, names, depth - 1) for _ in range(draw(st.integers(not unnamed, 2))))]
        return draw(st.permutations(["null", *branches] if draw(st.booleans()) else branches))
    return _branch(draw, names, depth, kind)


def _branch(draw: Draw, names: Iterator[str], depth: int, kind: str = "") -> Any:
    """A type that is no union."""
    kind = kind or draw(st.sampled_from([*PRIMITIVES, "enum", "array"] if depth > 0 else PRIMITIVES))
    if kind == "array":
        return {"type": "array", "items": _type(draw, names, depth - 1)}
    if kind == "map":
        return {"type": "map", "values": _type(draw, names, depth - 1)}
    if kind in ("enum", "fixed"):
        return _named(draw, names, depth, kind)
    return _record(draw, names, depth - 1) if kind == "record" else kind


def _named(draw: Draw, names: Iterator[str], depth: int, kind: str = "") -> dict[str, Any]:
    kind = kind or draw(st.sampled_from(["enum", "fixed", "record"] if depth > 0 else ["enum", "fixed"]))
    if kind == "record":
        return _record(draw, names, depth - 1)
    if kind == "fixed":
        return {"type": "fixed", "name": next(names), "size": draw(st.integers(0, 4))}
    return {"type": "enum", "name": next(names), "symbols": list(draw(st.permutations(SYMBOLS))[:3])}


@st.composite
def evolved(draw: Draw, schema: Any) -> Any:
    """What a schema may have become: mostly so that it still reads the old records."""
    return _evolve(draw, schema)


def _evolve(draw: Draw, schema: Any) -> Any:
    if isinstance(schema, list):
        return [_evolve(draw, each) if isinstance(each, dict) else each for each in draw(st.permutations(schema))]
    if isinstance(schema, str):
        become = draw(st.sampled_from([schema, schema, *PROMOTED.get(schema, ())]))
        return ["null", become] if draw(st.booleans()) and schema != "null" else become
    kind = schema["type"]
    if kind == "record":
        return {**schema, "fields": _evolve_fields(draw, schema["fields"])}
    if kind == "array":
        return {**schema, "items": _evolve(draw, schema["items"])}
    if kind == "map":
        return {**schema, "values": _evolve(draw, schema["values"])}
    if kind == "enum":
        symbols = list(draw(st.permutations(SYMBOLS))[: draw(st.integers(1, 4))])
        default = {"default": draw(st.sampled_from(symbols))} if draw(st.booleans()) else {}
        return {**schema, "symbols": symbols, **default}
    return schema


def _evolve_fields(draw: Draw, fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
    out = []
    for each in draw(st.permutations(fields)):
        fate = draw(st.sampled_from(["kept", "kept", "dropped", "renamed"]))
        if fate == "dropped":
            continue
        new = {**each, "type": _evolve(draw, each["type"])}
        out.append({**new, "name": f"new_{each['name']}", "aliases": [each["name"]]} if fate == "renamed" else new)
    if draw(st.booleans()):
        kind, default = draw(
            st.sampled_from(
                [
                    ("int", 7),
                    ("string", "none"),
                    (["null", "double"], None),
                    ({"type": "array", "items": "long"}, [1, -2, 3]),
                    ({"type": "map", "values": {"type": "array", "items": "string"}}, {"a": ["x"], "b": []}),
                ]
            )
        )
        out.append({"name": "added", "type": kind, "default": default})
    return out


@st.composite
def renamed(draw: Draw, schema: Any) -> Any:
    """The same with some types under new names, which know the old ones: by themselves or inside of unions."""
    return _rename(draw, schema)


def _rename(draw: Draw, schema: Any) -> Any:
    if isinstance(schema, list):
        return [_rename(draw, each) for each in schema]
    if isinstance(schema, str):
        return schema
    inner = {key: _rename(draw, schema[key]) for key in ("items", "values") if key in schema}
    if "fields" in schema:
        inner["fields"] = [{**each, "type": _rename(draw, each["type"])} for each in schema["fields"]]
    if "name" in schema and draw(st.integers(0, 2)) == 0:
        inner |= {"name": f"New{schema['name']}", "aliases": [schema["name"]]}
    return {**schema, **inner}


@st.composite
def values(draw: Draw, schema: Any) -> Any:
    """A value that fastavro can write; of a union, its branch's number is chosen, too."""
    return _value(draw, schema)


def _value(draw: Draw, schema: Any) -> Any:
    if isinstance(schema, list):
        branch = draw(st.sampled_from(schema))
        value = _value(draw, branch)
        name = branch if isinstance(branch, str) else branch.get("name", branch["type"])
        return value if value is None else (name, value)
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "record":
        return {each["name"]: _value(draw, each["type"]) for each in schema["fields"]}
    if kind == "array":
        return [_value(draw, schema["items"]) for _ in range(draw(st.integers(0, 3)))]
    if kind == "map":
        keys = draw(st.lists(st.text(max_size=3), unique=True, max_size=3))
        return {key: _value(draw, schema["values"]) for key in keys}
    if kind == "enum":
        return draw(st.sampled_from(schema["symbols"]))
    if kind == "fixed":
        return draw(st.binary(min_size=schema["size"], max_size=schema["size"]))
    return draw(PLAIN[kind])


PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-EXACT, EXACT) | st.sampled_from([-(1 << 31), (1 << 31) - 128]),
    "long": st.integers(-EXACT, EXACT) | st.sampled_from([-(1 << 63), 1 << 62]),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.text(max_size=4).map(str.encode),  # which may be read as a string
    "string": st.text(max_size=4),
}


def encode(schema: Any, value: Any) -> bytes:
    """A record as fastavro writes it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()
