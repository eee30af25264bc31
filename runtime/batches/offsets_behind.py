"""How far a batch is behind the ends of the logs, as Spark's own Kafka source counts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    return summary(lags)


def summary(lags: Sequence[int]) -> OffsetsBehindLatest | None:
    """Least, most and average of the partitions' lags; None without partitions."""
    return OffsetsBehindLatest(min(lags), max(lags), sum(lags) / len(lags)) if lags else None


def as_metrics(lag: OffsetsBehindLatest | None) -> dict[str, str]:
    """The names and the form of Spark's own source.

    >>> as_metrics(OffsetsBehindLatest(0, 3, 1.5))
    {'minOffsetsBehindLatest': '0', 'maxOffsetsBehindLatest': '3', 'avgOffsetsBehindLatest': '1.5'}
    """
    return {} if lag is None else {f"{name}OffsetsBehindLatest": str(value) for name, value in lag._asdict().items()}
