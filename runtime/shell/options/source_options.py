"""The options of one source, checked and typed: what the reader has, and each task.

Every Python worker imports this before its first row, and nothing of how options are parsed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.values.columns import Columns, Field, has

if TYPE_CHECKING:
    from sparkcohort.runtime.batches.hold import Policy
    from sparkcohort.runtime.shell.options.values import Start

LOAD_BALANCED: Final = "load-balanced"
"""The assignor that goes by what members measure: where it is offered, they do."""


@dataclass(frozen=True, slots=True)
class SourceSubscription:
    """What is read: topic names, a pattern, or fixed partitions; the other two fields are empty."""

    kind: Literal["subscribe", "subscribePattern", "assign"]
    topics: tuple[str, ...] = ()
    pattern: str = ""
    partitions: tuple[TopicPartition, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}:{self.name()}"

    def partitions_by_topic(self) -> dict[str, list[int]]:
        """The numbers of the partitions that are given one by one, ascending, by topic."""
        found: dict[str, list[int]] = {}
        for tp in sorted(self.partitions):
            found.setdefault(tp.topic, []).append(tp.partition)
        return found

    def name(self) -> str:
        """The topics, the pattern or the partitions, as text."""
        parts = ",".join(f"{tp.topic}-{tp.partition}" for tp in self.partitions)
        return self.pattern or ",".join(self.topics) or parts


@dataclass(frozen=True)
class SourceOptions:
    """Every option of one source, typed and checked; times in milliseconds; ``kafka`` is librdkafka's configuration."""

    bootstrap_servers: str
    subscription: SourceSubscription
    group_id: str
    group_instance_id: str
    starting_offsets: Start
    starting_offsets_fallback: Start
    starting_timestamp: int | None
    starting_offsets_by_timestamp: Mapping[TopicPartition, int] | None
    starting_offsets_by_timestamp_strategy: str
    max_offsets_per_trigger: int | None
    max_offsets_by_topic: Mapping[str, int]
    max_bytes_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_records_per_partition: int | None
    fail_on_data_loss: bool
    columns: Columns
    unreachable: Policy
    session_timeout_ms: int
    heartbeat_interval_ms: int
    rebalance_timeout_ms: int
    scheduled_rebalance_max_delay_ms: int
    assignors: tuple[str, ...]
    load_balance_threshold: float
    load_balance_after_ms: int
    load_balance_max_moves: int
    rebalance_listener: str
    handover: str
    handover_timeout_ms: int
    agent_timeout_ms: int
    poll_timeout_ms: int
    fetch_retries: int
    fetch_retry_interval_ms: int
    api_timeout_ms: int
    metadata_max_age_ms: int
    coordinator_host: str | None
    coordinator_port: int
    metrics_port: int | None
    metrics_address: str
    metrics_partitions: int
    buffer_bytes: int
    client_rack: str
    client_rack_env: str
    kafka: Mapping[str, str] = field(repr=False)
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # for the driver's log, as the warnings are
    kafka_names: tuple[str, ...] = ()  # of Kafka's settings among the options, as they were written, in lower case

    def __repr__(self) -> str:
        from sparkcohort.runtime.shell.options.security_settings import redact  # noqa: PLC0415  a task shows them to nobody

        shown = f"group_id={self.group_id!r}, subscription={str(self.subscription)!r}"
        return f"SourceOptions({shown}, kafka={redact(self.kafka)!r})"

    def on_executor(self, environment: Mapping[str, str]) -> SourceOptions:
        """The options with the rack of the executor that has this environment (see ``client.rack.env``)."""
        rack = environment.get(self.client_rack_env, "").strip() if self.client_rack_env else ""
        return replace(self, client_rack=rack, kafka={**self.kafka, "client.rack": rack}) if rack else self

    def with_columns(self, columns: Columns) -> SourceOptions:
        """The options of a query whose schema the user has written; it decides, whatever ``includeHeaders`` says."""
        warnings = self.warnings
        if has(self.columns, Field.HEADERS) and not has(columns, Field.HEADERS):
            warnings += (
                "option includeHeaders has no effect: the schema that .schema(...) gives has no column headers",
            )
        return replace(self, columns=columns, warnings=warnings)

    def initial_hash(self) -> str:
        """16 hex digits naming where this query would start and what it reads; another value pins the start anew."""
        starts = (self.starting_offsets, self.starting_offsets_fallback, self.starting_offsets_by_timestamp)
        value = [
            str(self.subscription),
            *map(_plain, starts),
            self.starting_timestamp,
            self.starting_offsets_by_timestamp_strategy,
        ]
        return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def _plain(start: Start | None) -> object:
    """A start as JSON writes it, in one order."""
    if isinstance(start, Mapping):
        return [[*tp, offset] for tp, offset in sorted(start.items())]
    return start
