"""What an agent has fetched ahead, looked at from outside."""

from __future__ import annotations

from typing import NamedTuple

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.agent.prefetch import Prefetcher


class Buffered(NamedTuple):
    """One owned partition: where fetching stands, what is buffered, and why no more is fetched."""

    position: int
    nbytes: int
    error: str


def buffered(prefetcher: Prefetcher) -> dict[TopicPartition, Buffered]:
    """Every owned partition."""
    with prefetcher._lock:
        return {tp: Buffered(each.position, each.nbytes, each.error) for tp, each in prefetcher._buffers.items()}
