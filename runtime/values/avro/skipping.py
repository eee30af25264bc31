"""Steps that pass over a value which nobody asked for, and how few bytes a value takes."""

from __future__ import annotations

from collections.abc import Iterator

from sparkcohort.runtime.values.avro.schema import AvroSchema
from sparkcohort.runtime.values.avro.steps import AvroStep, Op

FIXED_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
MOST_LOOKED_AT = 10_000
VARINTS = ("int", "long", "enum")


def least_size(schema: AvroSchema) -> int:
    """The fewest bytes that a value takes, or fewer.

    A record inside of itself counts as nothing, and so does what comes after thousands of types: where each has the
    one before it twice, there is no end to wait for.
    """
    return _least(schema, frozenset(), iter(range(MOST_LOOKED_AT)))


def _least(schema: AvroSchema, inside: frozenset[int], budget: Iterator[int]) -> int:
    if schema.kind in FIXED_SIZES:
        return FIXED_SIZES[schema.kind]
    if schema.kind == "fixed":
        return schema.size
    if id(schema) in inside or next(budget, None) is None:
        return 0
    if schema.kind == "record":
        return sum(_least(each.schema, inside | {id(schema)}, budget) for each in schema.fields)
    if schema.kind == "union":
        return 1 + min((_least(branch, inside, budget) for branch in schema.branches), default=0)
    return 1


def exact_size(schema: AvroSchema) -> int | None:
    """The bytes of every value, where all have as many."""
    if schema.kind == "fixed":
        return schema.size
    if schema.kind == "record" and all(each.schema.kind in (*FIXED_SIZES, "fixed") for each in schema.fields):
        return least_size(schema)
    return FIXED_SIZES.get(schema.kind)


class Skipper:
    """Appends skipping steps to ``steps``; a record becomes a routine behind the END, which other places call too."""

    def __init__(self, steps: list[AvroStep], table: list[int]) -> None:
        self.steps, self.table = steps, table
        self.calls: list[tuple[int, AvroSchema]] = []  # by place, until the routine's place is known
        self.entry = 0  # steps from here on are also reached from elsewhere

    def skip(self, schema: AvroSchema) -> None:
        """Pass over one value."""
        if (size := exact_size(schema)) is not None:
            self._again(Op.SKIP_FIXED, size)
        elif schema.kind in VARINTS:
            self._again(Op.SKIP_VARINTS, 1)
        elif schema.kind in ("bytes", "string"):
            self.steps.append(AvroStep(Op.SKIP_BYTES))
        elif schema.kind == "record":
            self.calls.append((len(self.steps), schema))
            self.steps.append(AvroStep(Op.CALL))
        elif schema.kind == "union":
            self._union(schema)
        else:
            self._list(schema)

    def _again(self, op: Op, number: int) -> None:
        """Two in a row are one, unless some step goes on at the second."""
        last = self.steps[-1] if len(self.steps) > self.entry else None
        if last and last.op is op:
            self.steps[-1] = last._replace(a=last.a + number)
        elif number:
            self.steps.append(AvroStep(op, a=number))

    def _union(self, schema: AvroSchema) -> None:
        kinds = [branch.kind for branch in schema.branches]
        if len(kinds) == 2 and "null" in kinds:
            start = len(self.steps)
            self.steps.append(AvroStep(Op.SKIP_NULLABLE))
            self.entry = start + 1
            self.skip(schema.branches[1 - kinds.index("null")])
            self.entry = len(self.steps)
            self.steps[start] = AvroStep(Op.SKIP_NULLABLE, -1, kinds.index("null"), self.entry)
            return
        first, ends = len(self.table), []
        self.table += [0] * len(schema.branches)
        self.steps.append(AvroStep(Op.UNION, -1, first, len(schema.branches)))
        for number, branch in enumerate(schema.branches):
            self.table[first + number] = len(self.steps)
            self.skip(branch)
            ends.append(len(self.steps))
            self.steps.append(AvroStep(Op.JUMP))
        for end in ends:
            self.steps[end] = AvroStep(Op.JUMP, a=len(self.steps))

    def _list(self, schema: AvroSchema) -> None:
        key = int(schema.kind == "map")
        size = exact_size(schema.item)
        if size and not key:
            self.steps.append(AvroStep(Op.SKIP_ITEMS, a=size))
            return
        start = len(self.steps)
        self.steps.append(AvroStep(Op.SKIP_LIST))
        if key:
            self.steps.append(AvroStep(Op.SKIP_BYTES))
        self.skip(schema.item)
        self.steps.append(AvroStep(Op.NEXT, a=start))
        self.steps[start] = AvroStep(Op.SKIP_LIST, -1, len(self.steps), key + least_size(schema.item))

    def routines(self) -> None:
        """Append the records' own steps, each once, and let the calls know where."""
        places: dict[int, int] = {}
        while self.calls:
            call, schema = self.calls.pop()
            if id(schema) not in places:
                places[id(schema)] = len(self.steps)
                for each in schema.fields:
                    self.skip(each.schema)
                self.steps.append(AvroStep(Op.RETURN))
            self.steps[call] = AvroStep(Op.CALL, a=places[id(schema)])
