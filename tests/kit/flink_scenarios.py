"""The scenarios of Flink's connector (flink-connector-kafka, main of November 2026) that mean something here, by their names there."""

from __future__ import annotations

from typing import Final

from tests.kit.scenario import Scenario

E2E: Final = "tests/e2e/"
SWITCH, SOURCES, SCENE = f"{E2E}test_switching.py", f"{E2E}test_sources.py", f"{E2E}test_scenarios.py"
BATCH, STATEFUL, METRICS = f"{E2E}test_batch_reads.py", f"{E2E}test_stateful.py", f"{E2E}test_metrics.py"
PARSE, SETTINGS = "tests/unit/options/test_parse.py", "tests/unit/options/test_kafka_settings.py"
PREFETCH, COMMITS = "tests/shell/agent/test_prefetch.py", "tests/shell/driver/test_group_commits.py"
SAME: Final = "the same"
NO_COMMITS, NO_MEMBERS = "Spark's own commits nothing", "Spark's own has no members"
NO_COMMITTED, NO_METRICS = "Spark's own knows no committed", "Spark's own has no such metric"
NO_PREFETCH, NO_RACKS = (
    "Spark's own fetches nothing ahead of its tasks",
    "Spark's own has one client.rack for all executors",
)
PARITY: Final = f"{E2E}test_parity.py"
READER: Final = "KafkaPartitionSplitReaderTest"
RACK: Final = (
    "each executor fetches from the replica of its rack (KIP-392), and partitions are assigned by rack (KIP-881)"
)

_ROWS: Final = (
    # suite, what is done here, the test, why it is on ours alone ("": it runs both formats), the names there
    ("KafkaSourceITCase", SAME, f"{SWITCH}::test_what_is_alike", "", "testBasicRead testConsumingEmptyTopic testConsumingTopicWithEmptyPartitions"),
    ("KafkaSourceITCase", "timestamps of all kinds as Spark's own", f"{E2E}test_odd_data.py::test_rows_are_those_of_sparks_own_source", "", "testTimestamp"),
    ("KafkaSourceITCase", "by a schema that names value alone", f"{SWITCH}::test_a_schema", "", "testValueOnlyDeserializer"),
    ("KafkaSourceITCase", "cores beyond the partitions take pieces of ranges, or nothing", f"{SWITCH}::test_tasks_of_a_batch", "", "testRedundantParallelism"),
    ("KafkaSourceITCase", "a stream needs a group: it is what is committed; a batch read needs none", f"{SWITCH}::test_a_group_is_required", "", "testBasicReadWithoutGroupId"),
    ("KafkaSourceITCase", "Spark's watermark, over all partitions", f"{STATEFUL}::test_queries_with_state", "", "testPerPartitionWatermark"),
    ("KafkaSourceITCase", SAME, f"{STATEFUL}::test_transactions_that_limits_cut", "", "testConsumingTransactionalMessage"),
    ("SourceTestSuiteBase", "every record once", f"{E2E}test_executors.py::test_executors_come_and_go_under_both_formats", "", "testTaskManagerFailure"),
    ("SourceTestSuiteBase", "from Spark's checkpoint, on other numbers of executors", f"{E2E}test_executors.py::test_executors_come_and_go_under_both_formats", "", "testSavepoint testScaleUp testScaleDown"),
    ("SourceTestSuiteBase", "rows, rates and offsets in Spark's progress; lag in records and seconds and commits besides", f"{STATEFUL}::test_progress_and_plan", "", "testSourceMetrics"),
    ("KafkaSourceBuilderTest", "required here: an error that names group.id", f"{SWITCH}::test_a_group_is_required", "", "testBuildSourceWithGroupId testBuildSourceWithoutGroupId"),
    ("KafkaSourceBuilderTest", "an error that names group.id", f"{PARSE}::test_what_is_required_is_named_when_missing", NO_COMMITTED, "testUsingCommittedOffsetsInitializerWithoutGroupId"),
    ("KafkaSourceBuilderTest", "the group always follows the checkpoint; enable.auto.commit is refused", f"{SETTINGS}", NO_COMMITS, "testEnableCommitOnCheckpointWithoutGroupId testDisableOffsetCommitWithoutGroupId"),
    ("KafkaSourceBuilderTest", "enable.auto.commit is refused as well", f"{SCENE}::test_refused_by_name[unsupported kafka configs: enable.auto.commit]", "", "testEnableAutoCommitWithoutGroupId"),
    ("KafkaSourceBuilderTest", "refused as well, by name; value.format and key.format do it", f"{SCENE}::test_refused_by_name[unsupported kafka configs: value.deserializer]", "", "testSettingCustomDeserializer testSettingInvalidCustomDeserializers"),
    ("KafkaSourceBuilderTest", "topics and partitions that come later are found (metadata.max.age.ms)", f"{PARITY}::test_topics_and_partitions_that_come", "", "testDefaultPartitionDiscovery testPeriodPartitionDiscovery"),
    ("KafkaSourceEnumeratorTest", "AvailableNow ends where the logs ended at its start", f"{PARITY}::test_available_now_ends_where_the_logs_ended", "", "testStartWithDiscoverPartitionsOnce testRunWithDiscoverPartitionsOnceToCheckNoMoreSplit testRunWithDiscoverPartitionsOnceWithZeroMsToCheckNoMoreSplit"),
    ("KafkaSourceEnumeratorTest", "a stream goes on, and finds what is new", f"{PARITY}::test_topics_and_partitions_that_come", "", "testStartWithPeriodicPartitionDiscovery testRunWithPeriodicPartitionDiscoveryOnceToCheckNoMoreSplit testDiscoverPartitionsPeriodically"),
    ("KafkaSourceEnumeratorTest", "in one rebalance, whatever came at a time", f"{SOURCES}::test_a_change_of_topics_is_one_rebalance", NO_MEMBERS, "testDiscoverPartitionsTriggersAssignments"),
    ("KafkaSourceEnumeratorTest", "who joins gets its share, who is gone gives it up; the others keep theirs", f"{E2E}test_executors.py::test_an_executor_is_killed_and_replaced", NO_MEMBERS, "testReaderRegistrationTriggersAssignments"),
    ("KafkaSourceEnumeratorTest", "what an executor that is gone had to read is read by others", f"{E2E}test_executors.py::test_executors_come_and_go_under_both_formats", "", "testAddSplitsBack"),
    ("KafkaSourceEnumeratorTest", "a query that is started again takes its members over", f"{E2E}test_fail_over.py::test_started_again_it_goes_on_with_its_agents", NO_MEMBERS, "testWorkWithPreexistingAssignments"),
    ("KafkaSourceEnumeratorTest", "Kafka's consumer settings are taken", f"{SCENE}::test_the_same_whatever_is_asked", "", "testKafkaClientProperties"),
    ("KafkaSourceEnumeratorTest", "Spark's offset log, which format(\"kafka\") reads, too", f"{E2E}test_checkpoints.py::test_there_and_back", "", "testSnapshotState"),
    ("KafkaSourceEnumeratorTest", "partitions that are gone are an error, or left out with failOnDataLoss=false", f"{PARITY}::test_deletion_under_a_pattern", "", "testPartitionChangeChecking"),
    ("OffsetsInitializerTest", SAME, f"{SCENE}::test_where_streams_start", "", "testEarliestOffsetsInitializer testLatestOffsetsInitializer testTimestampOffsetsInitializer testSpecificOffsetsInitializer"),
    ("OffsetsInitializerTest", SAME, f"{SCENE}::test_times_that_nothing_is_as_young_as", "", "testTimestampOffsetsInitializerForEmptyPartitions"),
    ("OffsetsInitializerTest", "startingOffsets=committed, with startingOffsets.fallback", f"{SOURCES}::test_starts", NO_COMMITTED, "testCommittedGroupOffsetsInitializer"),
    ("OffsetsInitializerTest", "an error that names the partitions", f"{BATCH}::test_partitions_that_json_leaves_out", "", "testSpecifiedOffsetsInitializerWithoutOffsetResetStrategy"),
    ("KafkaSubscriberTest", "subscribe, subscribePattern and assign", f"{BATCH}::test_reads_are_those_of_sparks_own_source", "", "testTopicListSubscriber testTopicPatternSubscriber testPartitionSetSubscriber"),
    ("KafkaSubscriberTest", "an error that names it", f"{SCENE}::test_refused_by_name[testNonExistingTopic]", "", "testNonExistingTopic"),
    ("KafkaSubscriberTest", "an error that names it", f"{BATCH}::test_partitions_that_do_not_exist", "", "testNonExistingPartition"),
    (READER, "byte for byte what Kafka has", f"{E2E}test_odd_data.py::test_rows_are_those_of_sparks_own_source", "", "testHandleSplitChangesAndFetch"),
    (READER, "whoever waits wakes a fetch that rests", f"{PREFETCH}::test_who_waits_ends_the_pause_of_a_quiet_prefetcher", NO_PREFETCH, "testWakeUp testWakeupThenAssign"),
    (READER, "bytes and records by path", f"{METRICS}::test_a_live_query_is_seen", NO_METRICS, "testNumBytesInCounter"),
    (READER, "lag in records, the same figures; by partition besides", f"{E2E}test_progress_listener.py::test_offsets_behind_latest_as_sparks_own", "", "testPendingRecordsGauge"),
    (READER, "no rows and no error", f"{BATCH}::test_reads_are_those_of_sparks_own_source[nothing between]", "", "testAssignEmptySplit"),
    (READER, "startingOffsets.fallback says earliest, latest or fail", f"{SOURCES}::test_starts", NO_COMMITTED, "testUsingCommittedOffsetsWithNoneOffsetResetStrategy testUsingCommittedOffsetsWithEarliestOrLatestOffsetResetStrategy"),
    (READER, RACK, f"{PARSE}::test_each_executor_has_a_rack_of_its_own", NO_RACKS, "testConsumerClientRackSupplier testSetConsumerClientRackIgnoresNullAndEmpty"),
    (READER, "Spark aligns no watermarks of sources", "", "", "testPauseOrResumeSplitsWithUnassignedPartition"),
    ("KafkaSourceReaderTest", "the driver commits, whoever has read", f"{COMMITS}::test_no_batch_waits_for_its_own_commit", NO_COMMITS, "testCommitOffsetsWithoutAliveFetchers"),
    ("KafkaSourceReaderTest", "as soon as Spark's commit log has the batch", f"{E2E}test_progress_listener.py::test_the_group_follows_within_the_trigger", NO_COMMITS, "testOffsetCommitOnCheckpointComplete"),
    ("KafkaSourceReaderTest", "nothing but the start before the first batch is in the commit log", "tests/shell/driver/test_first_batch.py", NO_COMMITS, "testNotCommitOffsetsForUninitializedSplits testCommitEmptyOffsets"),
    ("KafkaSourceReaderTest", "not to be had: a group without commits is what Spark's own source is for", "", "", "testDisableOffsetCommit"),
    ("KafkaSourceReaderTest", "positions, commits and lag by partition", f"{METRICS}::test_a_live_query_is_seen", NO_METRICS, "testKafkaSourceMetrics"),
    ("KafkaSourceReaderTest", "empty ranges cost no fetch and end no query", f"{SWITCH}::test_what_is_alike", "", "testAssigningEmptySplits testAssigningEmptySplitOnly"),
    ("KafkaSourceReaderTest", RACK, f"{PARSE}::test_each_executor_has_a_rack_of_its_own", NO_RACKS, "testThatReaderDoesNotCallRackIdSupplierOnInit testThatReaderDoesCallRackIdSupplierOnSplitAssignment"),
    ("KafkaSourceReaderMetricsTest", "the same positions in Spark's progress; by partition in metrics besides", f"{STATEFUL}::test_progress_and_plan", "", "testCurrentOffsetTracking"),
    ("KafkaSourceReaderMetricsTest", "commits by partition", f"{METRICS}::test_a_live_query_is_seen", NO_COMMITS, "testCommitOffsetTracking"),
    ("KafkaSourceReaderMetricsTest", "counted, told, and tried again with the next batch", f"{COMMITS}::test_a_commit_that_failed_is_tried_again", NO_COMMITS, "testFailedCommit"),
    ("DynamicKafkaSourceITTest", "one cluster a source: union() of several loads, each with its group", f"{SWITCH}::test_sources_of_one_query_start_where_each_says", "", "testBasicMultiClusterRead"),
)  # fmt: skip

SCENARIOS: Final = tuple(
    Scenario(f"Flink: {suite}", name, words, test, alone)
    for suite, words, test, alone, names in _ROWS
    for name in names.split()
)
