"""What an agent has fetched ahead, looked at from outside."""

from __future__ import annotations

import time
from typing import NamedTuple

from sparkcohort.runtime.batches.slow_partitions import FetchProgress
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.agent.prefetch import Prefetcher


class Buffered(NamedTuple):
    """One owned partition: where fetching stands, what is buffered, and why no more is fetched."""

    position: int
    nbytes: int
    error: str


def silent(prefetcher: Prefetcher) -> dict[TopicPartition, tuple[int, str]]:
    """The partitions whose leaders don't answer."""
    with prefetcher.owned() as owned:
        return owned.silent()


def waits(prefetcher: Prefetcher, *followed: TopicPartition) -> dict[TopicPartition, FetchProgress]:
    """For how long tasks have waited since the last call."""
    with prefetcher.owned() as owned:
        return owned.take_waits(followed, time.monotonic())


def buffered(prefetcher: Prefetcher) -> dict[TopicPartition, Buffered]:
    """Every owned partition."""
    with prefetcher.owned() as owned:
        return {tp: Buffered(each.position, each.nbytes, each.error) for tp, each in owned.by_partition.items()}
