"""The scenarios of Spark's own Kafka suites (4.2.0), by their names there.  Names in ``{}`` stand for each of the values that the suite draws."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class Result(StrEnum):
    """What becomes of a scenario here, beside Spark's own source."""

    SAME = "same"
    BETTER = "better"
    REFUSED = "refused"
    DIFFERENT = "different"
    NOT_APPLICABLE = "not applicable"


SAME: Final = Result.SAME
BETTER: Final = Result.BETTER
REFUSED: Final = Result.REFUSED
DIFFERENT: Final = Result.DIFFERENT
NOT_APPLICABLE: Final = Result.NOT_APPLICABLE


class Scenario(NamedTuple):
    """One row: ``words`` say why it is better, different or nothing that a user sees, or, where it is refused, what to do.

    A ``test`` runs both formats, unless ``alone`` says why Spark's own source has nothing to compare.  It may end with
    ``[id]``, the id of the parameters that are this scenario.  Only a row that is not applicable has no test.
    """

    suite: str
    name: str
    result: Result
    words: str = ""
    test: str = ""
    alone: str = ""

    @property
    def beside(self) -> bool:
        """Whether both formats are run and compared."""
        return bool(self.test) and not self.alone


E2E: Final = "tests/e2e/"
BATCH, SWITCH, SCENE = f"{E2E}test_batch_reads.py", f"{E2E}test_switching.py", f"{E2E}test_scenarios.py"
PARITY, STATEFUL, CHECKPOINTS = f"{E2E}test_parity.py", f"{E2E}test_stateful.py", f"{E2E}test_checkpoints.py"
SOURCES: Final = f"{E2E}test_sources.py"
REDACTION: Final = "tests/unit/options/test_redaction.py"
READS: Final = f"{BATCH}::test_reads_are_those_of_sparks_own_source"
REFUSES: Final = f"{E2E}test_batch_refusals.py::test_what_sparks_own_source_refuses_is_refused"
STARTS, YOUNG = f"{SCENE}::test_where_streams_start", f"{SWITCH}::test_what_is_refused[a time after all records]"
ASKED, EMPTY = f"{SCENE}::test_the_same_whatever_is_asked", f"{SCENE}::test_what_is_empty"
CONTINUOUS: Final = f"{SCENE}::test_continuous_is_refused"
DELETED: Final = f"{PARITY}::test_deletion_under_a_pattern"
LEFT_OUT: Final = f"{E2E}test_batch_refusals.py::test_partitions_that_json_leaves_out"
TWICE: Final = f"{SWITCH}::test_two_actions_of_one_batch_read"
ODD: Final = f"{E2E}test_odd_data.py::test_rows_are_those_of_sparks_own_source"
TASKS, BATCH_TASKS = f"{SCENE}::test_tasks_of_a_stream", f"{BATCH}::test_as_many_tasks_as_sparks_own_source"
RETRIED: Final = f"{E2E}test_executors.py::test_an_executor_is_killed_and_replaced"
DELEGATED, RENEWED = f"{E2E}test_operators_settings.py", f"{E2E}test_tokens.py::test_tokens_that_end_while_a_query_runs"

MICRO, RELATION, LOSS = "KafkaMicroBatchSourceSuite", "KafkaRelationSuite", "KafkaDontFailOnDataLossSuite"
OPTIONS, READER, STRATEGY = "KafkaSourceProviderSuite", "KafkaOffsetReaderSuite", "ConsumerStrategySuite"
EVOLUTION: Final = "StreamingSourceEvolutionSuite"
CONSUMER, TOKENS, REDACTED = "KafkaDataConsumerSuite", "KafkaDelegationTokenSuite", "KafkaRedactionUtilSuite"

SINK: Final = f"{E2E}test_sink.py"
STREAM_SINK, BATCH_SINK = "KafkaSinkMicroBatchStreamingSuite", ("KafkaSinkBatchSuiteV1", "KafkaSinkBatchSuiteV2")
INSIDE: Final = "a class of Spark's own, nothing that a user sees"
NO_V1: Final = "no source here is of the old interface"
NO_CONTINUOUS: Final = "Spark takes no Python source there: use Trigger.ProcessingTime"
BY_NAME: Final = "an error in both; ours names the option and says what to do"
FIGURES: Final = "in the event with the reader in the JVM; by a listener or a function without, since Spark takes none from a Python source"
FIRST: Final = "Spark shows that file to no Python source: the group has the start of batch 0"
NO_TOKENS: Final = (
    "a warning names the setting: give kafka.sasl.jaas.config, or kafka.sasl.oauthbearer.provider, which makes tokens"
)
NO_LOGIN: Final = "librdkafka has no login by delegation tokens"
NO_OPTIONS: Final = "Spark's own reads no tokens of a function"
ITS_OWN: Final = "each format has its own redaction"
DRAWN: Final = " with useDeprecatedOffsetFetching {true, false}"

_ROWS: Final[tuple[tuple[str, Result, str, str, str, tuple[str, ...]], ...]] = (
    # suite, what becomes of it, why or what to do, the test, why it is on ours alone ("": it runs both formats), the names there
    (MICRO, SAME, "", f"{SCENE}::test_asynchronous_progress", "", ("async progress tracking",)),
    (MICRO, SAME, "", f"{STATEFUL}::test_queries_with_state", "", ("Trigger.AvailableNow", "KafkaSource with watermark")),
    (MICRO, BETTER, "an error by the name KAFKA_DATA_LOSS; with failOnDataLoss=false it goes on, where Spark's own ends all the same", f"{PARITY}::test_partitions_that_available_now_loses", "", (
        "Query with Trigger.AvailableNow should throw error when topic partitions got unavailable during subsequent batches",)),
    (MICRO, SAME, "an error by the name KAFKA_DATA_LOSS", f"{PARITY}::test_a_topic_made_anew_with_a_shorter_log[unread]", "", (
        "Query with Trigger.AvailableNow should throw error when offset(s) in planned topic partitions got unavailable during subsequent batches",)),
    (MICRO, DIFFERENT, FIRST, CHECKPOINTS, "", (
        "(de)serialization of initial offsets",
        "ensure that initial offset are written with an extra byte in the beginning (SPARK-19517)",
        "deserialization of initial offset written by Spark 2.1.0 (SPARK-19517)",
        "deserialization of initial offset written by future version")),
    (MICRO, SAME, "", f"{SCENE}::test_limits_of_a_batch", "", (
        "SPARK-26718 Rate limit set to Long.Max should not overflow integer during end offset calculation",)),
    (MICRO, BETTER, "the limit holds with many small partitions, too, where Spark's own reads more", f"{SWITCH}::test_a_limit_with_small_partitions", "", ("maxOffsetsPerTrigger",)),
    (MICRO, SAME, "", f"{SCENE}::test_limits_of_a_batch", "", ("minOffsetsPerTrigger", "compositeReadLimit")),
    (MICRO, SAME, "", f"{STATEFUL}::test_progress_and_plan", "", ("input row metrics",)),
    (MICRO, SAME, "an error by the condition that Spark has for it, or the others go on with failOnDataLoss=false", DELETED, "", (
        "subscribing topic by pattern with topic deletions", "delete a topic when a Spark job is running")),
    (MICRO, DIFFERENT, "a topic that is gone leaves the offsets, also the only one, so that one of its name is read from its beginning", EMPTY, "", ("SPARK-41375: empty partitions should not record to latest offset",)),
    (MICRO, BETTER, "the same error; also where the new log is longer, since a recreated topic is known by its id: Spark's own leaves out records there", f"{SOURCES}::test_a_topic_made_anew", "", (
        "subscribe topic by pattern with topic recreation between batches",)),
    (MICRO, SAME, "batch for batch", f"{SCENE}::test_a_source_that_has_nothing_new", "", ("SPARK-22956: currentPartitionOffsets should be set when no new data comes in",)),
    (MICRO, DIFFERENT, "the same rows and a warning: group.id names the whole", ASKED, "", ("allow group.id prefix",)),
    (MICRO, BETTER, "kafka.group.id means group.id, and it is the group that is committed", f"{SWITCH}::test_a_group_is_required", "", ("allow group.id override",)),
    (MICRO, SAME, "of one DataFrame; two loads of a topic need two groups", f"{SWITCH}::test_a_self_join_of_two_loads", "", (
        "ensure stream-stream self-join generates only one offset in log and correct metrics",)),
    (MICRO, SAME, "", f"{STATEFUL}::test_transactions_that_limits_cut", "", ("read Kafka transactional messages: read_committed",)),
    (MICRO, SAME, "", ODD, "", (
        "read Kafka transactional messages: read_uncommitted", "SPARK-27494: read kafka record containing null key/values.", "Kafka column types")),
    (MICRO, NOT_APPLICABLE, INSIDE, "", "", ("SPARK-25495: FetchedData.reset should reset all fields",)),
    (MICRO, SAME, "", TASKS, "", ("SPARK-30656: minPartitions", "minPartitions is supported")),
    (MICRO, SAME, "an error by the condition that Spark has for it", f"{SCENE}::test_a_timestamp_that_overflows", "", ("SPARK-56243: malformed record timestamp throws detailed error",)),
    (MICRO, NOT_APPLICABLE, NO_V1, "", "", ("V1 Source is used when disabled through SQLConf", "V2 Source is used by default")),
    (MICRO, SAME, "a checkpoint of Spark's source goes on, there and back", f"{CHECKPOINTS}::test_there_and_back", "", (
        "default config of includeHeader doesn't break existing query from Spark 2.4",)),
    (MICRO, SAME, FIGURES, f"{E2E}test_progress_listener.py::test_offsets_behind_latest_as_sparks_own", "", (
        "test custom metrics - with rate limit", "test custom metrics - no rate limit")),
    (MICRO, SAME, FIGURES, f"{PARITY}::test_progress_without_records", "", (
        "test custom metrics - corner cases", "SPARK-57438: metrics should not NPE when latestPartitionOffsets is null")),
    (MICRO, SAME, "idle and in a batch", f"{PARITY}::test_a_query_stops", "", ("cannot stop Kafka stream",)),
    (MICRO, SAME, "", STARTS, "", tuple(
        f"{kind} from {start} (failOnDataLoss: {{true, false}})"
        for kind in ("assign", "subscribing topic by name", "subscribing topic by pattern")
        for start in ("latest offsets", "earliest offsets", "specific offsets", "specific timestamps", "global timestamp per topic"))),
    (MICRO, SAME, "", YOUNG, "", tuple(
        f"subscribing topic by {kind} from {start} with non-matching starting offset"
        for kind in ("name", "pattern")
        for start in ("specific timestamps", "global timestamp per topic"))),
    (MICRO, SAME, "read again as it was planned", f"{PARITY}::test_an_uncommitted_batch_of_available_now", "", (
        "SPARK-53560: no crash looping during uncommitted batch retry in AvailableNow trigger",)),
    (MICRO, SAME, BY_NAME, f"{SWITCH}::test_what_is_refused", "", ("bad source options",)),
    (MICRO, SAME, BY_NAME, f"{SCENE}::test_refused_by_name", "", ("unsupported kafka configs",)),
    (MICRO, SAME, "", f"{SWITCH}::test_what_is_read[a word in capitals]", "", ("get offsets from case insensitive parameters",)),
    (MICRO, SAME, "topics that come and go, partitions and records, stops and starts", f"{PARITY}::test_topics_and_partitions_that_come", "", (
        "stress test with multiple topics and partitions",)),
    *(
        (RELATION, SAME, "", f"{READS}[{name}]", "", (name,))
        for name in (
            "explicit earliest to latest offsets",
            "default starting and ending offsets",
            "explicit offsets",
            "default starting and ending offsets with headers",
            "timestamp provided for starting and ending",
            "timestamp provided for starting, offset provided for ending",
            "timestamp provided for ending, offset provided for starting",
            "timestamp provided for starting, ending not provided",
            "timestamp provided for ending, starting not provided",
            "global timestamp provided for starting and ending",
            "preferences on offset related options",
            "no matched offset for timestamp - endingOffsets",
        )
    ),
    (RELATION, SAME, "", f"{ODD}[transactions, committed]", "", ("read Kafka transactional messages: read_committed",)),
    (RELATION, SAME, "", f"{ODD}[transactions, all]", "", ("read Kafka transactional messages: read_uncommitted",)),
    *(
        (RELATION, SAME, BY_NAME, f"{REFUSES}[{name}]", "", (name,))
        for name in (
            "no matched offset for timestamp - startingOffsets",
            "unresolved start offset greater than end offset",
            "resolved start offset greater than end offset (with latest)",
            "resolved start offset greater than end offset (without latest)",
        )
    ),
    (RELATION, DIFFERENT, "partitions that the JSON leaves out start at startingOffsets.fallback and end at latest", LEFT_OUT, "", ("topic-partition for start offset and end offset must match",)),
    (RELATION, SAME, BY_NAME, REFUSES, "", ("bad batch query options",)),
    (RELATION, SAME, "", TWICE, "", ("reuse same dataframe in query",)),
    (RELATION, DIFFERENT, "decided by the first action, as there, and for all later ones: load() again for newer records", TWICE, "", ("test late binding start offsets",)),
    (RELATION, SAME, "", BATCH_TASKS, "", ("SPARK-30656: minPartitions",)),
    (RELATION, NOT_APPLICABLE, NO_V1, "", "", ("V1 Source is used when set through SQLConf", "V2 Source is used when set through SQLConf")),
    (LOSS, SAME, "", f"{BATCH}::test_lost_records", "", tuple(
        f"failOnDataLoss=false should not return duplicated records: batch {version}" for version in ("v1", "v2"))),
    (LOSS, SAME, "", f"{SOURCES}::test_data_loss", "", tuple(
        f"failOnDataLoss=false should not return duplicated records: microbatch {version}" for version in ("v1", "v2"))),
    (LOSS, REFUSED, NO_CONTINUOUS, CONTINUOUS, "", ("failOnDataLoss=false should not return duplicated records: continuous processing",)),
    (LOSS, SAME, "what is left, once", f"{PARITY}::test_losses_at_random", "", ("stress test for failOnDataLoss=false",)),
    (OPTIONS, SAME, "", ASKED, "", tuple(f"{mode} mode - options should be handled as case-insensitive" for mode in ("batch", "micro-batch"))),
    (OPTIONS, REFUSED, NO_CONTINUOUS, CONTINUOUS, "", ("continuous mode - options should be handled as case-insensitive",)),
    (READER, SAME, "", f"{ODD}[transactions, all]", "", ("isolationLevel must give back default isolation level when not set",)),
    (READER, SAME, "", f"{ODD}[transactions, read_uncommitted]", "", ("isolationLevel must give back READ_UNCOMMITTED when set",)),
    (READER, SAME, "", f"{ODD}[transactions, committed]", "", ("isolationLevel must give back READ_COMMITTED when set",)),
    (READER, SAME, BY_NAME, f"{SCENE}::test_refused_by_name[throw exception when invalid isolation level set]", "", (
        "isolationLevel must throw exception when invalid isolation level set",)),
    (READER, SAME, "as many tasks, and the same rows", BATCH_TASKS, "", (
        f"SPARK-30656: getOffsetRangesFromUnresolvedOffsets - using special offsets{DRAWN}",
        f"SPARK-30656: getOffsetRangesFromUnresolvedOffsets - multiple topic partitions{DRAWN}")),
    (READER, SAME, "the same rows", f"{READS}[explicit offsets]", "", (f"SPARK-30656: getOffsetRangesFromUnresolvedOffsets - using specific offsets{DRAWN}",)),
    (READER, SAME, "at least as many tasks, and the same rows", TASKS, "", (f"SPARK-30656: getOffsetRangesFromResolvedOffsets{DRAWN}",)),
    (READER, DIFFERENT, "no error: partitions that the JSON leaves out start at startingOffsets.fallback", LEFT_OUT, "", (
        f"SPARK-48383: START_OFFSET_DOES_NOT_MATCH_ASSIGNED error class{DRAWN}",)),
    (READER, SAME, "asked again", f"{PARITY}::test_a_broker_that_does_not_answer", "", ("SPARK-55561: fetchPartitionOffsets retries on transient failures",)),
    (READER, BETTER, "AvailableNow: an error that names the broker; a stream waits for it, where Spark's own ends", f"{PARITY}::test_a_broker_that_does_not_answer", "", (
        "SPARK-55561: fetchPartitionOffsets throws after all retries exhausted",)),
    (STRATEGY, NOT_APPLICABLE, INSIDE, "", "", ("createAdmin must create admin properly",)),
    (STRATEGY, SAME, "", f"{READS}[assign]", "", ("AssignStrategy.assignedTopicPartitions must give back all assigned",)),
    (STRATEGY, REFUSED, "the error names them: leave them out of assign", f"{E2E}test_batch_refusals.py::test_partitions_that_do_not_exist", "", (
        "AssignStrategy.assignedTopicPartitions must skip invalid partitions",)),
    (STRATEGY, SAME, "", f"{SWITCH}::test_what_is_read[two topics]", "", ("SubscribeStrategy.assignedTopicPartitions must give back all assigned",)),
    (STRATEGY, SAME, "", f"{SWITCH}::test_what_is_read[a pattern of two topics]", "", ("SubscribePatternStrategy.assignedTopicPartitions must give back all assigned",)),
    (CONSUMER, NOT_APPLICABLE, INSIDE, "", "", ("SPARK-19886: Report error cause correctly in throwOnDataLoss",)),
    (CONSUMER, SAME, "what a task that runs again gives is what was planned, once", RETRIED, "its cache of consumers is not here", ("new KafkaDataConsumer instance in case of Task retry",)),
    (CONSUMER, REFUSED, NO_TOKENS, DELEGATED, NO_LOGIN, ("same KafkaDataConsumer instance in case of same token",)),
    (CONSUMER, REFUSED, f"{NO_TOKENS} and renews them while the query runs", RENEWED, NO_OPTIONS, ("new KafkaDataConsumer instance in case of token renewal",)),
    (CONSUMER, SAME, "tasks that read one partition at once", BATCH_TASKS, "", (
        "SPARK-23623: concurrent use of KafkaDataConsumer",
        *(f"SPARK-25151 Handles multiple tasks in executor fetching same (topic, partition) pair{edge}"
          for edge in ("", " and same offset (edge-case) - data in use", " and same offset (edge-case) - data not in use")))),
    (TOKENS, REFUSED, NO_TOKENS, DELEGATED, NO_LOGIN, ("Roundtrip",)),
    *(
        (STREAM_SINK, SAME, "", f"{SINK}::test_where_a_stream_goes[{way}]", "", (f"streaming - {name}",))
        for way, name in (
            ("a column", "write to kafka with topic field"),
            ("an option", "write w/o topic field, with topic option"),
            ("both", "topic field and topic option"),
        )
    ),
    (STREAM_SINK, SAME, "in the same words", f"{SINK}::test_wrong_columns", "", (
        "streaming - write data with bad schema", "streaming - write data with valid schema but wrong types")),
    (STREAM_SINK, SAME, "", f"{SINK}::test_no_topic", "", ("streaming - write to non-existing topic",)),
    (STREAM_SINK, SAME, BY_NAME, f"{SINK}::test_refused_settings", "", ("streaming - exception on config serializer",)),
    (STREAM_SINK, SAME, "with Cohort's jar; without it Spark takes output mode update of no Python sink", f"{SINK}::test_update_mode", "", ("streaming - sink progress is produced",)),
    *(
        (suite, result, words, f"{SINK}::{test}", "", (name,))
        for suite in BATCH_SINK
        for result, words, test, name in (
            (SAME, "", "test_a_batch", "batch - write to kafka"),
            (DIFFERENT, "a partitioner of Java's is refused by name; keys, the column partition and nulls in it go where they go there", "test_keys_have_their_partition", "batch - partition column and partitioner priorities"),
            (SAME, "in the same words", "test_no_topic", "batch - null topic field value, and no topic option"),
            (SAME, "", "test_an_analyzed_plan", "SPARK-20496: batch - enforce analyzed plans"),
            (SAME, "an error in both", "test_modes_of_a_batch", "batch - unsupported save modes"),
        )
    ),
    (BATCH_SINK[1], SAME, "", f"{SINK}::test_an_analyzed_plan", "", ("generic - write big data with small producer buffer",)),
    (EVOLUTION, SAME, "a source named, added, in another place, and removed; cohort reads their checkpoints", f"{E2E}test_named_sources.py::test_sources_come_and_go_by_name", "", (
        "named sources enforcement uses V2 offset log format",
        "source evolution - add new source with named sources",
        "source evolution - reorder sources with named sources",
        "names preserved through union operations")),
    (OPTIONS, SAME, "on every Spark, at load()", f"{E2E}test_operators_settings.py", "Spark's own has it after 4.2", (
        "SPARK-59328: disallowed Kafka options are rejected on the source path",)),
    (REDACTED, SAME, "no secret in a log or an error", f"{REDACTION}::test_errors_of_options_are_whole_and_have_no_secret", ITS_OWN, (
        "redactParams should redact passwords from parameters", "redactParams should redact token password from parameters")),
    (REDACTED, SAME, "no secret in a log or an error", f"{REDACTION}::test_a_secret_that_is_quoted_is_never_shown", ITS_OWN, ("redactJaasParam should redact token password",)),
    (REDACTED, NOT_APPLICABLE, INSIDE, "", "", (
        "redactParams shouldn't throw exception when no SparkEnv available",
        "redactParams should give back empty parameters",
        "redactParams should give back null value",
        "redactParams should redact non String parameters",
        "redactJaasParam should give back null",
        "redactJaasParam should give back empty string")),
)  # fmt: skip

SCENARIOS: Final = tuple(
    Scenario(suite, name, result, words, test, alone)
    for suite, result, words, test, alone, names in _ROWS
    for name in names
)
