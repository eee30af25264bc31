"""The metrics of kafka_exporter and of Burrow that a run knows, by their names: the option ``metrics.names``.

Their labels are those programs' own (``consumergroup``, ``consumer_group``, no ``group``), so that their dashboards and
alerts find them.  Beyond ``metrics.partitions`` there are sums only, as for our own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeAlias

from prometheus_client.metrics_core import GaugeMetricFamily

Status: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = Sequence[Mapping[str, Any]]
Samples: TypeAlias = list[tuple[tuple[str, ...], float]]

CLUSTER: Final = "kafka"
"""Burrow's label of the cluster, whose name is Burrow's configuration and nothing that Kafka tells."""
STOPPED_S: Final = 300
"""A commit that has been due for so long is Burrow's STOP."""
_OK, _STOP = 1, 4
_GROUP: Final = ("consumergroup",)
_BURROWS: Final = ("cluster", "consumer_group")
_TOPIC: Final = ("topic",)
_PARTITION: Final = ("topic", "partition")


class OtherMetric(NamedTuple):
    """A gauge under somebody else's name; ``samples`` makes those of a status and of the partitions that may have series."""

    program: str
    name: str
    labels: tuple[str, ...]
    help: str
    samples: Callable[[Status, Rows], Samples]


def _by_partition(key: str, lead: Callable[[Status], tuple[str, ...]]) -> Callable[[Status, Rows], Samples]:
    def samples(status: Status, own: Rows) -> Samples:
        known = [row for row in own if row[key] is not None]
        return [((*lead(status), row["topic"], str(row["partition"])), row[key]) for row in known]

    return samples


def _sum_by_topic(key: str) -> Callable[[Status, Rows], Samples]:
    def samples(status: Status, _own: Rows) -> Samples:
        known = [row for row in status["partitions"] if row[key] is not None]
        by_topic = groupby(known, key=lambda row: str(row["topic"]))
        return [((*_group(status), topic), sum(row[key] for row in each)) for topic, each in by_topic]

    return samples


def _nobody(_status: Status) -> tuple[str, ...]:
    return ()


def _group(status: Status) -> tuple[str, ...]:
    return (status["group"],)


def _cluster(_status: Status) -> tuple[str, ...]:
    return (CLUSTER,)


def _cluster_and_group(status: Status) -> tuple[str, ...]:
    return (CLUSTER, status["group"])


def _partitions(status: Status, _own: Rows) -> Samples:
    by_topic = groupby(status["partitions"], key=lambda row: str(row["topic"]))
    return [((topic,), len(list(each))) for topic, each in by_topic]


def _total_lag(status: Status, _own: Rows) -> Samples:
    known = [row["lag"] for row in status["partitions"] if row["lag"] is not None]
    return [(_cluster_and_group(status), sum(known))] if known else []


def _standing(status: Status, _own: Rows) -> Samples:
    stopped = status["fenced"] or status["commits"]["pending_ms"] > 1000 * STOPPED_S
    return [(_cluster_and_group(status), _STOP if stopped else _OK)]


def _exporters(
    name: str, labels: tuple[str, ...], text: str, samples: Callable[[Status, Rows], Samples]
) -> OtherMetric:
    return OtherMetric("kafka_exporter", f"kafka_{name}", labels, text, samples)


def _burrow(name: str, labels: tuple[str, ...], text: str, samples: Callable[[Status, Rows], Samples]) -> OtherMetric:
    return OtherMetric("burrow", f"burrow_kafka_{name}", labels, text, samples)


OTHER_METRICS: Final = (
    _exporters(
        "consumergroup_current_offset",
        (*_GROUP, *_PARTITION),
        "Offset committed to the Kafka group",
        _by_partition("current_offset", _group),
    ),
    _exporters(
        "consumergroup_current_offset_sum",
        (*_GROUP, *_TOPIC),
        "The same, the sum of a topic's partitions",
        _sum_by_topic("current_offset"),
    ),
    _exporters(
        "consumergroup_lag",
        (*_GROUP, *_PARTITION),
        "Log end offset less committed offset",
        _by_partition("lag", _group),
    ),
    _exporters(
        "consumergroup_lag_sum", (*_GROUP, *_TOPIC), "The same, the sum of a topic's partitions", _sum_by_topic("lag")
    ),
    _exporters(
        "consumergroup_members",
        _GROUP,
        "Executors in the group; in Kafka the driver is its one member",
        lambda status, _own: [(_group(status), len(status["members"]))],
    ),
    _exporters("topic_partitions", _TOPIC, "Partitions of the topic that the query reads", _partitions),
    _exporters(
        "topic_partition_current_offset", _PARTITION, "Log end offset", _by_partition("log_end_offset", _nobody)
    ),
    _exporters(
        "topic_partition_oldest_offset", _PARTITION, "Log start offset", _by_partition("log_start_offset", _nobody)
    ),
    _burrow("consumer_lag_total", _BURROWS, "Records that the group has not committed", _total_lag),
    _burrow(
        "consumer_status",
        _BURROWS,
        "1 (OK), or 4 (STOP): fenced, or a commit has been due for five minutes",
        _standing,
    ),
    _burrow(
        "consumer_current_offset",
        (*_BURROWS, *_PARTITION),
        "Offset committed to the Kafka group",
        _by_partition("current_offset", _cluster_and_group),
    ),
    _burrow(
        "consumer_partition_lag",
        (*_BURROWS, *_PARTITION),
        "Log end offset less committed offset",
        _by_partition("lag", _cluster_and_group),
    ),
    _burrow(
        "topic_partition_offset", ("cluster", *_PARTITION), "Log end offset", _by_partition("log_end_offset", _cluster)
    ),
)
"""Every such metric; docs/reference/metrics.md has them as a table."""


def families(status: Status, programs: Sequence[str], most_partitions: int) -> Iterator[GaugeMetricFamily]:
    """The metrics of these programs, of one scrape."""
    rows = status["partitions"]
    own = rows if len(rows) <= most_partitions else ()
    for metric in OTHER_METRICS:
        if metric.program in programs:
            family = GaugeMetricFamily(metric.name, f"{metric.help} (as {metric.program})", labels=metric.labels)
            for labels, value in metric.samples(status, own):
                family.add_metric(labels, value)
            yield family
