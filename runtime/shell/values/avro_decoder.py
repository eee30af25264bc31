"""Avro's records, with or without Confluent's frame, read in C."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from sparkcohort.native._native import AvroDecoder
from sparkcohort.runtime.shell.values.arrow_types import MOST, BadRecord, arrow_type, binary_buffers, importer
from sparkcohort.runtime.shell.values.schema_registry import NotYetKnownError, RegisteredText
from sparkcohort.runtime.values.avro_columns import column_type
from sparkcohort.runtime.values.avro_resolution import resolve
from sparkcohort.runtime.values.avro_schema import AvroSchema, AvroSchemaError, parse_schema
from sparkcohort.runtime.values.avro_steps import AvroReason, AvroStep, without_schema
from sparkcohort.runtime.values.steps import StepList
from sparkcohort.runtime.values.types import ColumnType, packed, type_difference

UNFRAMED = -1
Writers = Callable[[int | str], RegisteredText | str]
"""The schema of an id or GUID, or why there is none; ``WriterSchemas.get`` is one."""


class AvroValues:
    """Reads columns of records into one type: the reader's, or what is asked for of it (else AvroSchemaError).

    ``writers`` gives the schemas that framed records were written with, by what ``registered`` makes of the number in a frame;
    without it, records have no frame and were written with ``writer``, or with the reader's schema itself.
    """

    def __init__(
        self,
        reader: AvroSchema,
        target: ColumnType | None = None,
        *,
        writers: Writers | None = None,
        registered: Callable[[int], int | str] = int,
        writer: AvroSchema | None = None,
        most: int = MOST,
    ) -> None:
        self._reader, self._writers, self._registered = reader, writers, registered
        whole = column_type(reader)
        if target and (difference := type_difference(target, whole, "value")):
            raise AvroSchemaError("", difference)
        self.target = target or whole
        self.type = arrow_type(self.target)
        self._lists: dict[int, StepList[AvroStep]] = {}
        self._decoder = AvroDecoder(packed(self.target), most)
        if writers is None:
            self._add(UNFRAMED, resolve(writer or reader, reader, self.target))

    def decode(self, values: pa.Array) -> tuple[pa.Array, list[BadRecord]]:
        """As many rows as ``values`` (binary) has, and the bad ones among them.

        Raises what ``writers`` raises, before any row is read: an answer that is late is no bad record.  OverflowError
        where a column of theirs would have more than ``most`` bytes or items, MemoryError where memory has run out; the
        decoder is as good as new then.
        """
        passing: list[int] = []
        try:
            while True:
                rows, bad, missing = self._attempt(values)
                if not missing:
                    return rows, bad
                passing += self._find(missing)
        finally:
            for schema_id in passing:
                self._drop(schema_id)

    def _find(self, missing: Iterable[int]) -> list[int]:
        """Make the lists for these ids; returns those that are asked for again the next time."""
        passing: list[int] = []
        not_yet: NotYetKnownError | None = None
        for schema_id in dict.fromkeys(missing):
            try:
                answer = self._writers(self._registered(schema_id)) if self._writers else "no schemas are known"
            except NotYetKnownError as error:
                not_yet = error  # the others are asked for at the same time
                continue
            if isinstance(answer, str):
                passing.append(schema_id)
                self._add(schema_id, without_schema(self.target, answer))
            else:
                self._add(schema_id, self._resolved(self._registered(schema_id), answer))
        if not_yet is not None:
            for schema_id in passing:
                self._drop(schema_id)
            raise not_yet
        return passing

    def _resolved(self, schema_id: int | str, answer: RegisteredText) -> StepList[AvroStep]:
        if answer.kind != "AVRO":
            return without_schema(self.target, f"schema {schema_id} is {answer.kind}, not AVRO")
        try:
            return resolve(parse_schema(answer.text, answer.references), self._reader, self.target)
        except AvroSchemaError as error:
            return without_schema(self.target, f"schema {schema_id} is broken: {error}")
        except Exception as error:  # noqa: BLE001  an unforeseen schema from outside: its records are bad, the query goes on
            return without_schema(self.target, f"schema {schema_id} is broken: {type(error).__name__}")

    def _add(self, schema_id: int, steps: StepList[AvroStep]) -> None:
        self._decoder.add(schema_id, *steps.packed(), steps.constants)
        self._lists[schema_id] = steps

    def _drop(self, schema_id: int) -> None:
        self._decoder.drop(schema_id)
        self._lists.pop(schema_id, None)

    def _attempt(self, values: pa.Array) -> tuple[Any, list[BadRecord], list[int]]:
        """The rows and the bad ones; or, before any is read, the ids that are missing."""
        validity, offsets, data = binary_buffers(values)
        framed, take = self._writers is not None, importer(self.type)
        rows, bad, missing = self._decoder.decode(validity, offsets, data, values.offset, len(values), framed, take)
        return rows, [self._bad(*each) for each in bad or ()], missing

    def _bad(self, row: int, reason: int, position: int, schema_id: int, constant: int) -> BadRecord:
        detail = self._lists[schema_id].constants[constant].decode() if constant >= 0 else ""
        return BadRecord(row, AvroReason(reason), AvroReason(reason).at(position, detail))
