"""The ends of the logs, as the driver knows them at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkcohort.runtime.protocol.partitions import TopicPartition


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The last known ``ends``, the reason for each ``unreachable`` partition, and all ``partitions`` that exist.

    A partition in ``unreachable`` may have an (old) end in ``ends``.  ``ids`` are the known ids of topics.  ``answer`` and ``look``
    number the answers about ends and about topics.  ``epochs`` are the leader epochs of the answers about ``ends``: the same
    object while none has changed.
    """

    ends: Mapping[TopicPartition, int]
    unreachable: Mapping[TopicPartition, str]
    partitions: frozenset[TopicPartition]
    ids: Mapping[str, str] = field(default_factory=dict)
    answer: int = 0
    look: int = 0
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
