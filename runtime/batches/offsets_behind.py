"""How far a batch is behind the ends of the logs, as Spark's own Kafka source counts it."""

from __future__ import annotations

from collections.abc import Mapping

from sparkcohort.runtime.protocol.calls import OffsetsBehindLatest

ByTopic = Mapping[str, Mapping[str, int]]
"""Offsets as Spark has them, ``{"orders": {"0": 123}}``."""


def offsets_behind(end: ByTopic, latest: ByTopic) -> OffsetsBehindLatest | None:
    """How far ``end`` is behind ``latest``, over the partitions in both (Spark: ``KafkaMicroBatchStream.metrics``).

    >>> offsets_behind({"t": {"0": 4, "1": 9}}, {"t": {"0": 7, "1": 9}})
    OffsetsBehindLatest(min=0, max=3, avg=1.5)
    """
    lags = [
        newest - end[topic][partition]
        for topic, partitions in latest.items()
        for partition, newest in partitions.items()
        if partition in end.get(topic, ())
    ]
    return OffsetsBehindLatest(min(lags), max(lags), sum(lags) / len(lags)) if lags else None
