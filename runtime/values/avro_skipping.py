"""Steps that pass over a value that is not delivered.

A record that takes no byte has no steps: where each record has the one before it twice, the calls would never end.
"""

from __future__ import annotations

from sparkcohort.runtime.values.avro_schema import MOST_BYTES, AvroSchema
from sparkcohort.runtime.values.avro_steps import AvroStep, Op

VARINTS = ("int", "long", "enum")


class Skipper:
    """Appends skipping steps to ``steps``; a record becomes a routine behind the END, which other places call too."""

    def __init__(self, steps: list[AvroStep], table: list[int]) -> None:
        self.steps, self.table = steps, table
        self.calls: list[tuple[int, AvroSchema]] = []  # by place, until the routine's place is known
        self.entry = 0  # steps from here on are also reached from elsewhere

    def skip(self, schema: AvroSchema) -> None:
        """Pass over one value."""
        if schema.exact is not None:
            self._repeat(Op.SKIP_FIXED, schema.exact)
        elif schema.kind in VARINTS:
            self._repeat(Op.SKIP_VARINTS, 1, int(schema.kind != "long"))
        elif schema.kind in ("bytes", "string"):
            self.steps.append(AvroStep(Op.SKIP_BYTES))
        elif schema.kind == "record":
            self.calls.append((len(self.steps), schema))
            self.steps.append(AvroStep(Op.CALL))
        elif schema.kind == "union":
            self._union(schema)
        else:
            self._list(schema)

    def _repeat(self, op: Op, number: int, b: int = 0) -> None:
        """Append a step, or add it to the one before; not where another step jumps to this place (``entry``)."""
        last = self.steps[-1] if len(self.steps) > self.entry else None
        if last and (last.op, last.b) == (op, b):
            self.steps[-1] = last._replace(a=min(last.a + number, MOST_BYTES))
        elif number:
            self.steps.append(AvroStep(op, a=number, b=b))

    def _union(self, schema: AvroSchema) -> None:
        kinds = [branch.kind for branch in schema.branches]
        if len(kinds) == 2 and "null" in kinds:
            start = len(self.steps)
            self.steps.append(AvroStep(Op.SKIP_NULLABLE))
            self.entry = start + 1
            self.skip(schema.branches[1 - kinds.index("null")])
            self.entry = len(self.steps)
            self.steps[start] = AvroStep(Op.SKIP_NULLABLE, 0, kinds.index("null"), self.entry)
            return
        first, ends = len(self.table), []
        self.table += [0] * len(schema.branches)
        self.steps.append(AvroStep(Op.UNION, 0, first, len(schema.branches)))
        for number, branch in enumerate(schema.branches):
            self.table[first + number] = len(self.steps)
            self.skip(branch)
            ends.append(len(self.steps))
            self.steps.append(AvroStep(Op.JUMP))
        for end in ends:
            self.steps[end] = AvroStep(Op.JUMP, a=len(self.steps))

    def _list(self, schema: AvroSchema) -> None:
        key = int(schema.kind == "map")
        if schema.item.exact and not key:
            self.steps.append(AvroStep(Op.SKIP_ITEMS, a=schema.item.exact))
            return
        start = len(self.steps)
        self.steps.append(AvroStep(Op.SKIP_LIST))
        if key:
            self.steps.append(AvroStep(Op.SKIP_BYTES))
        self.skip(schema.item)
        self.steps.append(AvroStep(Op.NEXT, a=start))
        self.steps[start] = AvroStep(Op.SKIP_LIST, 0, len(self.steps), key + schema.item.least)

    def routines(self) -> None:
        """Append the records' own steps, each once, and let the calls know where."""
        places: dict[int, int] = {}
        while self.calls:
            call, schema = self.calls.pop()
            if id(schema) not in places:
                places[id(schema)] = len(self.steps)
                for field in schema.fields:
                    self.skip(field.schema)
                self.steps.append(AvroStep(Op.RETURN))
            self.steps[call] = AvroStep(Op.CALL, a=places[id(schema)])
