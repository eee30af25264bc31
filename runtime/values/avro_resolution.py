"""Avro's rules for reading what one schema has written into another, worked out once per writer's schema.

https://avro.apache.org/docs/1.12.0/specification/#schema-resolution; where it leaves things open, as Avro's Java library
does, which is what Spark reads with.  This is stricter where bytes would be read with another meaning: a
decimal of another scale, a time of an unknown unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sparkcohort.runtime.values.avro_columns import column_type, number_union, value_branches
from sparkcohort.runtime.values.avro_defaults import encode_default
from sparkcohort.runtime.values.avro_schema import MISSING, AvroField, AvroSchema, AvroSchemaError, subpath
from sparkcohort.runtime.values.avro_skipping import Skipper
from sparkcohort.runtime.values.avro_steps import MOST_STEPS, AvroStep, Op
from sparkcohort.runtime.values.steps import StepList
from sparkcohort.runtime.values.types import ColumnType, width

PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
LEAVES = {
    ("boolean", "boolean"): Op.BOOLEAN,
    ("int", "int"): Op.INT,
    ("int", "date"): Op.INT,
    ("int", "bigint"): Op.INT_AS_LONG,
    ("int", "float"): Op.INT_AS_FLOAT,
    ("int", "double"): Op.INT_AS_DOUBLE,
    ("long", "bigint"): Op.LONG,
    ("long", "float"): Op.LONG_AS_FLOAT,
    ("long", "double"): Op.LONG_AS_DOUBLE,
    ("float", "float"): Op.FLOAT,
    ("float", "double"): Op.FLOAT_AS_DOUBLE,
    ("double", "double"): Op.DOUBLE,
    ("bytes", "binary"): Op.BYTES,
    ("string", "binary"): Op.BYTES,
    ("bytes", "string"): Op.STRING,
    ("string", "string"): Op.STRING,
}
"""By what is written and the column's type."""
FACTORS = {"timestamp-millis": 1000, "timestamp-micros": 1}
FACTORS |= {f"local-{name}": factor for name, factor in FACTORS.items()}
NAMED_LEAVES = ("enum", "fixed")


class Unreadable(Exception):
    """What is written can't be read as this."""


def resolve(writer: AvroSchema, reader: AvroSchema, target: ColumnType | None = None) -> StepList[AvroStep]:
    """The steps that read what ``writer`` has written into a column of the reader's type.

    ``target`` is that type, or what is left of it when fields are not asked for.  A writer that does not fit gives a
    list which fails every record with the reason.
    """
    if target is None:
        target = column_type(reader)
    compiler = _Compiler()
    try:
        compiler.value(writer, reader, target, 0, "")
        compiler.add(Op.END)
        compiler.skipper.routines()
    except (Unreadable, AvroSchemaError) as error:
        return StepList((AvroStep(Op.FAIL),), target, (str(error).encode(),))
    return StepList(tuple(compiler.steps), target, tuple(compiler.constants), tuple(compiler.table))


class _Compiler:
    """Appends steps; what turns out not to fit is taken back."""

    def __init__(self) -> None:
        self.steps: list[AvroStep] = []
        self.table: list[int] = []
        self.constants: dict[bytes, int] = {}
        self.skipper = Skipper(self.steps, self.table)
        self.attempts = 0

    def add(self, op: Op, column: int = 0, a: int = 0, b: int = 0) -> int:
        """Append a step; its place."""
        self.attempts += 1
        if self.attempts > MOST_STEPS:
            raise AvroSchemaError("", f"more than {MOST_STEPS:,} steps to read it")
        self.steps.append(AvroStep(op, column, a, b))
        return len(self.steps) - 1

    def constant(self, data: bytes) -> int:
        return self.constants.setdefault(data, len(self.constants))

    def attempt(self, emit: Callable[[], None]) -> Unreadable | None:
        """Append what ``emit`` does, or nothing and why."""
        steps, table, calls = len(self.steps), len(self.table), len(self.skipper.calls)
        try:
            emit()
        except Unreadable as misfit:
            del self.steps[steps:], self.table[table:], self.skipper.calls[calls:]
            self.skipper.entry = steps
            return misfit
        return None

    def value(self, writer: AvroSchema, reader: AvroSchema, target: ColumnType, column: int, path: str) -> None:
        """Steps that read one value."""
        if writer.kind == "union":
            self._written_union(writer, reader, target, column, path)
        elif reader.kind == "union":
            self._read_union(writer, reader, target, column, path)
        elif writer.kind == reader.kind == "record":
            self._record(writer, reader, target, column, path)
        elif writer.kind == reader.kind and writer.kind in ("array", "map"):
            self._list(writer, reader, target, column, path)
        elif writer.kind == reader.kind and writer.kind in NAMED_LEAVES:
            self._named_leaf(writer, reader, target, column, path)
        elif writer.kind == reader.kind or reader.kind in PROMOTIONS.get(writer.kind, ()):
            self._leaf(writer, reader, target, column, path)
        else:
            raise _unreadable(path, f"{writer.kind} can't be read as {reader.kind}")

    def _record(self, writer: AvroSchema, reader: AvroSchema, target: ColumnType, column: int, path: str) -> None:
        self.add(Op.STRUCT, column)
        places = dict(_children(target, column))
        sources = _matched_fields(writer, reader)
        for field in writer.fields:
            source = sources.get(field.name)
            if source is None or source.name not in places:
                self.skipper.skip(field.schema)
            else:
                inner, place = places.pop(source.name)
                self.value(field.schema, source.schema, inner, place, subpath(path, source.name))
        for field in reader.fields:
            if field.name in places:
                self._default(field, *places[field.name], subpath(path, field.name))

    def _default(self, field: AvroField, target: ColumnType, column: int, path: str) -> None:
        if field.default is MISSING:
            raise _unreadable(path, "the writer has no such field, and it has no default")
        data = encode_default(field.schema, field.default, path)
        if field.default is None:
            self.add(Op.NULL, column)
            return
        self.add(Op.DEFAULT, a=self.constant(data))
        self.value(field.schema, field.schema, target, column, path)
        self.add(Op.FROM_RECORD)

    def _list(self, writer: AvroSchema, reader: AvroSchema, target: ColumnType, column: int, path: str) -> None:
        start = self.add(Op.LIST, column)
        size, place = writer.item.least, column + 1
        if writer.kind == "map":
            self.add(Op.STRING, place)
            size, place = size + 1, place + 1
        self.value(writer.item, reader.item, target.children[-1], place, subpath(path, "[]"))
        self.add(Op.NEXT, a=start)
        self.steps[start] = AvroStep(Op.LIST, column, len(self.steps), size)

    def _written_union(
        self, writer: AvroSchema, reader: AvroSchema, target: ColumnType, column: int, path: str
    ) -> None:
        kinds = [branch.kind for branch in writer.branches]
        optional = len(kinds) == 2 and "null" in kinds and _takes_null(reader)
        if optional:
            start = self.add(Op.NULLABLE, column)
            self._branch(writer.branches[1 - kinds.index("null")], reader, target, column, path)
            self.skipper.entry = len(self.steps)
            self.steps[start] = AvroStep(Op.NULLABLE, column, kinds.index("null"), len(self.steps))
            return
        first, ends, misfits = len(self.table), [], []
        self.table += [0] * len(kinds)
        self.add(Op.UNION, column, first, len(kinds))
        for number, branch in enumerate(writer.branches):
            self.table[first + number] = len(self.steps)
            misfits.append(self._branch(branch, reader, target, column, path))
            ends.append(self.add(Op.JUMP))
        for end in ends:
            self.steps[end] = AvroStep(Op.JUMP, a=len(self.steps))
        if all(misfits) and misfits[0]:
            raise misfits[0]

    def _branch(
        self, writer: AvroSchema, reader: AvroSchema, target: ColumnType, column: int, path: str
    ) -> Unreadable | None:
        """A branch that does not fit fails the records that have it, no others."""
        misfit = self.attempt(lambda: self.value(writer, reader, target, column, path))
        if misfit:
            self.add(Op.FAIL, a=self.constant(str(misfit).encode()))
        return misfit

    def _read_union(self, writer: AvroSchema, reader: AvroSchema, target: ColumnType, column: int, path: str) -> None:
        for branch in _candidates(writer, reader):

            def emit(branch: AvroSchema = branch) -> None:
                self._into_branch(writer, reader, branch, target, column, path)

            if not self.attempt(emit):
                return
        raise _unreadable(path, f"{writer.name or writer.kind} is no branch of the reader's union")

    def _into_branch(
        self, writer: AvroSchema, reader: AvroSchema, branch: AvroSchema, target: ColumnType, column: int, path: str
    ) -> None:
        if branch.kind == "null":
            self.add(Op.NULL, column)
            return
        branches = value_branches(reader)
        if len(branches) == 1 or number_union(branches):
            self.value(writer, branch, target, column, path)
            return
        # from_avro has such a union as a struct: the member of the branch is set, the others are null.
        self.add(Op.STRUCT, column)
        places = dict(_children(target, column))
        own = places.pop(f"member{branches.index(branch)}", None)
        for _, place in places.values():
            self.add(Op.NULL, place)
        if own:
            self.value(writer, branch, *own, path)
        else:
            self.skipper.skip(writer)

    def _named_leaf(self, writer: AvroSchema, reader: AvroSchema, target: ColumnType, column: int, path: str) -> None:
        if not _same_name(writer, reader):
            raise _unreadable(path, f"{writer.kind} {writer.name} can't be read as {reader.name}")
        if writer.kind == "enum":
            first = len(self.table)
            symbols = [symbol if symbol in reader.symbols else reader.default for symbol in writer.symbols]
            self.table += [-1 if symbol is None else self.constant(symbol.encode()) for symbol in symbols]
            self.add(Op.ENUM, column, first, len(symbols))
            return
        if writer.size != reader.size:
            raise _unreadable(path, f"{writer.size} bytes can't be read as {reader.size}")
        if target.kind == "decimal":
            _check_scale(writer, reader, path)
            self.add(Op.DECIMAL_FIXED, column, target.precision, writer.size)
        else:
            self.add(Op.FIXED, column, writer.size)

    def _leaf(self, writer: AvroSchema, reader: AvroSchema, target: ColumnType, column: int, path: str) -> None:
        if writer.kind == "null":
            self.add(Op.NULL, column)
        elif target.kind == "decimal":
            if writer.kind != "bytes":
                raise _unreadable(path, f"{writer.kind} can't be read as a decimal")
            _check_scale(writer, reader, path)
            self.add(Op.DECIMAL, column, target.precision)
        elif target.kind in ("timestamp", "timestamp_ntz"):
            op = Op.LONG if writer.kind == "long" else Op.INT_AS_LONG
            self.add(op, column, _factor(writer, reader, path))
        else:
            if target.kind == "date" and writer.logical and writer.logical.name != "date":
                raise _unreadable(path, f"{writer.logical.name} can't be read as date")
            op = LEAVES[writer.kind, target.kind]
            self.add(op, column, int(op in (Op.LONG, Op.INT_AS_LONG)))


def _unreadable(path: str, reason: str) -> Unreadable:
    return Unreadable(f"{path}: {reason}" if path else reason)


def _children(target: ColumnType, column: int) -> Iterator[tuple[str, tuple[ColumnType, int]]]:
    """A struct's fields with the numbers of their columns."""
    place = column + 1
    for name, child in zip(target.names, target.children, strict=True):
        yield name, (child, place)
        place += width(child)


def _matched_fields(writer: AvroSchema, reader: AvroSchema) -> dict[str, AvroField]:
    """The reader's field for each of the writer's, by name first, by the reader's aliases then."""
    names = {field.name for field in writer.fields}
    matches = {field.name: field for field in reader.fields if field.name in names}
    for field in reader.fields:
        if field.name not in names:
            old = next((alias for alias in field.aliases if alias in names and alias not in matches), None)
            if old is not None:
                matches[old] = field
    return matches


def _same_name(writer: AvroSchema, reader: AvroSchema) -> bool:
    """Names without their namespaces count, and the reader's aliases."""
    aliases = {alias.rpartition(".")[2] for alias in reader.aliases}
    return writer.short_name == reader.short_name or writer.short_name in aliases


def _takes_null(reader: AvroSchema) -> bool:
    return reader.kind == "union" and any(branch.kind == "null" for branch in reader.branches)


def _candidates(writer: AvroSchema, reader: AvroSchema) -> list[AvroSchema]:
    """The branches to try, the best first: the same name, the same type, a promotion."""
    alike = [branch for branch in reader.branches if branch.kind == writer.kind]
    if writer.name:
        namesakes = [branch for branch in alike if branch.name == writer.name or writer.name in branch.aliases]
        if namesakes:
            return namesakes[:1]
        return sorted(alike, key=lambda branch: not _same_name(writer, branch))
    promoted = [branch for branch in reader.branches if branch.kind in PROMOTIONS.get(writer.kind, ())]
    return alike or promoted[:1]


def _check_scale(writer: AvroSchema, reader: AvroSchema, path: str) -> None:
    if writer.logical and reader.logical and writer.logical.scale != reader.logical.scale:
        raise _unreadable(path, f"a decimal of scale {writer.logical.scale} can't be read as {reader.logical.scale}")


def _factor(writer: AvroSchema, reader: AvroSchema, path: str) -> int:
    """To microseconds: the writer's unit, or the reader's where the writer says none."""
    logical = writer.logical or reader.logical
    if logical is None or logical.name not in FACTORS:
        raise _unreadable(path, f"{logical.name if logical else 'a number'} can't be read as a timestamp")
    return FACTORS[logical.name]
