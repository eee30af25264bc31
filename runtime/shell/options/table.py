"""The one table of the source's options: docs/options.md, ``conf/`` and the parser are all compared with it.

Names and meanings are Spark's where Spark's Kafka source has the option, Kafka's where Kafka's consumer has it.
Keys are case-insensitive.  ``kafka.*`` options are not listed one by one: their table is ``kafka_settings.rows``.
"""

from __future__ import annotations

from sparkcohort.runtime.shell.options.kafka_settings.rows import Fate, names
from sparkcohort.runtime.shell.options.option_row import Option

WHERE = (
    Option("kafka.bootstrap.servers", "list", None, "brokers to start from, host:port,host:port; required"),
    Option("subscribe", "list", None, "topics, comma-separated; exactly one of subscribe, subscribePattern, assign"),
    Option(
        "subscribePattern",
        "string",
        None,
        "regular expression; every topic in which it is found is read (Spark's unanchored find)",
    ),
    Option("assign", "JSON", None, 'fixed partitions, {"topic":[0,1]}'),
    Option(
        "group.id",
        "string",
        None,
        "the Kafka group; required for streams, a batch read needs none; kafka.group.id means the same",
    ),
    Option(
        "group.instance.id",
        "string",
        None,
        "static member id of the driver in the Kafka group; default: cohort- and a hash of what is subscribed",
        reads="streams",
    ),
)

START = (
    Option(
        "startingOffsets",
        "offsets",
        "committed",
        'where a new query starts: committed, earliest, latest or JSON {"topic":{"0":123}} with -2 earliest, -1 latest; '
        "a batch read starts at earliest by default, never at latest, and commits nothing",
        choices=("committed", "earliest", "latest"),
    ),
    Option(
        "startingOffsets.fallback",
        "offsets",
        "earliest",
        "start of a partition that has no committed offset or is not named in startingOffsets: earliest, "
        "latest or JSON",
        choices=("earliest", "latest"),
    ),
    Option(
        "startingTimestamp",
        "milliseconds",
        None,
        "start at the first record at or after this time; beats the next and startingOffsets",
    ),
    Option(
        "startingOffsetsByTimestamp",
        "JSON",
        None,
        'the same per partition, {"topic":{"0":1700000000000}}; beats startingOffsets',
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        "choice",
        "error",
        "when no record is that young: error, or start at latest",
        choices=("error", "latest"),
    ),
)

BATCH = (
    Option(
        "maxOffsetsPerTrigger",
        "integer",
        None,
        "most offsets per batch, shared in proportion to what waits; a partition that lags leaves the others half",
        minimum=1,
        reads="streams",
    ),
    Option(
        "maxOffsetsPerTrigger.topics",
        "JSON",
        None,
        'most offsets per batch of single topics, {"topic":1000}; those left out have only the limit of all',
        minimum=1,
        reads="streams",
    ),
    Option(
        "maxBytesPerTrigger",
        "size",
        None,
        "most bytes per batch, about: 67108864, 64m, 1g; at least one record; by the sizes of those read before, so the "
        "first batches are small (a record that nothing is known of counts as 1 MiB); of several limits the smallest wins",
        minimum=1,
        reads="streams",
    ),
    Option(
        "minOffsetsPerTrigger", "integer", None, "hold the batch until so many offsets wait", minimum=1, reads="streams"
    ),
    Option(
        "maxTriggerDelay",
        "duration",
        "15m",
        "the longest that minOffsetsPerTrigger holds a batch: 15m, 90s, 500ms; a bare number is milliseconds",
        reads="streams",
    ),
    Option("minPartitions", "integer", None, "about the least number of tasks when there is data", minimum=1),
    Option("maxRecordsPerPartition", "integer", None, "most offsets per task", minimum=1),
    Option("failOnDataLoss", "boolean", "true", "fail when data is gone before it was read (false: warn and go on)"),
    Option("includeHeaders", "boolean", "false", "add the column headers; a schema of .schema(...) decides by itself"),
    Option(
        "unreachable.partitions",
        "choice",
        "hold",
        "a partition whose broker is away: hold it and go on with the others, wait for it, or fail",
        choices=("hold", "wait", "fail"),
        reads="streams",
    ),
    Option(
        "unreachable.timeout.ms",
        "milliseconds",
        "120000",
        "the longest wait for unreachable partitions where they are waited for (AvailableNow, Once, wait)",
        minimum=1,
    ),
)

VALUES = (
    *(
        option
        for of, what in (("value", "a value"), ("key", "a key"))
        for option in (
            Option(
                f"{of}.format",
                "choice",
                "binary",
                f"what the column {of} is: binary; string, as CAST({of} AS STRING); json, avro and protobuf, a struct",
                choices=("binary", "string", "json", "avro", "protobuf"),
            ),
            Option(
                f"{of}.schema",
                "string",
                None,
                f"what {what} has: DDL for json, the schema's text or file for avro, the file of a descriptor set for "
                "protobuf, or its bytes in base64",
            ),
            Option(f"{of}.message", "string", None, "protobuf: the message's name in the descriptor set"),
            Option(
                f"{of}.message.index",
                "choice",
                "same",
                "protobuf in a registry's frame: same, a record of another message of its file is bad; any, it is read all the "
                "same, as in topics whose files were reordered",
                choices=("same", "any"),
            ),
            Option(
                f"{of}.timezone",
                "string",
                None,
                "json: where a TIMESTAMP without a zone is from: Europe/Berlin, +05:30; default: UTC, if that is the session's",
            ),
            Option(
                f"{of}.mode",
                "choice",
                "permissive",
                f"{what} that can't be decoded: permissive makes it null, dropmalformed drops the row, failfast ends the "
                "query",
                choices=("permissive", "dropmalformed", "failfast"),
            ),
            Option(
                f"{of}.corrupt.column", "string", None, f"a BINARY column for the bytes of {what} that can't be decoded"
            ),
            Option(
                f"{of}.subject", "string", None, f"the subject in the schema registry; default: the topic's for {of}s"
            ),
            Option(
                f"{of}.schema.version",
                "string",
                None,
                f"the version of the subject whose schema {what} is read with: a number; default: the latest one",
            ),
        )
    ),
)

REGISTRY = (
    Option(
        "schema.registry.url",
        "list",
        None,
        "the schema registry: avro and protobuf are then framed as Confluent's serializers do, and avro's reader's schema "
        "comes from there unless value.schema gives it, which needs sparkcohort[registry]",
    ),
    Option("schema.registry.basic.auth.user.info", "string", None, "user:password for the registry"),
    Option("schema.registry.bearer.auth.token", "string", None, "a token for the registry"),
    Option("schema.registry.bearer.auth.logical.cluster", "string", None, "the registry's cluster, with a token"),
    Option("schema.registry.bearer.auth.identity.pool.id", "string", None, "the token's identity pool"),
    Option("schema.registry.ssl.ca.location", "string", None, "who has signed the registry's certificate: a PEM file"),
    Option("schema.registry.ssl.certificate.location", "string", None, "our certificate for the registry: a PEM file"),
    Option("schema.registry.ssl.key.location", "string", None, "its key: a PEM file"),
    Option("schema.registry.ssl.key.password", "string", None, "the key's password"),
    Option("schema.registry.proxy", "string", None, "a proxy on the way to the registry"),
    Option(
        "schema.registry.timeout.ms",
        "milliseconds",
        "30000",
        "how long a schema may be waited for",
        minimum=1,
        maximum=3_600_000,
    ),
)

GROUP = (
    Option(
        "session.timeout.ms",
        "milliseconds",
        "45000",
        "a member unheard for so long is out of the group; so long do agents wait for a query to be started again, "
        "and tasks for a coordinator that is silent",
        minimum=1000,
        maximum=1_800_000,
        reads="streams",
    ),
    Option(
        "heartbeat.interval.ms",
        "milliseconds",
        "3000",
        "time between a member's heartbeats; less than the session timeout",
        minimum=100,
        reads="streams",
    ),
    Option(
        "rebalance.timeout.ms",
        "milliseconds",
        "60000",
        "the longest that a rebalance waits for its members",
        minimum=1000,
        reads="streams",
    ),
    Option(
        # From the kill of an executor to its replacement's join: 17 and 21 s on two busy cores (JVM, first Python worker,
        # agent), to which a cluster manager adds the time for a container.  Three times that costs little: what waits
        # is read all the time, only not ahead.
        "scheduled.rebalance.max.delay.ms",
        "milliseconds",
        "60000",
        "partitions of a departed executor wait so long for a replacement, read directly meanwhile; 0: move at once",
        maximum=2**31 - 1,
        reads="streams",
    ),
    Option(
        "partition.assignment.strategy",
        "list",
        "cooperative-sticky,range",
        "assignors in order of preference, Kafka's class names too; your own by its entry point's name, or as "
        "package.module.Class or package.module:object",
        reads="streams",
    ),
    Option(
        # A fifth more than the mean is what a batch can take longer by; below it, moving costs more than it brings.
        "load.balance.threshold",
        "number",
        "1.2",
        "load-balanced: a member that carries more than so many times the mean load is relieved; more than 1",
        minimum=1,
        maximum=1_000,
        reads="streams",
    ),
    Option(
        "load.balance.after.ms",
        "milliseconds",
        "60000",
        "load-balanced: an imbalance must have lasted for so long, and from one round to the next at least as much "
        "passes; loads are smoothed over the same time",
        minimum=1000,
        maximum=86_400_000,
        reads="streams",
    ),
    Option(
        "load.balance.max.moves",
        "integer",
        "5",
        "load-balanced: most partitions that one round moves for the sake of load",
        minimum=1,
        maximum=2**31 - 1,
        reads="streams",
    ),
    Option(
        "handover",
        "choice",
        "none",
        "how a query takes over from one that runs: none fences that one; graceful has it finish its batch and stop first",
        choices=("none", "graceful"),
        reads="streams",
    ),
    Option(
        "handover.timeout.ms",
        "milliseconds",
        "120000",
        "the longest that handover=graceful waits for the running query's batch; then as none",
        minimum=1000,
        reads="streams",
    ),
    Option(
        "rebalance.listener",
        "string",
        None,
        "package.module.Class or package.module:object, told on every executor which partitions it gets, gives up, loses",
        reads="streams",
    ),
    Option(
        "agent.timeout.ms",
        "milliseconds",
        "10000",
        "a task that its agent leaves without an answer for so long reads Kafka itself",
        minimum=1,
        reads="streams",
    ),
    Option(
        "buffer.bytes",
        "integer",
        "67108864",
        "most bytes that a member prefetches, as they are unpacked; a record of more than a quarter of it is read by its task",
        minimum=1_048_576,
        reads="streams",
    ),
    Option(
        "client.rack",
        "string",
        "",
        "rack of the readers: they fetch from the nearest replica, and own what has one near where balance allows it",
    ),
    Option(
        "client.rack.env",
        "string",
        None,
        "environment variable of the executors that names the rack of each; where it isn't set client.rack counts",
    ),
)

TIMES = (
    Option(
        "kafkaConsumer.pollTimeoutMs",
        "milliseconds",
        "120000",
        "a read that makes no progress for so long fails",
        minimum=1,
    ),
    Option("fetchOffset.numRetries", "integer", "3", "tries of an offset look-up before it fails"),
    Option("fetchOffset.retryIntervalMs", "milliseconds", "1000", "pause between them"),
    Option(
        "kafka.sasl.oauthbearer.provider",
        "string",
        None,
        "package.module:function that makes tokens to log in with (OAUTHBEARER), on driver and executors; see guides/tokens.md",
    ),
    Option(
        "kafka.default.api.timeout.ms",
        "milliseconds",
        "60000",
        "the longest wait for the brokers at start: a wrong address fails after it",
        minimum=1000,
    ),
    Option(
        "metadata.max.age.ms",
        "milliseconds",
        "30000",
        "how often new partitions and topics are looked for",
        minimum=100,
        reads="streams",
    ),
)

SEEN = (
    Option(
        "coordinator.host", "string", None, "where agents reach the driver; default: spark.driver.host", reads="streams"
    ),
    Option(
        "coordinator.port", "integer", "0", "port of the coordinator; 0: any free one", maximum=65535, reads="streams"
    ),
    Option(
        "metrics.port",
        "integer",
        None,
        "port of the Prometheus endpoint; none: no endpoint",
        maximum=65535,
        reads="streams",
    ),
    Option(
        "metrics.address", "string", "127.0.0.1", "address that the Prometheus endpoint listens on", reads="streams"
    ),
    Option(
        "metrics.partitions",
        "integer",
        "2000",
        "up to so many partitions each has series of its own; with more there are only those of topics and the group",
        reads="streams",
    ),
)

STREAMS_HAVE_NO_END = (
    "only batch reads, spark.read, end at an offset; use trigger(availableNow=True) to stop at what is there now"
)

BATCH_READS = (
    Option(
        "endingOffsets",
        "offsets",
        "latest",
        'where a batch read ends: latest or JSON {"topic":{"0":123}} with -1 latest; partitions left out end at latest',
        choices=("latest",),
        reads="batches",
    ),
    Option(
        "endingTimestamp",
        "milliseconds",
        None,
        "end before the first record at or after this time, at latest where there is none; beats the next and endingOffsets",
        reads="batches",
    ),
    Option(
        "endingOffsetsByTimestamp",
        "JSON",
        None,
        'the same per partition, {"topic":{"0":1700000000000}}; beats endingOffsets',
        reads="batches",
    ),
    Option(
        "pushDownPredicate",
        "boolean",
        "false",
        "filters on timestamp, partition, offset and topic become ranges of offsets; needs "
        "spark.sql.python.filterPushdown.enabled and a load() for each filter: see guides/batch-reads",
        reads="batches",
    ),
    Option(
        "maxOutOfOrderness",
        "duration",
        None,
        "pushDownPredicate: a promise that in each partition no record comes behind one that is younger by more: 0s, 5m; "
        "a filter's latest time then ends the read, and records that break the promise may be left out",
        reads="batches",
    ),
)

OTHER = (
    Option(
        "groupIdPrefix",
        "string",
        None,
        "Spark's prefix of a generated group id",
        status="accepted",
        instead="group.id names the group as a whole",
    ),
    Option(
        "partition.metadata.cache.ttl.ms",
        "integer",
        None,
        "newer than Spark 4.2: for how long Spark's source keeps the list of partitions",
        status="accepted",
        instead="metadata.max.age.ms says how soon a new partition is seen",
    ),
    Option(
        "endingOffsetsByTimestampStrategy",
        "choice",
        None,
        "not an option of Spark's source either",
        status="refused",
        instead="a partition without a record at or after the ending time is read up to latest",
    ),
    Option(
        "topic", "string", None, "Spark's Kafka sink", status="refused", instead="subscribe names the topics to read"
    ),
    Option(
        "path", "string", None, "load(path)", status="refused", instead="subscribe names the topics; call load() bare"
    ),
)

OPTIONS: tuple[Option, ...] = (*WHERE, *START, *BATCH, *BATCH_READS, *VALUES, *REGISTRY, *GROUP, *TIMES, *SEEN, *OTHER)

BY_KEY: dict[str, Option] = {option.name.lower(): option for option in OPTIONS}

# Kafka's own names of what are options of the group here: ``kafka.X`` means the same as ``X``.
KAFKA_ALIASES = names(Fate.ALIAS)
