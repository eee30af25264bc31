"""Columns that grow row by row, in plain Python: the twin of native/values/tree.c."""

from __future__ import annotations

from typing import Any

from sparkcohort.runtime.values.types import ColumnType


class GrowingColumn:
    """A growing column: a row is a value, None, or (of arrays and maps) where its items end among the children's rows."""

    def __init__(self, kind: ColumnType) -> None:
        self.kind = kind
        self.values: list[Any] = []
        self.children = tuple(map(GrowingColumn, kind.children))

    def walk(self) -> list[GrowingColumn]:
        """This column and all inside of it, parents first, as the steps number them."""
        return [self, *(column for child in self.children for column in child.walk())]

    def count(self) -> int:
        """How many values there are, in this column and all inside of it."""
        return len(self.values) + sum(child.count() for child in self.children)

    def null(self) -> None:
        """Append null."""
        self.values.append(None)
        if self.kind.kind == "struct":
            for child in self.children:
                child.null()

    def cut(self, rows: int) -> None:
        """Take back all rows behind so many."""
        del self.values[rows:]
        items = rows
        if self.kind.kind in ("array", "map"):
            items = next((end for end in reversed(self.values) if end is not None), 0)
        for child in self.children:
            child.cut(items)

    def rows(self) -> list[Any]:
        """The rows as Python has them: a struct is a dict, a map a list of pairs, a timestamp its microseconds."""
        inner = [child.rows() for child in self.children]
        if self.kind.kind == "struct":
            names = self.kind.names
            return [
                None if value is None else {name: rows[place] for name, rows in zip(names, inner, strict=True)}
                for place, value in enumerate(self.values)
            ]
        if self.kind.kind not in ("array", "map"):
            return self.values
        items = inner[0] if self.kind.kind == "array" else list(zip(*inner, strict=True))
        start, out = 0, []
        for end in self.values:
            out.append(None if end is None else items[start:end])
            start = start if end is None else end
        return out
