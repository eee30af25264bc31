"""Offsets as Spark's Kafka source writes them: ``{"topic": {"0": 123}}``.

Spark compares offsets as JSON text and keeps them in the checkpoint, so equal offsets have to give equal text:
topics in order of their names, partitions in order of their numbers.

>>> at = {TopicPartition("b", 10): 7, TopicPartition("b", 9): 8, TopicPartition("a", 0): 1}
>>> to_json_value(at)
{'a': {'0': 1}, 'b': {'9': 8, '10': 7}}

An offset belongs to one log.  A recreated topic has another log under the same name.  So a source offset has the topic's
id, as a topic without partitions whose name no topic can have: ``{"orders":{"0":123},"orders@lj7XrdGBSHu-2_Ybcic80w":{}}``.
Spark's own source reads that as ``{"orders":{"0":123}}`` (``JsonUtils.partitionOffsets``), so a checkpoint still goes back to
``format("kafka")``.  The group's commits can't hold the id: Kafka deletes them with the topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from sparkcohort.runtime.protocol.offsets_json import OF_ID, ids_in, read
from sparkcohort.runtime.protocol.partitions import TopicPartition

Offsets: TypeAlias = Mapping[TopicPartition, int]
Ids: TypeAlias = Mapping[str, str]
"""The topics' ids by name, as Kafka's tools show them; unknown ones are left out."""


def to_json_value(offsets: Offsets, ids: Ids | None = None) -> dict[str, dict[str, int]]:
    """Write offsets as the value whose JSON text Spark keeps and compares; key order is fixed.

    >>> to_json_value({TopicPartition("t", 0): 7}, {"t": "lj7XrdGBSHu-2_Ybcic80w", "other": "of no partition"})
    {'t': {'0': 7}, 't@lj7XrdGBSHu-2_Ybcic80w': {}}
    """
    value: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        value.setdefault(topic, {})[str(partition)] = offset
    id_keys = [f"{topic}{OF_ID}{ids[topic]}" for topic in value if topic in ids] if ids else []
    return value | {name: {} for name in id_keys}


class KnownOffsets:
    """Source offsets and their JSON values, the last two cached: Spark passes an offset three times or more.

    >>> known = KnownOffsets()
    >>> value = known.write({TopicPartition("t", 0): 7})
    >>> known.read({"t": {"0": 7}}) is known.read({"t": {"0": 7}})
    True
    """

    def __init__(self) -> None:
        self._last: list[tuple[object, tuple[Offsets, Ids]]] = []

    def read(self, value: object) -> tuple[Offsets, Ids]:
        """The offsets and the known ids of their topics, not to be changed.  Raises MalformedOffsets, also for offsets below zero."""
        for known_value, offsets_and_ids in self._last:
            if known_value == value:
                return offsets_and_ids
        return self._remember(value, read(value, "source offset", 0), ids_in(value))

    def write(self, offsets: Offsets, ids: Ids | None = None) -> dict[str, dict[str, int]]:
        """As ``to_json_value``; neither the offsets nor the value may be changed afterwards."""
        value = to_json_value(offsets, ids)
        self._remember(value, offsets, ids_in(value))
        return value

    def _remember(self, value: object, offsets: Offsets, ids: Ids) -> tuple[Offsets, Ids]:
        self._last = [(value, (offsets, ids)), *self._last[:1]]  # the batch's end and its start
        return offsets, ids
