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
READER: Final = "KafkaPartitionSplitReaderTest"
RACK: Final = (
    "each executor fetches from the replica of its rack (KIP-392), and partitions are assigned by rack (KIP-881)"
)

_ROWS: Final = (
    # suite, what is done here, the test, whether it runs both formats, the names there
    ("KafkaSourceITCase", SAME, f"{SWITCH}::test_what_is_alike", True, "testBasicRead testConsumingEmptyTopic testConsumingTopicWithEmptyPartitions"),
    ("KafkaSourceITCase", "timestamps of all kinds as Spark's own", f"{E2E}test_odd_data.py::test_rows_are_those_of_sparks_own_source", True, "testTimestamp"),
    ("KafkaSourceITCase", "by a schema that names value alone", f"{SWITCH}::test_a_schema", True, "testValueOnlyDeserializer"),
    ("KafkaSourceITCase", "cores beyond the partitions take pieces of ranges, or nothing", f"{SWITCH}::test_tasks_of_a_batch", True, "testRedundantParallelism"),
    ("KafkaSourceITCase", "a stream needs a group: it is what is committed; a batch read needs none", f"{SWITCH}::test_a_group_is_required", True, "testBasicReadWithoutGroupId"),
    ("KafkaSourceITCase", "Spark's watermark, over all partitions", f"{STATEFUL}::test_queries_with_state", True, "testPerPartitionWatermark"),
    ("KafkaSourceITCase", SAME, f"{STATEFUL}::test_transactions_that_limits_cut", True, "testConsumingTransactionalMessage"),
    ("SourceTestSuiteBase", "every record once", f"{E2E}test_executors.py::test_an_executor_is_killed_and_replaced", False, "testTaskManagerFailure"),
    ("SourceTestSuiteBase", "from Spark's checkpoint, on other numbers of executors", f"{E2E}test_restarts.py::test_killed_at_every_place_of_the_cycle", False, "testSavepoint testScaleUp testScaleDown"),
    ("SourceTestSuiteBase", "lag in records and seconds, rates, commits", f"{METRICS}::test_a_live_query_is_seen", False, "testSourceMetrics"),
    ("KafkaSourceBuilderTest", "an error that names group.id", f"{PARSE}::test_what_is_required_is_named_when_missing", False, "testBuildSourceWithGroupId testBuildSourceWithoutGroupId testUsingCommittedOffsetsInitializerWithoutGroupId"),
    ("KafkaSourceBuilderTest", "the group always follows the checkpoint; enable.auto.commit is refused", f"{SETTINGS}", False, "testEnableCommitOnCheckpointWithoutGroupId testEnableAutoCommitWithoutGroupId testDisableOffsetCommitWithoutGroupId"),
    ("KafkaSourceBuilderTest", "refused, with value.format and key.format as what to use", f"{PARSE}::test_refused_options_say_what_to_use", False, "testSettingCustomDeserializer testSettingInvalidCustomDeserializers"),
    ("KafkaSourceBuilderTest", "topics and partitions that come later are found (metadata.max.age.ms)", f"{SOURCES}::test_new_topics_and_partitions", False, "testDefaultPartitionDiscovery testPeriodPartitionDiscovery"),
    ("KafkaSourceEnumeratorTest", "AvailableNow ends where the logs ended at its start", f"{SOURCES}::test_once_and_available_now", False, "testStartWithDiscoverPartitionsOnce testRunWithDiscoverPartitionsOnceToCheckNoMoreSplit testRunWithDiscoverPartitionsOnceWithZeroMsToCheckNoMoreSplit"),
    ("KafkaSourceEnumeratorTest", "a stream goes on, and finds what is new", f"{SOURCES}::test_new_topics_and_partitions", False, "testStartWithPeriodicPartitionDiscovery testRunWithPeriodicPartitionDiscoveryOnceToCheckNoMoreSplit testDiscoverPartitionsPeriodically"),
    ("KafkaSourceEnumeratorTest", "in one rebalance, whatever came at a time", f"{SOURCES}::test_a_change_of_topics_is_one_rebalance", False, "testDiscoverPartitionsTriggersAssignments"),
    ("KafkaSourceEnumeratorTest", "who joins gets its share, who is gone gives it up; the others keep theirs", f"{E2E}test_executors.py::test_an_executor_is_killed_and_replaced", False, "testReaderRegistrationTriggersAssignments testAddSplitsBack"),
    ("KafkaSourceEnumeratorTest", "a query that is started again takes its members over", f"{E2E}test_fail_over.py::test_started_again_it_goes_on_with_its_agents", False, "testWorkWithPreexistingAssignments"),
    ("KafkaSourceEnumeratorTest", "all of Kafka's consumer settings: taken, translated or refused by name", f"{SETTINGS}", False, "testKafkaClientProperties"),
    ("KafkaSourceEnumeratorTest", "Spark's offset log, which format(\"kafka\") reads, too", f"{E2E}test_checkpoints.py::test_there_and_back", True, "testSnapshotState"),
    ("KafkaSourceEnumeratorTest", "partitions that are gone are an error, or left out with failOnDataLoss=false", f"{SOURCES}::test_data_loss", False, "testPartitionChangeChecking"),
    ("OffsetsInitializerTest", SAME, f"{SCENE}::test_where_streams_start", True, "testEarliestOffsetsInitializer testLatestOffsetsInitializer testTimestampOffsetsInitializer testSpecificOffsetsInitializer"),
    ("OffsetsInitializerTest", SAME, f"{SCENE}::test_times_that_nothing_is_as_young_as", True, "testTimestampOffsetsInitializerForEmptyPartitions"),
    ("OffsetsInitializerTest", "startingOffsets=committed, with startingOffsets.fallback", f"{SOURCES}::test_starts", False, "testCommittedGroupOffsetsInitializer"),
    ("OffsetsInitializerTest", "an error that names the partitions", f"{BATCH}::test_partitions_that_json_leaves_out", True, "testSpecifiedOffsetsInitializerWithoutOffsetResetStrategy"),
    ("KafkaSubscriberTest", "subscribe, subscribePattern and assign", f"{BATCH}::test_reads_are_those_of_sparks_own_source", True, "testTopicListSubscriber testTopicPatternSubscriber testPartitionSetSubscriber"),
    ("KafkaSubscriberTest", "an error that names it", "tests/shell/driver/test_log_ends.py::test_a_missing_topic_is_named", False, "testNonExistingTopic"),
    ("KafkaSubscriberTest", "an error that names it", f"{BATCH}::test_partitions_that_do_not_exist", True, "testNonExistingPartition"),
    (READER, "byte for byte what Kafka has", f"{PREFETCH}::test_what_is_served_is_what_kafka_has", False, "testHandleSplitChangesAndFetch"),
    (READER, "whoever waits wakes a fetch that rests", f"{PREFETCH}::test_who_waits_ends_the_pause_of_a_quiet_prefetcher", False, "testWakeUp testWakeupThenAssign"),
    (READER, "bytes and records by path, lag by partition", f"{METRICS}::test_a_live_query_is_seen", False, "testNumBytesInCounter testPendingRecordsGauge"),
    (READER, "nobody is asked", "tests/shell/consumer/test_range_reader.py::test_empty_ranges_need_no_broker", False, "testAssignEmptySplit"),
    (READER, "startingOffsets.fallback says earliest, latest or fail", f"{SOURCES}::test_starts", False, "testUsingCommittedOffsetsWithNoneOffsetResetStrategy testUsingCommittedOffsetsWithEarliestOrLatestOffsetResetStrategy"),
    (READER, RACK, f"{PARSE}::test_each_executor_has_a_rack_of_its_own", False, "testConsumerClientRackSupplier testSetConsumerClientRackIgnoresNullAndEmpty"),
    (READER, "Spark aligns no watermarks of sources", "", False, "testPauseOrResumeSplitsWithUnassignedPartition"),
    ("KafkaSourceReaderTest", "the driver commits, whoever has read", f"{COMMITS}::test_no_batch_waits_for_its_own_commit", False, "testCommitOffsetsWithoutAliveFetchers"),
    ("KafkaSourceReaderTest", "as soon as Spark's commit log has the batch", f"{E2E}test_progress_listener.py::test_the_group_follows_within_the_trigger", False, "testOffsetCommitOnCheckpointComplete"),
    ("KafkaSourceReaderTest", "nothing but the start before the first batch is in the commit log", "tests/shell/driver/test_first_batch.py", False, "testNotCommitOffsetsForUninitializedSplits testCommitEmptyOffsets"),
    ("KafkaSourceReaderTest", "not to be had: a group without commits is what Spark's own source is for", "", False, "testDisableOffsetCommit"),
    ("KafkaSourceReaderTest", "positions, commits and lag by partition", f"{METRICS}::test_a_live_query_is_seen", False, "testKafkaSourceMetrics"),
    ("KafkaSourceReaderTest", "empty ranges cost no fetch and end no query", f"{SWITCH}::test_what_is_alike", True, "testAssigningEmptySplits testAssigningEmptySplitOnly"),
    ("KafkaSourceReaderTest", RACK, f"{PARSE}::test_each_executor_has_a_rack_of_its_own", False, "testThatReaderDoesNotCallRackIdSupplierOnInit testThatReaderDoesCallRackIdSupplierOnSplitAssignment"),
    ("KafkaSourceReaderMetricsTest", "positions and commits by partition", f"{METRICS}::test_a_live_query_is_seen", False, "testCurrentOffsetTracking testCommitOffsetTracking"),
    ("KafkaSourceReaderMetricsTest", "counted, told, and tried again with the next batch", f"{COMMITS}::test_a_commit_that_failed_is_tried_again", False, "testFailedCommit"),
    ("DynamicKafkaSourceITTest", "one cluster a source: union() of several loads, each with its group", f"{SWITCH}::test_sources_of_one_query_start_where_each_says", True, "testBasicMultiClusterRead"),
)  # fmt: skip

SCENARIOS: Final = tuple(
    Scenario(f"Flink: {suite}", name, words, test, beside)
    for suite, words, test, beside, names in _ROWS
    for name in names.split()
)
