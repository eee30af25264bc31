"""The options of one source, typed and checked, for the reader and for tasks.

Each Python worker imports this before its first row, so it imports nothing of the parser.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from sparkcohort.runtime.batches.hold import Policy
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.options.declaration import option, stream_option
from sparkcohort.runtime.values.columns import Columns, Field, dead_letter_topic, has_field

ByPartition: TypeAlias = Mapping[TopicPartition, int]
Start: TypeAlias = str | ByPartition

LOAD_BALANCED: Final = "load-balanced"
"""The assignor that uses measured loads; members measure only where it is offered."""


@dataclass(frozen=True, slots=True)
class SourceSubscription:
    """The subscription: topic names, a pattern, or fixed partitions; the other two fields are empty."""

    kind: Literal["subscribe", "subscribePattern", "assign"]
    topics: tuple[str, ...] = ()
    pattern: str = ""
    partitions: tuple[TopicPartition, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}:{self.name()}"

    def partitions_by_topic(self) -> dict[str, list[int]]:
        """The numbers of the partitions that are given one by one, ascending, by topic."""
        numbers: dict[str, list[int]] = {}
        for tp in sorted(self.partitions):
            numbers.setdefault(tp.topic, []).append(tp.partition)
        return numbers

    def name(self) -> str:
        """The topics, the pattern or the partitions, as text."""
        parts = ",".join(f"{tp.topic}-{tp.partition}" for tp in self.partitions)
        return self.pattern or ",".join(self.topics) or parts


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Every option of one source, typed and checked; times in milliseconds; ``kafka`` is librdkafka's configuration."""

    bootstrap_servers: str = option(
        "kafka.bootstrap.servers",
        "servers",
        "brokers to start from, host:port,host:port; required",
        writes=True,
        example="broker-1:9092,broker-2:9092",
        heading="What to read, and as which group",
    )
    subscription: SourceSubscription
    group_id: str = option(
        "group.id",
        "string",
        "the Kafka group; required for streams, a batch read needs none; kafka.group.id means the same",
        example="billing",
    )
    group_instance_id: str = stream_option(
        "group.instance.id",
        "string",
        "static member id of the driver in the Kafka group; default: cohort- and a hash of what is subscribed",
        example="cohort-billing",
    )
    starting_offsets: Start = option(
        "startingOffsets",
        "offsets",
        'where a new query starts: committed, earliest, latest or JSON {"topic":{"0":123}} with -2 earliest, -1 latest; a batch read starts at earliest by default, never at latest, and commits nothing',
        default="committed",
        choices=("committed", "earliest", "latest"),
        heading="Where a new query starts",
    )
    starting_offsets_fallback: Start = option(
        "startingOffsets.fallback",
        "offsets",
        "start of a partition that has no committed offset or is not named in startingOffsets: earliest, latest or JSON",
        default="earliest",
        choices=("earliest", "latest"),
    )
    starting_timestamp: int | None = option(
        "startingTimestamp",
        "milliseconds",
        "start at the first record at or after this time; beats the next and startingOffsets",
        example="1700000000000",
    )
    starting_offsets_by_timestamp: ByPartition | None = option(
        "startingOffsetsByTimestamp",
        "timestamps",
        'the same per partition, {"topic":{"0":1700000000000}}; beats startingOffsets',
        example='{"orders":{"0":1700000000000}}',
    )
    starting_offsets_by_timestamp_strategy: str = option(
        "startingOffsetsByTimestampStrategy",
        "choice",
        "when no record is that young: error, or start at latest",
        default="error",
        choices=("error", "latest"),
    )
    max_offsets_per_trigger: int | None = stream_option(
        "maxOffsetsPerTrigger",
        "integer",
        "most offsets per batch, shared by backlog; a partition that lags leaves the others half",
        minimum=1,
        example="1000000",
        heading="Size of a batch, and what to do when things go wrong",
    )
    max_offsets_by_topic: Mapping[str, int] = stream_option(
        "maxOffsetsPerTrigger.topics",
        "by topic",
        'most offsets per batch of single topics, {"topic":1000}; those left out have only the limit of all',
        minimum=1,
        example='{"orders":100000}',
    )
    max_bytes_per_trigger: int | None = stream_option(
        "maxBytesPerTrigger",
        "size",
        "about the most bytes per batch, at least one record: 67108864, 64m, 1g; estimated from records read before, of which an unknown one counts as 1 MiB; of several limits the smallest wins",
        minimum=1,
        example="256m",
    )
    min_offsets_per_trigger: int | None = stream_option(
        "minOffsetsPerTrigger",
        "integer",
        "hold the batch until so many offsets wait",
        minimum=1,
        example="1000",
    )
    max_trigger_delay_ms: int = stream_option(
        "maxTriggerDelay",
        "duration",
        "the longest that minOffsetsPerTrigger holds a batch: 15m, 90s, 500ms; a bare number is milliseconds",
        default="15m",
    )
    min_partitions: int | None = option(
        "minPartitions", "integer", "about the least number of tasks when there is data", minimum=1, example="16"
    )
    max_records_per_partition: int | None = option(
        "maxRecordsPerPartition", "integer", "most offsets per task", minimum=1, example="500000"
    )
    fail_on_data_loss: bool = option(
        "failOnDataLoss", "boolean", "fail when data is gone before it was read (false: warn and go on)", default="true"
    )
    include_headers: bool = option(
        "includeHeaders",
        "boolean",
        "add the column headers; a schema of .schema(...) decides by itself; a write takes them wherever they are",
        default="false",
        writes=True,
    )
    unreachable_partitions: str = stream_option(
        "unreachable.partitions",
        "choice",
        "a partition whose broker is away: hold it and go on with the others, wait for it, or fail",
        default="hold",
        choices=("hold", "wait", "fail"),
    )
    unreachable_timeout_ms: int = option(
        "unreachable.timeout.ms",
        "milliseconds",
        "the longest wait for unreachable partitions where they are waited for (AvailableNow, Once, wait)",
        default="120000",
        minimum=1,
    )
    session_timeout_ms: int = stream_option(
        "session.timeout.ms",
        "milliseconds",
        "a member silent for so long is out of the group; agents wait as long for a query's next start, tasks for the coordinator",
        default="45000",
        minimum=1000,
        maximum=1800000,
        heading="The group of executors",
    )
    heartbeat_interval_ms: int = stream_option(
        "heartbeat.interval.ms",
        "milliseconds",
        "time between a member's heartbeats; less than the session timeout",
        default="3000",
        minimum=100,
    )
    rebalance_timeout_ms: int = stream_option(
        "rebalance.timeout.ms",
        "milliseconds",
        "the longest that a rebalance waits for its members",
        default="60000",
        minimum=1000,
    )
    # From the kill of an executor to its replacement's join: 17 and 21 s on two busy cores (JVM, first Python worker, agent), to which a
    # cluster manager adds the time for a container.  Three times that costs little: a partition that waits is read all the time, not ahead.
    scheduled_rebalance_max_delay_ms: int = stream_option(
        "scheduled.rebalance.max.delay.ms",
        "milliseconds",
        "partitions of a departed executor wait so long for a replacement, read by tasks meanwhile; 0: move at once",
        default="60000",
        maximum=2147483647,
    )
    assignors: tuple[str, ...] = stream_option(
        "partition.assignment.strategy",
        "assignors",
        "assignors in order of preference, Kafka's class names too; your own as package.module.Class or package.module:object",
        default="cooperative-sticky,range",
    )
    # A batch can take longer by what a member has above the mean: a fifth is worth a move, less is not.
    load_balance_threshold: float = stream_option(
        "load.balance.threshold",
        "number",
        "load-balanced: a member above so many times the mean load gives partitions up; more than 1",
        default="1.2",
        minimum=1,
        maximum=1000,
    )
    load_balance_after_ms: int = stream_option(
        "load.balance.after.ms",
        "milliseconds",
        "load-balanced: how long an imbalance must last, the least time between rounds, and what loads are smoothed over",
        default="60000",
        minimum=1000,
        maximum=86400000,
    )
    load_balance_max_moves: int = stream_option(
        "load.balance.max.moves",
        "integer",
        "load-balanced: most partitions that one round moves for load",
        default="5",
        minimum=1,
        maximum=2147483647,
    )
    handover: str = stream_option(
        "handover",
        "choice",
        "how a query takes over from one that runs: none fences it; graceful lets it finish its batch first",
        default="none",
        choices=("none", "graceful"),
    )
    handover_timeout_ms: int = stream_option(
        "handover.timeout.ms",
        "milliseconds",
        "the longest that handover=graceful waits for the running query's batch; then as none",
        default="120000",
        minimum=1000,
    )
    rebalance_listener: str = stream_option(
        "rebalance.listener",
        "dotted name",
        "package.module.Class or package.module:object, called on every executor when it gets or loses partitions",
        example="audit.Listener",
    )
    agent_timeout_ms: int = stream_option(
        "agent.timeout.ms",
        "milliseconds",
        "a task without an answer from its agent for so long reads Kafka itself",
        default="10000",
        minimum=1,
    )
    reader: str = option(
        "reader",
        "choice",
        "who reads for Spark: jvm (faster, and filters narrow a batch read; Spark must know Cohort's jar), python, or auto: jvm where it can",
        default="auto",
        choices=("auto", "jvm", "python"),
    )
    reader_jar: str = option(
        "reader.jar",
        "string",
        "what Cohort's jar says of itself and of the session where Spark has it; not to be set",
        default="",
    )
    buffer_bytes: int = stream_option(
        "buffer.bytes",
        "integer",
        "most unpacked bytes that a member prefetches; a task itself reads a record of more than a quarter of it",
        default="67108864",
        minimum=1048576,
    )
    client_rack: str = option(
        "client.rack",
        "string",
        "rack of the readers: they fetch from the nearest replica, and own partitions with one if balance allows it",
        default="",
        example="eu-central-1a",
    )
    client_rack_env: str = option(
        "client.rack.env",
        "variable",
        "environment variable of the executors with each one's rack; client.rack counts where it isn't set",
        example="NODE_ZONE",
    )
    poll_timeout_ms: int = option(
        "kafkaConsumer.pollTimeoutMs",
        "milliseconds",
        "a read that makes no progress for so long fails",
        default="120000",
        minimum=1,
        heading="Times",
    )
    fetch_retries: int = option(
        "fetchOffset.numRetries", "integer", "tries of an offset look-up before it fails", default="3"
    )
    fetch_retry_interval_ms: int = option(
        "fetchOffset.retryIntervalMs", "milliseconds", "pause between them", default="1000"
    )
    api_timeout_ms: int = option(
        "kafka.default.api.timeout.ms",
        "milliseconds",
        "the longest wait for the brokers at start: a wrong address fails after it",
        default="60000",
        minimum=1000,
    )
    metadata_max_age_ms: int = stream_option(
        "metadata.max.age.ms",
        "milliseconds",
        "how often new partitions and topics are looked for",
        default="30000",
        minimum=100,
        maximum=86_400_000,
    )
    coordinator_host: str = stream_option(
        "coordinator.host",
        "host",
        "where agents reach the driver; default: spark.driver.host",
        example="driver.example.org",
        heading="Where to be reached and seen",
    )
    coordinator_port: int = stream_option(
        "coordinator.port", "integer", "port of the coordinator; 0: any free one", default="0", maximum=65535
    )
    metrics_port: int | None = stream_option(
        "metrics.port",
        "integer",
        "port of the live page and of the Prometheus endpoint; none: neither",
        maximum=65535,
        example="9404",
    )
    metrics_address: str = stream_option(
        "metrics.address", "host", "address that live page and metrics listen on", default="127.0.0.1"
    )
    metrics_partitions: int = stream_option(
        "metrics.partitions",
        "integer",
        "up to so many partitions have series of their own; with more only topics and the group have",
        default="2000",
    )
    ending_offsets: Start = option(
        "endingOffsets",
        "offsets",
        'where a batch read ends: latest or JSON {"topic":{"0":123}} with -1 latest; partitions left out end at latest',
        default="latest",
        choices=("latest",),
        reads="batches",
        heading="Where a batch read (spark.read) ends; streams refuse these",
    )
    ending_timestamp: int | None = option(
        "endingTimestamp",
        "milliseconds",
        "end before the first record at or after this time, at latest where there is none; beats the next and endingOffsets",
        reads="batches",
        example="1700003600000",
    )
    ending_offsets_by_timestamp: ByPartition | None = option(
        "endingOffsetsByTimestamp",
        "timestamps",
        'the same per partition, {"topic":{"0":1700000000000}}; beats endingOffsets',
        reads="batches",
        example='{"orders":{"0":1700003600000}}',
    )
    columns: Columns
    kafka: Mapping[str, str] = field(repr=False)
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # for the driver's log, as the warnings are
    kafka_names: tuple[str, ...] = ()  # of Kafka's settings among the options, as they were written, in lower case

    @property
    def unreachable(self) -> Policy:
        """The policy for partitions whose broker is away."""
        return Policy(self.unreachable_partitions, self.unreachable_timeout_ms)

    def __repr__(self) -> str:
        from sparkcohort.runtime.shell.options.security_settings import redact  # noqa: PLC0415  tasks don't print options

        summary = f"group_id={self.group_id!r}, subscription={str(self.subscription)!r}"
        return f"SourceOptions({summary}, kafka={redact(self.kafka)!r})"

    def on_executor(self, environment: Mapping[str, str]) -> SourceOptions:
        """The options with the rack from an executor's environment (``client.rack.env``)."""
        rack = environment.get(self.client_rack_env, "").strip() if self.client_rack_env else ""
        return replace(self, client_rack=rack, kafka={**self.kafka, "client.rack": rack}) if rack else self

    def with_columns(self, columns: Columns) -> SourceOptions:
        """The options with the columns of the user's schema, which takes precedence over ``includeHeaders``."""
        warnings = self.warnings
        if has_field(self.columns, Field.HEADERS) and not has_field(columns, Field.HEADERS):
            warnings += (
                "option includeHeaders has no effect: the schema that .schema(...) gives has no column headers",
            )
        if dead_letter_topic(self.columns) and not dead_letter_topic(columns):
            warnings += (
                "option dead.letter.topic has no effect: the schema that .schema(...) gives has no column that is decoded",
            )
        return replace(self, columns=columns, warnings=warnings)

    def initial_hash(self) -> str:
        """16 hex digits of the query's start and subscription; a changed value replaces the stored start."""
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
