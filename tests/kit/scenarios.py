"""The scenarios of Spark's own Kafka suites (4.2.0) and of Flink's, by their names there: what becomes of each, and which test shows it.

``python -m tests.kit.pages`` makes docs/reference/scenarios.md of it; ``make parity`` runs the tests.  A test that is
``beside`` runs both formats and compares them.  Names in ``{}`` stand for each of the values that the suite draws.
"""

from __future__ import annotations

from typing import Final

from tests.kit import flink_scenarios
from tests.kit.scenario import Scenario

E2E: Final = "tests/e2e/"
BATCH, SWITCH, SCENE = f"{E2E}test_batch_reads.py", f"{E2E}test_switching.py", f"{E2E}test_scenarios.py"
READS, REFUSES = (
    f"{BATCH}::test_reads_are_those_of_sparks_own_source",
    f"{BATCH}::test_what_sparks_own_source_refuses_is_refused",
)
STARTS: Final = f"{SCENE}::test_where_streams_start"
YOUNG: Final = f"{SCENE}::test_times_that_nothing_is_as_young_as"


MICRO, RELATION, LOSS = "KafkaMicroBatchSourceSuite", "KafkaRelationSuite", "KafkaDontFailOnDataLossSuite"
OPTIONS, READER = "KafkaSourceProviderSuite", "KafkaOffsetReaderSuite"
SAME: Final = "the same"
INSIDE: Final = "a class of Spark's own, nothing that a user sees"
NO_V1: Final = "no source here is of the old interface"
NO_CONTINUOUS: Final = "refused by Spark, for all Python sources"

_SPARKS: Final = (
    Scenario(
        MICRO,
        "async progress tracking",
        "the group never has more than the logs",
        f"{E2E}test_async_progress.py",
        False,
    ),
    Scenario(MICRO, "Trigger.AvailableNow", SAME, f"{E2E}test_stateful.py::test_queries_with_state"),
    Scenario(
        MICRO,
        "Query with Trigger.AvailableNow should throw error when topic partitions got unavailable during subsequent batches",
        "waits for a broker that is away, then an error that names the partitions",
        f"{E2E}test_brokers.py",
        False,
    ),
    Scenario(
        MICRO,
        "Query with Trigger.AvailableNow should throw error when offset(s) in planned topic partitions got unavailable "
        "during subsequent batches",
        "an error by Spark's name, KAFKA_DATA_LOSS",
        f"{E2E}test_sources.py::test_data_loss",
        False,
    ),
    Scenario(
        MICRO,
        "(de)serialization of initial offsets",
        "kept in the group until the first commit",
        f"{E2E}test_checkpoints.py",
        True,
    ),
    Scenario(
        MICRO,
        "SPARK-26718 Rate limit set to Long.Max should not overflow integer during end offset calculation",
        SAME,
        f"{SCENE}::test_a_limit_without_end",
    ),
    Scenario(
        MICRO,
        "maxOffsetsPerTrigger",
        "the same batches; better with many small partitions, where the limit holds",
        f"{SWITCH}::test_a_limit_with_small_partitions",
    ),
    Scenario(MICRO, "minOffsetsPerTrigger", SAME, f"{SCENE}::test_minimum_and_maximum_of_a_batch"),
    Scenario(MICRO, "compositeReadLimit", SAME, f"{SCENE}::test_minimum_and_maximum_of_a_batch"),
    Scenario(MICRO, "input row metrics", SAME, f"{E2E}test_stateful.py::test_progress_and_plan"),
    Scenario(
        MICRO,
        "subscribing topic by pattern with topic deletions",
        "the others go on with failOnDataLoss=false",
        f"{E2E}test_sources.py::test_data_loss",
        False,
    ),
    Scenario(
        MICRO, "SPARK-41375: empty partitions should not record to latest offset", SAME, f"{SWITCH}::test_what_is_alike"
    ),
    Scenario(
        MICRO,
        "subscribe topic by pattern with topic recreation between batches",
        "better: a topic made anew is known by its id, and is an error unless failOnDataLoss=false",
        f"{E2E}test_sources.py::test_a_topic_made_anew",
        False,
    ),
    *(
        Scenario(
            MICRO,
            name,
            "files of Spark's own source; here the group has the start of batch 0",
            f"{E2E}test_checkpoints.py",
        )
        for name in (
            "ensure that initial offset are written with an extra byte in the beginning (SPARK-19517)",
            "deserialization of initial offset written by Spark 2.1.0 (SPARK-19517)",
            "deserialization of initial offset written by future version",
        )
    ),
    Scenario(MICRO, "KafkaSource with watermark", SAME, f"{E2E}test_stateful.py::test_queries_with_state"),
    Scenario(
        MICRO,
        "delete a topic when a Spark job is running",
        "an error that names it, or the others go on with failOnDataLoss=false",
        f"{E2E}test_sources.py::test_data_loss",
        False,
    ),
    Scenario(
        MICRO,
        "SPARK-22956: currentPartitionOffsets should be set when no new data comes in",
        "a union of sources of which one has nothing new",
        f"{SWITCH}::test_sources_of_one_query_start_where_each_says",
    ),
    Scenario(
        MICRO, "allow group.id prefix", "a warning: group.id names the whole", "tests/unit/options/test_parse.py", False
    ),
    Scenario(
        MICRO,
        "allow group.id override",
        "required here: it is the group that is committed",
        f"{SWITCH}::test_a_group_is_required",
    ),
    Scenario(
        MICRO,
        "ensure stream-stream self-join generates only one offset in log and correct metrics",
        "one DataFrame the same; two loads need two groups",
        f"{SWITCH}::test_a_self_join_of_two_loads",
    ),
    Scenario(
        MICRO,
        "read Kafka transactional messages: read_committed",
        SAME,
        f"{E2E}test_stateful.py::test_transactions_that_limits_cut",
    ),
    Scenario(
        MICRO,
        "read Kafka transactional messages: read_uncommitted",
        SAME,
        f"{E2E}test_odd_data.py::test_rows_are_those_of_sparks_own_source",
    ),
    Scenario(MICRO, "SPARK-25495: FetchedData.reset should reset all fields", INSIDE),
    Scenario(
        MICRO,
        "SPARK-27494: read kafka record containing null key/values.",
        SAME,
        f"{E2E}test_odd_data.py::test_rows_are_those_of_sparks_own_source",
    ),
    Scenario(MICRO, "SPARK-30656: minPartitions", SAME, f"{SCENE}::test_tasks_of_a_stream"),
    Scenario(
        MICRO,
        "SPARK-56243: malformed record timestamp throws detailed error",
        "the same name of the error",
        "tests/shell/consumer/test_range_reader.py",
        False,
    ),
    Scenario(MICRO, "V1 Source is used when disabled through SQLConf", NO_V1),
    Scenario(MICRO, "V2 Source is used by default", NO_V1),
    Scenario(MICRO, "minPartitions is supported", SAME, f"{SCENE}::test_tasks_of_a_stream"),
    Scenario(
        MICRO,
        "default config of includeHeader doesn't break existing query from Spark 2.4",
        "a checkpoint of Spark's source goes on, there and back",
        f"{E2E}test_checkpoints.py::test_there_and_back",
    ),
    *(
        Scenario(
            MICRO,
            name,
            "the same figures, by a listener or a function, since Spark takes none from a Python source",
            f"{E2E}test_progress_listener.py::test_offsets_behind_latest_as_sparks_own",
        )
        for name in ("test custom metrics - with rate limit", "test custom metrics - no rate limit")
    ),
    *(
        Scenario(MICRO, name, "the same figures", "tests/unit/streaming/test_progress_listener.py", False)
        for name in (
            "test custom metrics - corner cases",
            "SPARK-57438: metrics should not NPE when latestPartitionOffsets is null",
        )
    ),
    Scenario(
        MICRO,
        "cannot stop Kafka stream",
        "a query stops",
        f"{E2E}test_brokers.py",
        False,
    ),
    *(
        Scenario(MICRO, f"{kind} from {start} (failOnDataLoss: {{true, false}})", SAME, STARTS)
        for kind in ("assign", "subscribing topic by name", "subscribing topic by pattern")
        for start in (
            "latest offsets",
            "earliest offsets",
            "specific offsets",
            "specific timestamps",
            "global timestamp per topic",
        )
    ),
    *(
        Scenario(MICRO, f"subscribing topic by {kind} from {start} with non-matching starting offset", SAME, YOUNG)
        for kind in ("name", "pattern")
        for start in ("specific timestamps", "global timestamp per topic")
    ),
    Scenario(
        MICRO,
        "SPARK-53560: no crash looping during uncommitted batch retry in AvailableNow trigger",
        "a batch that was not committed is read again as it was planned",
        f"{E2E}test_restarts.py",
        False,
    ),
    Scenario(
        MICRO, "bad source options", "one sentence names the option and what to do", f"{SWITCH}::test_what_is_alike"
    ),
    Scenario(
        MICRO,
        "unsupported kafka configs",
        "refused as well, with what to use",
        "tests/unit/options/test_kafka_settings.py",
        False,
    ),
    Scenario(MICRO, "get offsets from case insensitive parameters", SAME, f"{SWITCH}::test_what_is_alike"),
    Scenario(MICRO, "Kafka column types", SAME, f"{E2E}test_odd_data.py::test_rows_are_those_of_sparks_own_source"),
    Scenario(
        MICRO,
        "stress test with multiple topics and partitions",
        "topics and partitions that come while it runs",
        f"{E2E}test_sources.py::test_new_topics_and_partitions",
        False,
    ),
    *(
        Scenario(RELATION, name, SAME, READS)
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
            "read Kafka transactional messages: read_committed",
        )
    ),
    Scenario(
        RELATION,
        "read Kafka transactional messages: read_uncommitted",
        SAME,
        f"{E2E}test_odd_data.py::test_batch_reads_have_the_rows_of_sparks_own_source",
    ),
    *(
        Scenario(RELATION, name, "refused as well, by a sentence that names option and remedy", REFUSES)
        for name in (
            "no matched offset for timestamp - startingOffsets",
            "bad batch query options",
            "topic-partition for start offset and end offset must match",
            "unresolved start offset greater than end offset",
            "resolved start offset greater than end offset (without latest)",
            "resolved start offset greater than end offset (with latest)",
        )
    ),
    Scenario(
        RELATION,
        "reuse same dataframe in query",
        "the first action decides what is read, for all",
        f"{SWITCH}::test_two_actions_of_one_batch_read",
    ),
    Scenario(
        RELATION,
        "test late binding start offsets",
        "decided by the first action, not by load()",
        f"{BATCH}::test_lost_records",
    ),
    Scenario(RELATION, "SPARK-30656: minPartitions", SAME, f"{BATCH}::test_as_many_tasks_as_sparks_own_source"),
    Scenario(RELATION, "V1 Source is used when set through SQLConf", NO_V1),
    Scenario(RELATION, "V2 Source is used when set through SQLConf", NO_V1),
    *(
        Scenario(
            LOSS,
            f"failOnDataLoss=false should not return duplicated records: batch {version}",
            SAME,
            f"{BATCH}::test_lost_records",
        )
        for version in ("v1", "v2")
    ),
    *(
        Scenario(
            LOSS,
            f"failOnDataLoss=false should not return duplicated records: microbatch {version}",
            SAME,
            f"{E2E}test_sources.py::test_data_loss",
            False,
        )
        for version in ("v1", "v2")
    ),
    Scenario(LOSS, "failOnDataLoss=false should not return duplicated records: continuous processing", NO_CONTINUOUS),
    Scenario(
        LOSS,
        "stress test for failOnDataLoss=false",
        "what is left, once",
        "tests/shell/driver/test_data_loss.py",
        False,
    ),
    *(
        Scenario(OPTIONS, f"{mode} mode - options should be handled as case-insensitive", SAME, test, False)
        for mode, test in (
            ("batch", "tests/unit/options/test_batch_options.py"),
            ("micro-batch", "tests/unit/options/test_parse.py"),
        )
    ),
    Scenario(OPTIONS, "continuous mode - options should be handled as case-insensitive", NO_CONTINUOUS),
    *(
        Scenario(READER, f"isolationLevel must {what}", SAME, "tests/unit/options/test_kafka_settings.py", False)
        for what in (
            "give back default isolation level when not set",
            "give back READ_UNCOMMITTED when set",
            "give back READ_COMMITTED when set",
            "throw exception when invalid isolation level set",
        )
    ),
    Scenario(
        READER,
        "SPARK-55561: fetchPartitionOffsets retries on transient failures",
        "asked again while the broker is away; its partitions are held",
        "tests/shell/driver/test_log_ends.py::test_a_stopped_broker_and_its_return",
        False,
    ),
    Scenario(
        READER,
        "SPARK-55561: fetchPartitionOffsets throws after all retries exhausted",
        "an error with the broker's name after unreachable.timeout.ms, where partitions are waited for",
        f"{E2E}test_brokers.py::test_available_now_gives_up_after_its_deadline",
        False,
    ),
)

SCENARIOS: Final = (*_SPARKS, *flink_scenarios.SCENARIOS)


def parity() -> list[str]:
    """The tests that run both formats, once each."""
    return sorted({row.test for row in SCENARIOS if row.beside and row.test})


def table() -> str:
    """A row for each, by suite."""
    lines = ["| scenario | here | run by |", "|---|---|---|"]
    suite = ""
    for row in SCENARIOS:
        if row.suite != suite:
            suite = row.suite
            lines.append(f"| **{suite}** | | |")
        path, _, name = row.test.partition("::")
        shown = f"`{path.removeprefix('tests/')}`" + (f" `{name}`" if name else "")
        both = ", both formats" if row.beside else ""
        lines.append(f"| {row.name} | {row.words} | {shown + both if row.test else ''} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print("\n".join(parity()))  # noqa: T201  for make parity
