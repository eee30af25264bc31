"""Columns become Avro's records, written by fastavro."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.values.python_values import (
    MisfitError,
    check_all,
    check_nulls,
    lists,
    maps,
    structs,
    with_nulls,
)
from sparkcohort.runtime.values.avro_columns import number_union, value_branches
from sparkcohort.runtime.values.avro_schema import MISSING, AvroSchema, parse_schema


class AvroRecords:
    """Writes columns of one type by one schema; ``path`` is the column's name in errors."""

    def __init__(self, text: str, references: Iterable[str] = (), path: str = "value") -> None:
        """Raises CohortError without the library."""
        try:
            import fastavro  # noqa: PLC0415  an extra
        except ImportError as error:
            raise CohortError(
                f"option {path}.format=avro: {error.name} is missing: pip install 'sparkcohort[avro]' where the executors run"
            ) from None
        self._root, self._path = parse_schema(text, references), path
        names: dict[str, Any] = {}
        for reference in references:
            fastavro.parse_schema(json.loads(reference), names)
        self._schema = fastavro.parse_schema(json.loads(text), names)
        self._write = fastavro.schemaless_writer

    def encode(self, column: pa.Array) -> list[bytes]:
        """The records of an array without nulls.  Raises MisfitError, or what fastavro raises."""
        buffer, records = io.BytesIO(), []
        for value in _values(column, self._root, self._path):
            self._write(buffer, self._schema, value)
            records.append(buffer.getvalue())
            buffer.seek(0)
            buffer.truncate()
        return records


def _values(column: pa.Array, schema: AvroSchema, path: str) -> list[Any]:
    """The values of an array as fastavro takes them; dates and times are numbers."""
    if schema.kind == "union":
        return _of_union(column, schema, path)
    check_nulls(column, path)
    if schema.kind == "array":
        return lists(column, partial(_values, schema=schema.item, path=f"{path}[]"))
    if schema.kind == "map":
        return maps(column, pa.Array.to_pylist, partial(_values, schema=schema.item, path=f"{path}[]"))
    if schema.kind != "record":
        return _plain(column, schema, path)
    for field in schema.fields:
        is_there = column.type.get_field_index(field.name) >= 0
        if not is_there and field.default is MISSING and "null" not in (each.kind for each in field.schema.branches):
            raise MisfitError(
                f"{path}.{field.name}", "there is no such field, and in the schema it has neither a default nor null"
            )
    inside = {each.name: partial(_values, schema=each.schema, path=f"{path}.{each.name}") for each in schema.fields}
    return structs(column, inside)


def _of_union(column: pa.Array, union: AvroSchema, path: str) -> list[Any]:
    """Pairs of a branch's name and the value, so that fastavro need not look for the branch."""
    branches = value_branches(union)
    if len(branches) == len(union.branches):
        check_nulls(column, path)
    if number_union(branches):
        branches = [each for each in branches if each.kind in ("long", "double")]
    if len(branches) == 1:
        return with_nulls(column, partial(_with_branch, branch=branches[0], path=path))
    return with_nulls(column, partial(_members, branches=branches, path=path))


def _members(column: pa.Array, branches: list[AvroSchema], path: str) -> list[Any]:
    """The one member of each struct that is set."""
    members = [
        with_nulls(column.field(name), partial(_with_branch, branch=branch, path=f"{path}.{name}"))
        for name, branch in ((f"member{number}", branch) for number, branch in enumerate(branches))
        if column.type.get_field_index(name) >= 0
    ]
    rows = [[each for each in row if each is not None] for row in zip(*members, strict=True)]
    if wrong := sum(len(row) != 1 for row in rows) if members else len(column):
        raise MisfitError(path, f"{wrong} of {len(column)} have not exactly one member")
    return [row[0] for row in rows]


def _with_branch(column: pa.Array, branch: AvroSchema, path: str) -> list[Any]:
    name = branch.name or branch.kind
    return [(name, value) for value in _values(column, branch, path)]


def _plain(column: pa.Array, schema: AvroSchema, path: str) -> list[Any]:
    logical = schema.logical.name if schema.logical else ""
    if schema.kind == "enum":
        check_all(pc.is_in(column, pa.array(schema.symbols, pa.string())), path, "are no symbol of the enum")
    elif schema.kind == "fixed" and logical != "decimal":
        check_all(pc.equal(pc.binary_length(column), schema.size), path, f"have not {schema.size} bytes")
    if not pa.types.is_temporal(column.type):
        return list(column.to_pylist())
    numbers = column.cast(pa.int32() if pa.types.is_date(column.type) else pa.int64()).to_numpy()
    return list((np.floor_divide(numbers, 1000) if logical.endswith("-millis") else numbers).tolist())
