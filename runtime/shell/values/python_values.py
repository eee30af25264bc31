"""An Arrow array as a list of Python's values, level by level: what is null is left out on the way down, and put back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, TypeAlias

import pyarrow as pa

Convert: TypeAlias = Callable[[pa.Array], list[Any]]
"""The values of an array without nulls."""


class MisfitError(ValueError):
    """Rows that a schema can't hold: the field's path, and why; never a value."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")


def check_nulls(column: pa.Array, path: str) -> None:
    """Raises MisfitError where a value is null."""
    if column.null_count:
        raise MisfitError(path, f"{column.null_count} of {len(column)} are null, which the schema can't hold there")


def check_all(fitting: pa.Array, path: str, reason: str) -> None:
    """Raises MisfitError where one is not true."""
    if wrong := len(fitting) - (fitting.true_count or 0):
        raise MisfitError(path, f"{wrong} of {len(fitting)} {reason}")


def with_nulls(column: pa.Array, convert: Convert) -> list[Any]:
    """The values of an array, None where it is null."""
    if not column.null_count:
        return convert(column)
    values = iter(convert(column.drop_null()))
    return [next(values) if valid else None for valid in column.is_valid().to_pylist()]


def structs(column: pa.Array, fields: Mapping[str, Convert]) -> list[dict[str, Any]]:
    """The structs of an array without nulls; fields that it lacks are left out."""
    names = [name for name in fields if column.type.get_field_index(name) >= 0]
    columns = [fields[name](column.field(name)) for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)] if names else [{}] * len(column)


def lists(column: pa.Array, convert: Convert) -> list[list[Any]]:
    """The lists of an array without nulls."""
    return _split(column, convert(_items_of(column, column.values)))


def maps(column: pa.Array, keys: Convert, values: Convert) -> list[dict[Any, Any]]:
    """The maps of an array without nulls."""
    pairs = zip(keys(_items_of(column, column.keys)), values(_items_of(column, column.items)), strict=True)
    return [dict(entries) for entries in _split(column, list(pairs))]


def _items_of(column: pa.Array, items: pa.Array) -> pa.Array:
    """The items of these lists, of all that the array was cut out of."""
    first, last = (column.offsets[place].as_py() for place in (0, -1))
    return items.slice(first, last - first)


def _split(column: pa.Array, items: list[Any]) -> list[list[Any]]:
    bounds = column.offsets.to_numpy() - column.offsets[0].as_py()
    return [items[first:last] for first, last in pairwise(bounds.tolist())]
