"""What reads a record, for Avro and Protobuf alike: a flat list of steps without names, which native/values runs.

A step is an operation and a few numbers, among them the column that it appends to, by its place in ``types.walk``.  What is
longer than a number stands in ``constants``; what is several numbers, in ``table``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Generic, Self, TypeVar

from sparkcohort.runtime.values.types import ColumnType

Step = TypeVar("Step", bound="tuple[int, ...]")


@dataclass(frozen=True, slots=True)
class StepList(Generic[Step]):
    """How records of one schema become columns of type ``target``."""

    steps: tuple[Step, ...]
    target: ColumnType
    constants: tuple[bytes, ...] = ()
    table: tuple[int, ...] = ()
    paths: tuple[str, ...] = field(default=(), compare=False)  # of fields, by step; Protobuf's only

    def packed(self) -> tuple[bytes, bytes]:
        """The steps and the table as the C code takes them: 64-bit numbers."""
        numbers = [number for step in self.steps for number in step]
        return struct.pack(f"={len(numbers)}q", *numbers), struct.pack(f"={len(self.table)}q", *self.table)


class FaultReason(IntEnum):
    """Why a record can't be read: the number that native/values gives, and the words for people."""

    words: str

    def __new__(cls, number: int, words: str = "") -> Self:
        """The member's value is its number alone, by which it is found."""
        reason = int.__new__(cls, number)
        reason._value_, reason.words = number, words
        return reason

    def at(self, position: int, detail: str = "") -> str:
        """What is wrong with a record, for people: ``a string is not UTF-8: value.name (at byte 7)``."""
        return f"{self.words}{f': {detail}' if detail else ''} (at byte {position})"
