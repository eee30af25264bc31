"""The metrics endpoint: the status of a run in Prometheus' words, on a port of the driver.

Every scrape asks for the status anew (see ``status``); nothing is counted here.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from sparkcohort.runtime.errors import CohortError, OptionError
from sparkcohort.runtime.group.table import GroupState
from sparkcohort.runtime.kafka.addresses import joined
from sparkcohort.runtime.listener import LISTENER_EVENTS
from sparkcohort.runtime.protocol.reasons import LABELS
from sparkcohort.runtime.shell.coordinator.totals import LISTENER_OUTCOMES, REFUSALS, REFUSED_REQUESTS
from sparkcohort.runtime.shell.observe.metrics_server import MetricsServer
from sparkcohort.runtime.shell.process.threads import Supervised

log = logging.getLogger("sparkcohort.metrics")

CLOSE_S: Final = 1.0
Status = Mapping[str, Any]
Samples = list[tuple[tuple[str, ...], float]]


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric: its name, kind (gauge, counter, histogram), meaning and labels; all have ``group`` as well."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()


_PARTITION = ("topic", "partition")
_MEMBER = ("member_id", "executor", "host")
_LOADS: Final = {
    "share": "share",
    "records": "records_per_second",
    "bytes": "bytes_per_second",
    "backlog": "backlog",
}

METRICS: Final = (
    MetricSpec("cohort_up", "gauge", "1 when the coordinator answered this scrape, else 0 and nothing but this"),
    MetricSpec("cohort_group_state", "gauge", "1 for the state the group is in, 0 for the others", ("state",)),
    MetricSpec("cohort_group_generation", "gauge", "The group's generation; it never goes down"),
    MetricSpec("cohort_group_members", "gauge", "Live members (agents, one per executor)"),
    MetricSpec("cohort_rebalances_total", "counter", "Rebalances that ended, by class of reason", ("reason",)),
    MetricSpec(
        "cohort_rebalance_duration_seconds", "histogram", "Time from the cause of a rebalance to its assignment"
    ),
    MetricSpec(
        "cohort_assignor_failures_total", "counter", "Rebalances whose assignor failed, all kept", ("assignor",)
    ),
    MetricSpec(
        "cohort_partitions_moved_total",
        "counter",
        "Partitions that a rebalance gave to another member than the one that had them last",
    ),
    MetricSpec(
        "cohort_listener_calls_total",
        "counter",
        "Calls of the rebalance listener (event created, assigned, revoked, lost), by how they ended "
        "(returned, raised, overran: the member went on without it)",
        ("event", "outcome"),
    ),
    MetricSpec("cohort_listener_seconds_total", "counter", "Time members spent in the rebalance listener", ("event",)),
    MetricSpec("cohort_requests_refused_total", "counter", "Fenced or refused requests", ("request", "error")),
    MetricSpec("cohort_commits_total", "counter", "Commits to the Kafka group that succeeded"),
    MetricSpec("cohort_commit_failures_total", "counter", "Commits to the Kafka group that failed"),
    MetricSpec(
        "cohort_strangers_total",
        "counter",
        "Consumers of others found in the Kafka group with partitions of this query",
    ),
    MetricSpec("cohort_partition_current_offset", "gauge", "Offset committed to the Kafka group", _PARTITION),
    MetricSpec("cohort_partition_log_end_offset", "gauge", "Log end offset as last heard", _PARTITION),
    MetricSpec("cohort_partition_lag_records", "gauge", "Log end offset less committed offset", _PARTITION),
    MetricSpec(
        "cohort_offsets_behind_latest_min",
        "gauge",
        "Records by which the last batch was behind its logs' ends when it was planned: the least of all partitions "
        "(with a ProgressListener)",
        ("query",),
    ),
    MetricSpec("cohort_offsets_behind_latest_max", "gauge", "The same: the most of all partitions", ("query",)),
    MetricSpec("cohort_offsets_behind_latest_avg", "gauge", "The same: the average of all partitions", ("query",)),
    MetricSpec("cohort_partition_unreachable", "gauge", "1 while the partition's broker does not answer", _PARTITION),
    MetricSpec(
        "cohort_partition_late",
        "gauge",
        "1 while the partition is read only as far as it is fetched, since its leader is slow or throttles",
        _PARTITION,
    ),
    MetricSpec(
        "cohort_records_consumed_total", "counter", "Records tasks delivered, by path (agent, direct)", ("path",)
    ),
    MetricSpec("cohort_bytes_consumed_total", "counter", "Arrow bytes tasks delivered, by path", ("path",)),
    MetricSpec(
        "cohort_malformed_records_total",
        "counter",
        "Records whose key or value could not be decoded, each time one was (value.format, key.format)",
        ("topic", "reason"),
    ),
    MetricSpec("cohort_plans_total", "counter", "Plans made; Spark may plan a batch more than once"),
    MetricSpec("cohort_slots_total", "counter", "Slots planned; a slot is the work of one task"),
    MetricSpec("cohort_ranges_delivered_total", "counter", "Ranges delivered for the first time"),
    MetricSpec(
        "cohort_ranges_read_again_total", "counter", "Ranges read again: a second action, a retry, a speculation"
    ),
    MetricSpec("cohort_agent_timeouts_total", "counter", "Tasks that gave their agent up and went on by themselves"),
    MetricSpec("cohort_member_heartbeat_age_seconds", "gauge", "Time since a member was last heard of", _MEMBER),
    MetricSpec("cohort_member_partitions", "gauge", "Partitions a member owns", _MEMBER),
    MetricSpec(
        "cohort_member_cut_off_partitions",
        "gauge",
        "Partitions whose leaders the member's executor does not reach, while the driver does; others own and read them",
        _MEMBER,
    ),
    MetricSpec(
        "cohort_member_load_share",
        "gauge",
        "Part of the whole load that a member carries (load-balanced): 1 / members where all carry the same",
        _MEMBER,
    ),
    MetricSpec(
        "cohort_member_load_records", "gauge", "Records per second of a member's partitions (load-balanced)", _MEMBER
    ),
    MetricSpec(
        "cohort_member_load_bytes", "gauge", "Bytes per second of a member's partitions (load-balanced)", _MEMBER
    ),
    MetricSpec(
        "cohort_member_load_backlog",
        "gauge",
        "Records that a member's partitions have yet to give, as it sees them (load-balanced)",
        _MEMBER,
    ),
)
"""Every metric there is; docs/reference/metrics.md and dashboards are compared with it."""


def values(status: Status) -> dict[str, Samples]:
    """The samples of every metric but the histogram by metric name, as (label values, value)."""
    parts = (_group, _listener, _partitions, _consumed, _members)
    return {"cohort_up": [((), 1.0)], **{name: samples for part in parts for name, samples in part(status).items()}}


def _group(status: Status) -> dict[str, Samples]:
    by_reason, commits = status["rebalance_totals"]["by_reason"], status["commits"]
    return {
        "cohort_group_state": [((state.value,), float(state.value == status["state"])) for state in GroupState],
        "cohort_group_generation": [((), status["generation"])],
        "cohort_group_members": [((), len(status["members"]))],
        "cohort_rebalances_total": [((reason,), by_reason.get(reason, 0)) for reason in LABELS],
        "cohort_assignor_failures_total": _from_nought(
            [(name,) for name in status["assignors"]],
            {(name,): count for name, count in status["failed_rebalances"].items()},
        ),
        "cohort_partitions_moved_total": [((), status["partitions_moved"])],
        "cohort_requests_refused_total": _from_nought(
            product(REFUSED_REQUESTS, REFUSALS),
            {(row["request"], row["error"]): row["count"] for row in status["refused"]},
        ),
        "cohort_commits_total": [((), commits.get("commits", 0))],
        "cohort_commit_failures_total": [((), commits.get("failures", 0))],
        "cohort_strangers_total": [((), commits.get("strangers", 0))],
    }


def _from_nought(labels: Iterable[tuple[str, ...]], counts: Mapping[tuple[str, ...], float]) -> Samples:
    """A sample for all that can be counted: ``increase()`` doesn't see a counter that comes into being with its first 1."""
    return sorted({**dict.fromkeys(labels, 0), **counts}.items())


def _listener(status: Status) -> dict[str, Samples]:
    calls, spent_ms = status["listener_calls"], Counter[str]()
    for row in calls:
        spent_ms[row["event"]] += row["total_ms"]
    return {
        "cohort_listener_calls_total": _from_nought(
            product(LISTENER_EVENTS, LISTENER_OUTCOMES),
            {(row["event"], row["outcome"]): row["calls"] for row in calls},
        ),
        "cohort_listener_seconds_total": _from_nought(
            [(event,) for event in LISTENER_EVENTS],
            {(event,): total / 1000 for event, total in spent_ms.items()},
        ),
    }


def _partitions(status: Status) -> dict[str, Samples]:
    def known(name: str) -> Samples:
        rows = [((row["topic"], str(row["partition"])), row[name]) for row in status["partitions"]]
        return [(labels, value) for labels, value in rows if value is not None]

    def is_set(name: str) -> Samples:
        return [((row["topic"], str(row["partition"])), float(row[name] is not None)) for row in status["partitions"]]

    return {
        "cohort_partition_current_offset": known("current_offset"),
        "cohort_partition_log_end_offset": known("log_end_offset"),
        "cohort_partition_lag_records": known("lag"),
        "cohort_partition_unreachable": is_set("unreachable"),
        "cohort_partition_late": is_set("late"),
        **_behind(status["query"]),
    }


def _behind(query: Mapping[str, Any] | None) -> dict[str, Samples]:
    """As Spark's progress events have it, if a listener tells of them."""
    told = {} if query is None else query["offsets_behind_latest"]
    labels = () if query is None else (query["name"] or query["id"],)
    names = ("min", "max", "avg")
    return {f"cohort_offsets_behind_latest_{name}": [(labels, told[name])] if told else [] for name in names}


def _consumed(status: Status) -> dict[str, Samples]:
    audit = status["audit"]
    return {
        "cohort_records_consumed_total": [
            (("agent",), audit["records_from_agent"]),
            (("direct",), audit["records_direct"]),
        ],
        "cohort_bytes_consumed_total": [(("agent",), audit["bytes_from_agent"]), (("direct",), audit["bytes_direct"])],
        "cohort_malformed_records_total": [
            ((row["topic"], row["reason"]), row["count"]) for row in status["malformed"]
        ],
        "cohort_plans_total": [((), audit["plans"])],
        "cohort_slots_total": [((), audit["slots"])],
        "cohort_ranges_delivered_total": [((), audit["ranges_delivered"])],
        "cohort_ranges_read_again_total": [((), audit["ranges_again"])],
        "cohort_agent_timeouts_total": [((), audit["agent_timeouts"])],
    }


def _members(status: Status) -> dict[str, Samples]:
    cut_off = Counter(row["member_id"] for row in status["cut_off"])
    rows = [((row["member_id"], str(row["executor"]), str(row["host"])), row) for row in status["members"]]
    return {
        "cohort_member_heartbeat_age_seconds": [(labels, row["heartbeat_age_ms"] / 1000) for labels, row in rows],
        "cohort_member_partitions": [(labels, len(row["owned"])) for labels, row in rows],
        "cohort_member_cut_off_partitions": [(labels, cut_off[row["member_id"]]) for labels, row in rows],
        **{
            f"cohort_member_load_{name}": [(labels, row["load"][key]) for labels, row in rows if row["load"]]
            for name, key in _LOADS.items()
        },
    }


class StatusCollector(Collector):
    """Turns the status into metrics at every scrape; a coordinator that does not answer is ``cohort_up 0``."""

    def __init__(self, status: Callable[[], Status]) -> None:
        self._status = status
        self._group_id = ""

    def describe(self) -> list[Metric]:
        """Nothing is known before the first scrape (prometheus_client asks at registration)."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The metrics of one scrape."""
        try:
            status = self._status()
        except (CohortError, TimeoutError, OSError) as error:
            log.warning("no status for a scrape: %s", str(error) or type(error).__name__)
            status = {}
        if not status:  # no answer, or the run is ending
            yield _family(METRICS[0], self._group_id, [((), 0.0)])
            return
        self._group_id, samples = status["group"], values(status)
        for spec in METRICS:
            if spec.kind == "histogram":
                yield _histogram(spec, self._group_id, status["rebalance_totals"])
            else:
                yield _family(spec, self._group_id, samples[spec.name])


def _family(spec: MetricSpec, group_id: str, samples: Samples) -> Metric:
    kind = CounterMetricFamily if spec.kind == "counter" else GaugeMetricFamily
    family = kind(spec.name, spec.help, labels=("group", *spec.labels))
    for labels, value in samples:
        family.add_metric((group_id, *labels), value)
    return family


def _histogram(spec: MetricSpec, group_id: str, totals: Mapping[str, Any]) -> Metric:
    family = HistogramMetricFamily(spec.name, spec.help, labels=("group",))
    buckets = [(str(bound / 1000), count) for bound, count in totals["buckets"]]
    family.add_metric((group_id,), [*buckets, ("+Inf", totals["count"])], totals["sum_ms"] / 1000)
    return family


class MetricsEndpoint:
    """Serves the metrics over HTTP on ``address:port`` from ``start`` to ``close``; nothing runs before.

    ``status`` gives the value of ``status.build`` and may be called from any thread.  Port 0 takes a free one.
    """

    def __init__(self, address: str, port: int, status: Callable[[], Status]) -> None:
        self._address = address
        self.port = port
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(StatusCollector(status))
        self._server: MetricsServer | None = None
        self._thread = Supervised("cohort-metrics", self._is_open, self._serve, _give_up, stuck_s=None)

    def start(self) -> None:
        """Bind the port and serve.  Raises OptionError naming ``metrics.port`` or ``metrics.address``."""
        try:
            family, *_, (host, *_rest) = socket.getaddrinfo(self._address, self.port, type=socket.SOCK_STREAM)[0]
            self._server = MetricsServer((str(host), self.port), family)
        except OSError as error:
            raise _refused(self._address, self.port, error) from None
        self._server.set_app(make_wsgi_app(self._registry))
        self.port = self._server.server_port
        self._thread.start()
        log.info("metrics of the group at http://%s/metrics", joined(self._address, self.port))

    def _is_open(self) -> bool:
        return self._server is not None

    def _serve(self) -> None:
        server = self._server
        if server is not None:
            server.handle_request()
            server.tend()

    def close(self) -> None:
        """Stop serving and close the socket; harmless when not started."""
        self._thread.close()
        server, self._server = self._server, None
        if server is not None:
            self._thread.join(CLOSE_S)
            server.server_close()


def _give_up(error: CohortError) -> None:
    """A query goes on without its metrics."""
    log.error("no more metrics: %s", error)


def _refused(address: str, port: int, error: OSError) -> OptionError:
    if error.errno in (errno.EADDRINUSE, errno.EACCES):
        why = "is in use" if error.errno == errno.EADDRINUSE else "needs privileges that this process does not have"
        return OptionError(
            f"metrics.port={port}: the port {why} on {address}; give every query a port of its own, "
            "or leave metrics.port out to run without metrics"
        )
    return OptionError(
        f"metrics.address={address}: cannot listen there ({error.strerror or error}); use 127.0.0.1 (the default), "
        "0.0.0.0, or an address of the driver's host"
    )
