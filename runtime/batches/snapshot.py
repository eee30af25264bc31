"""Where the logs end, as the driver knows it at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkcohort.runtime.protocol.partitions import TopicPartition


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is known: the last ``ends``, the reason for each partition whose leader gives no answer now, all that exist.

    A partition in ``unreachable`` may have an (old) end in ``ends``.  ``at`` is the time.monotonic() of the snapshot,
    ``ids`` are the topics' as far as known, ``answer`` and ``look`` the numbers of the answers about ends and topics.
    ``epochs`` are those of the leaders that told the ``ends``, as far as they say: the same object while none has changed.
    """

    ends: Mapping[TopicPartition, int]
    unreachable: Mapping[TopicPartition, str]
    partitions: frozenset[TopicPartition]
    taken_at: float
    ids: Mapping[str, str] = field(default_factory=dict)
    answer: int = 0
    look: int = 0
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
