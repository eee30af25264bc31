"""Partitions of topics, ranges of their offsets, and how both are written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from sparkcohort.runtime.protocol.wire_types import Int64, String
from sparkcohort.runtime.text import printable

MOST_NAME: Final = 260
"""Characters of a partition's name; a topic's has 249 at most."""


class TopicPartition(NamedTuple):
    """One partition of one topic; sorts by topic, then partition."""

    topic: String
    partition: Int64


class Range(NamedTuple):
    """Offsets ``[start, end)`` of one partition."""

    topic: String
    partition: Int64
    start: Int64
    end: Int64

    @property
    def tp(self) -> TopicPartition:
        """The partition the range belongs to."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """The number of offsets: it bounds the rows, it does not count them."""
        return self.end - self.start


def names_of(partitions: Iterable[TopicPartition], limit: int = 10) -> str:
    """``t-0, t-1 and 3 more``."""
    ordered = sorted(partitions)
    more = f" and {len(ordered) - limit} more" if len(ordered) > limit else ""
    return ", ".join(printable(f"{tp.topic}-{tp.partition}", MOST_NAME) for tp in ordered[:limit]) + more
