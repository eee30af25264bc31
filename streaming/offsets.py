"""Offsets as Spark's Kafka source writes them: ``{"topic": {"0": 123}}``.

Spark compares offsets as JSON text and keeps them in the checkpoint, so equal offsets have to give equal text:
topics in order of their names, partitions in order of their numbers.

>>> at = {TopicPartition("b", 10): 7, TopicPartition("b", 9): 8, TopicPartition("a", 0): 1}
>>> to_json_value(at)
{'a': {'0': 1}, 'b': {'9': 8, '10': 7}}
>>> from_json_value(to_json_value(at)) == at
True
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from sparkcohort.runtime.offsets_json import read
from sparkcohort.runtime.protocol import TopicPartition

Offsets: TypeAlias = Mapping[TopicPartition, int]


def to_json_value(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Write offsets as the value whose JSON text Spark keeps and compares; key order is fixed."""
    value: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        value.setdefault(topic, {})[str(partition)] = offset
    return value


def from_json_value(value: object, source: str = "source offset") -> dict[TopicPartition, int]:
    """Read offsets from a JSON value; raises MalformedOffsets, also for offsets below zero."""
    return read(value, source, 0)


class KnownOffsets:
    """Offsets as JSON values that come back again and again: Spark tells an offset three times and more.

    >>> known = KnownOffsets()
    >>> value = known.write({TopicPartition("t", 0): 7})
    >>> known.read({"t": {"0": 7}}) is known.read({"t": {"0": 7}})
    True
    """

    def __init__(self) -> None:
        self._last: list[tuple[object, Offsets]] = []

    def read(self, value: object) -> Offsets:
        """As ``from_json_value``; what is returned may be returned again, and must not be changed."""
        for known, offsets in self._last:
            if known == value:
                return offsets
        offsets = from_json_value(value)
        self._remember(value, offsets)
        return offsets

    def write(self, offsets: Offsets) -> dict[str, dict[str, int]]:
        """As ``to_json_value``; neither the offsets nor the value may be changed afterwards."""
        value = to_json_value(offsets)
        self._remember(value, offsets)
        return value

    def _remember(self, value: object, offsets: Offsets) -> None:
        self._last = [(value, offsets), *self._last[:1]]  # the batch's end and its start
