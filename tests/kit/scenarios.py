"""The scenarios of Spark's own Kafka suites (4.2.0) and of Flink's, by their names there: what becomes of each, and which test shows it.

``python -m tests.kit.pages`` makes docs/reference/scenarios.md of it; ``make parity`` runs the tests that run both formats and
compare them: all but those whose row says why it is on ours ``alone``.  Names in ``{}`` stand for each of the values that the suite draws.
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
PARITY: Final = f"{E2E}test_parity.py"
ODD: Final = f"{E2E}test_odd_data.py::test_rows_are_those_of_sparks_own_source"


MICRO, RELATION, LOSS = "KafkaMicroBatchSourceSuite", "KafkaRelationSuite", "KafkaDontFailOnDataLossSuite"
OPTIONS, READER = "KafkaSourceProviderSuite", "KafkaOffsetReaderSuite"
SAME: Final = "the same"
INSIDE: Final = "a class of Spark's own, nothing that a user sees"
NO_V1: Final = "no source here is of the old interface"
NO_CONTINUOUS: Final = "refused by Spark, for all Python sources"
CONTINUOUS: Final = f"{SCENE}::test_continuous_is_refused"

_SPARKS: Final = (
    Scenario(
        MICRO,
        "async progress tracking",
        "the same rows and logs",
        f"{SCENE}::test_asynchronous_progress",
    ),
    Scenario(MICRO, "Trigger.AvailableNow", SAME, f"{E2E}test_stateful.py::test_queries_with_state"),
    Scenario(
        MICRO,
        "Query with Trigger.AvailableNow should throw error when topic partitions got unavailable during subsequent batches",
        "an error by the name KAFKA_DATA_LOSS",
        f"{PARITY}::test_partitions_that_available_now_loses",
    ),
    Scenario(
        MICRO,
        "Query with Trigger.AvailableNow should throw error when offset(s) in planned topic partitions got unavailable "
        "during subsequent batches",
        "an error by the name KAFKA_DATA_LOSS",
        f"{PARITY}::test_a_topic_made_anew_with_a_shorter_log[unread]",
    ),
    Scenario(
        MICRO,
        "(de)serialization of initial offsets",
        "kept in the group until the first commit",
        f"{E2E}test_checkpoints.py",
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
        "the same: an error by the condition that Spark has for it, or the others go on with failOnDataLoss=false",
        f"{PARITY}::test_deletion_under_a_pattern",
    ),
    Scenario(
        MICRO, "SPARK-41375: empty partitions should not record to latest offset", SAME, f"{SWITCH}::test_what_is_alike"
    ),
    Scenario(
        MICRO,
        "subscribe topic by pattern with topic recreation between batches",
        "the same error; better where the new log is longer: a topic made anew is known by its id, where Spark's own leaves out records",
        f"{PARITY}::test_a_topic_made_anew_with_a_longer_log",
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
        "the same: the others go on with failOnDataLoss=false",
        f"{PARITY}::test_deletion_under_a_pattern",
    ),
    Scenario(
        MICRO,
        "SPARK-22956: currentPartitionOffsets should be set when no new data comes in",
        "a union of sources of which one has nothing new",
        f"{SWITCH}::test_sources_of_one_query_start_where_each_says",
    ),
    Scenario(
        MICRO,
        "allow group.id prefix",
        "the same rows; a warning: group.id names the whole",
        f"{SCENE}::test_the_same_whatever_is_asked",
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
        ODD,
    ),
    Scenario(MICRO, "SPARK-25495: FetchedData.reset should reset all fields", INSIDE),
    Scenario(
        MICRO,
        "SPARK-27494: read kafka record containing null key/values.",
        SAME,
        ODD,
    ),
    Scenario(MICRO, "SPARK-30656: minPartitions", SAME, f"{SCENE}::test_tasks_of_a_stream"),
    Scenario(
        MICRO,
        "SPARK-56243: malformed record timestamp throws detailed error",
        "the same: an error by the condition that Spark has for it",
        f"{SCENE}::test_a_timestamp_that_overflows",
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
        Scenario(MICRO, name, "the same figures", f"{PARITY}::test_progress_without_records")
        for name in (
            "test custom metrics - corner cases",
            "SPARK-57438: metrics should not NPE when latestPartitionOffsets is null",
        )
    ),
    Scenario(
        MICRO,
        "cannot stop Kafka stream",
        "the same: it stops, idle and in a batch",
        f"{PARITY}::test_a_query_stops",
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
        "the same: read again as it was planned",
        f"{PARITY}::test_an_uncommitted_batch_of_available_now",
    ),
    Scenario(
        MICRO, "bad source options", "one sentence names the option and what to do", f"{SWITCH}::test_what_is_alike"
    ),
    Scenario(
        MICRO,
        "unsupported kafka configs",
        "refused as well, by name",
        f"{SCENE}::test_refused_by_name",
    ),
    Scenario(MICRO, "get offsets from case insensitive parameters", SAME, f"{SWITCH}::test_what_is_alike"),
    Scenario(MICRO, "Kafka column types", SAME, ODD),
    Scenario(
        MICRO,
        "stress test with multiple topics and partitions",
        SAME,
        f"{PARITY}::test_topics_and_partitions_that_come",
    ),
    *(
        Scenario(RELATION, name, SAME, f"{READS}[{name}]")
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
    *(
        Scenario(
            RELATION,
            f"read Kafka transactional messages: {level}",
            SAME,
            f"{E2E}test_odd_data.py::test_batch_reads_have_the_rows_of_sparks_own_source[transactions, {which}]",
        )
        for level, which in (("read_committed", "committed"), ("read_uncommitted", "all"))
    ),
    *(
        Scenario(RELATION, name, "refused as well, by a sentence that names option and remedy", f"{REFUSES}{which}")
        for name, which in (
            *(
                (name, f"[{name}]")
                for name in (
                    "no matched offset for timestamp - startingOffsets",
                    "unresolved start offset greater than end offset",
                    "resolved start offset greater than end offset (with latest)",
                )
            ),
            ("bad batch query options", ""),
            ("topic-partition for start offset and end offset must match", "[an end that isn't there]"),
            ("resolved start offset greater than end offset (without latest)", ""),
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
            f"{PARITY}::test_records_that_are_gone",
        )
        for version in ("v1", "v2")
    ),
    Scenario(
        LOSS,
        "failOnDataLoss=false should not return duplicated records: continuous processing",
        NO_CONTINUOUS,
        CONTINUOUS,
    ),
    Scenario(
        LOSS,
        "stress test for failOnDataLoss=false",
        "the same: what is left, once",
        f"{PARITY}::test_losses_at_random",
    ),
    *(
        Scenario(
            OPTIONS,
            f"{mode} mode - options should be handled as case-insensitive",
            SAME,
            f"{SCENE}::test_the_same_whatever_is_asked",
        )
        for mode in ("batch", "micro-batch")
    ),
    Scenario(OPTIONS, "continuous mode - options should be handled as case-insensitive", NO_CONTINUOUS, CONTINUOUS),
    *(
        Scenario(READER, f"isolationLevel must give back {level}", SAME, f"{ODD}[{id_}]")
        for level, id_ in (
            ("default isolation level when not set", "transactions, all"),
            ("READ_UNCOMMITTED when set", "transactions, read_uncommitted"),
            ("READ_COMMITTED when set", "transactions, committed"),
        )
    ),
    Scenario(
        READER,
        "isolationLevel must throw exception when invalid isolation level set",
        "refused as well, by name",
        f"{SCENE}::test_refused_by_name[throw exception when invalid isolation level set]",
    ),
    Scenario(
        READER,
        "SPARK-55561: fetchPartitionOffsets retries on transient failures",
        "the same: asked again",
        f"{PARITY}::test_a_broker_that_does_not_answer",
    ),
    Scenario(
        READER,
        "SPARK-55561: fetchPartitionOffsets throws after all retries exhausted",
        "AvailableNow: an error that names the broker; better in a stream, which waits for it",
        f"{PARITY}::test_a_broker_that_does_not_answer",
    ),
)

SCENARIOS: Final = (*_SPARKS, *flink_scenarios.SCENARIOS)


def parity() -> list[str]:
    """The tests that run both formats, once each."""
    return sorted({row.test.partition("[")[0] for row in SCENARIOS if row.beside})


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
        how = f", ours alone: {row.alone}" if row.alone else ", both formats"
        lines.append(f"| {row.name} | {row.words} | {shown + how if row.test else ''} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print("\n".join(parity()))  # noqa: T201  for make parity
