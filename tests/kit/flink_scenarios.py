"""The scenarios of Flink's connector (flink-connector-kafka, main of November 2026) that mean something here, by their names there."""

from __future__ import annotations

from typing import Final

from tests.kit.scenario import BETTER, DIFFERENT, NOT_APPLICABLE, REFUSED, SAME, Result, Scenario

E2E: Final = "tests/e2e/"
SWITCH, SOURCES, SCENE = f"{E2E}test_switching.py", f"{E2E}test_sources.py", f"{E2E}test_scenarios.py"
BATCH, STATEFUL, METRICS = f"{E2E}test_batch_reads.py", f"{E2E}test_stateful.py", f"{E2E}test_metrics.py"
PARSE, SETTINGS = "tests/unit/options/test_parse.py", "tests/unit/options/test_kafka_settings.py"
PREFETCH, COMMITS = "tests/shell/agent/test_prefetch.py", "tests/shell/driver/test_group_commits.py"
NO_COMMITS, NO_MEMBERS = "Spark's own commits nothing", "Spark's own has no members"
NO_COMMITTED, NO_METRICS = "Spark's own knows no committed", "Spark's own has no such metric"
NO_PREFETCH, NO_RACKS = (
    "Spark's own fetches nothing ahead of its tasks",
    "Spark's own has one client.rack for all executors",
)
PARITY: Final = f"{E2E}test_parity.py"
COMING, STARTS = f"{PARITY}::test_topics_and_partitions_that_come", f"{SCENE}::test_where_streams_start"
EMPTY, READS = f"{SCENE}::test_what_is_empty", f"{BATCH}::test_reads_are_those_of_sparks_own_source"
ODD: Final = f"{E2E}test_odd_data.py::test_rows_are_those_of_sparks_own_source"
RETRIED: Final = f"{E2E}test_executors.py::test_executors_come_and_go_under_both_formats"
TYPED, FIRST = (
    f"{E2E}test_typed_values.py::test_json_is_what_from_json_makes_of_it",
    "tests/shell/driver/test_first_batch.py",
)
DESERIALIZER: Final = f"{SCENE}::test_refused_by_name[unsupported kafka configs: value.deserializer]"
SOURCE, BUILDER, ENUMERATOR = "KafkaSourceITCase", "KafkaSourceBuilderTest", "KafkaSourceEnumeratorTest"
INITIALIZER, READER, MEASURES = (
    "OffsetsInitializerTest",
    "KafkaPartitionSplitReaderTest",
    "KafkaSourceReaderMetricsTest",
)
VALUES, TABLE = "KafkaRecordDeserializationSchemaTest", "KafkaTableITCase"
GROUP: Final = "give a stream a group.id: it is what is committed; a batch read needs none"
WATERMARK: Final = "Spark's watermark, over all partitions, as in Spark's own"
NO_NONE: Final = (
    "leave auto.offset.reset out: a partition without a committed offset starts at startingOffsets.fallback"
)
RACK: Final = (
    "each executor fetches from the replica of its rack (KIP-392), and partitions are assigned by rack (KIP-881)"
)

_ROWS: Final[tuple[tuple[str, Result, str, str, str, str], ...]] = (
    # suite, what becomes of it, why or what to do, the test, why it is on ours alone ("": it runs both formats), the names there
    (SOURCE, SAME, "", f"{SWITCH}::test_what_is_read", "", "testBasicRead"),
    (SOURCE, SAME, "", EMPTY, "", "testConsumingEmptyTopic testConsumingTopicWithEmptyPartitions"),
    (SOURCE, SAME, "timestamps of all kinds", ODD, "", "testTimestamp"),
    (SOURCE, BETTER, "by a schema that names value alone; Spark's own refuses a schema", f"{SWITCH}::test_a_schema", "", "testValueOnlyDeserializer"),
    (SOURCE, SAME, "one partition on two cores, each record once", f"{SWITCH}::test_tasks_of_a_batch", "", "testRedundantParallelism"),
    (SOURCE, REFUSED, GROUP, f"{SWITCH}::test_a_group_is_required", "", "testBasicReadWithoutGroupId"),
    (SOURCE, DIFFERENT, WATERMARK, f"{STATEFUL}::test_queries_with_state", "", "testPerPartitionWatermark"),
    (SOURCE, SAME, "", f"{STATEFUL}::test_transactions_that_limits_cut", "", "testConsumingTransactionalMessage"),
    ("SourceTestSuiteBase", SAME, "every record once", RETRIED, "", "testTaskManagerFailure"),
    ("SourceTestSuiteBase", SAME, "from Spark's checkpoint, on other numbers of executors", RETRIED, "", "testSavepoint testScaleUp testScaleDown"),
    ("SourceTestSuiteBase", BETTER, "rows, rates and offsets in Spark's progress are the same; lag in records and seconds and commits besides", f"{STATEFUL}::test_progress_and_plan", "", "testSourceMetrics"),
    (BUILDER, BETTER, "it is the group that is committed", f"{SWITCH}::test_a_group_is_required", "", "testBuildSourceWithGroupId"),
    (BUILDER, REFUSED, GROUP, f"{SWITCH}::test_a_group_is_required", "", "testBuildSourceWithoutGroupId"),
    (BUILDER, REFUSED, "give group.id", f"{PARSE}::test_what_is_required_is_named_when_missing", NO_COMMITTED, "testUsingCommittedOffsetsInitializerWithoutGroupId"),
    (BUILDER, REFUSED, "leave enable.auto.commit out: the group always follows the checkpoint", f"{SETTINGS}", NO_COMMITS, "testEnableCommitOnCheckpointWithoutGroupId testDisableOffsetCommitWithoutGroupId"),
    (BUILDER, SAME, "enable.auto.commit is an error in both", f"{SCENE}::test_refused_by_name[unsupported kafka configs: enable.auto.commit]", "", "testEnableAutoCommitWithoutGroupId"),
    (BUILDER, SAME, "an error in both, that names the setting; value.format and key.format do it here", DESERIALIZER, "", "testSettingCustomDeserializer testSettingInvalidCustomDeserializers"),
    (BUILDER, NOT_APPLICABLE, "no format of Spark's takes a subscriber of one's own: subscribe, subscribePattern or assign", "", "", "testSettingCustomKafkaSubscriber"),
    (BUILDER, SAME, "topics and partitions that come later are found (metadata.max.age.ms)", COMING, "", "testDefaultPartitionDiscovery testPeriodPartitionDiscovery"),
    (ENUMERATOR, SAME, "AvailableNow ends where the logs ended at its start", f"{PARITY}::test_available_now_ends_where_the_logs_ended", "", "testStartWithDiscoverPartitionsOnce testRunWithDiscoverPartitionsOnceToCheckNoMoreSplit testRunWithDiscoverPartitionsOnceWithZeroMsToCheckNoMoreSplit"),
    (ENUMERATOR, SAME, "a stream goes on, and finds what is new", COMING, "", "testStartWithPeriodicPartitionDiscovery testRunWithPeriodicPartitionDiscoveryOnceToCheckNoMoreSplit testDiscoverPartitionsPeriodically"),
    (ENUMERATOR, BETTER, "in one rebalance, whatever came at a time", f"{SOURCES}::test_a_change_of_topics_is_one_rebalance", NO_MEMBERS, "testDiscoverPartitionsTriggersAssignments"),
    (ENUMERATOR, BETTER, "who joins gets its share, who is gone gives it up; the others keep theirs", f"{E2E}test_executors.py::test_an_executor_is_killed_and_replaced", NO_MEMBERS, "testReaderRegistrationTriggersAssignments"),
    (ENUMERATOR, SAME, "what an executor that is gone had to read is read by others", RETRIED, "", "testAddSplitsBack"),
    (ENUMERATOR, BETTER, "a query that is started again takes its members over", f"{E2E}test_fail_over.py::test_started_again_it_goes_on_with_its_agents", NO_MEMBERS, "testWorkWithPreexistingAssignments"),
    (ENUMERATOR, BETTER, "the start is told once, and the group has it until the first batch is committed", FIRST, NO_COMMITS, "shouldLazilyInitializeSplitOffsetsOnMigration"),
    (ENUMERATOR, SAME, "Kafka's consumer settings are taken", f"{SCENE}::test_the_same_whatever_is_asked", "", "testKafkaClientProperties"),
    (ENUMERATOR, SAME, "Spark's offset log, which format(\"kafka\") reads, too", f"{E2E}test_checkpoints.py::test_there_and_back", "", "testSnapshotState"),
    (ENUMERATOR, SAME, "partitions that are gone are an error, or left out with failOnDataLoss=false", f"{PARITY}::test_deletion_under_a_pattern", "", "testPartitionChangeChecking"),
    (INITIALIZER, SAME, "", STARTS, "", "testEarliestOffsetsInitializer testLatestOffsetsInitializer testTimestampOffsetsInitializer testSpecificOffsetsInitializer"),
    (INITIALIZER, SAME, "", f"{SCENE}::test_times_that_nothing_is_as_young_as", "", "testTimestampOffsetsInitializerForEmptyPartitions"),
    (INITIALIZER, BETTER, "startingOffsets=committed, with startingOffsets.fallback", f"{SOURCES}::test_starts", NO_COMMITTED, "testCommittedGroupOffsetsInitializer"),
    (INITIALIZER, DIFFERENT, "partitions that the JSON leaves out start at startingOffsets.fallback; Spark's own refuses them", f"{E2E}test_batch_refusals.py::test_partitions_that_json_leaves_out", "", "testSpecifiedOffsetsInitializerWithoutOffsetResetStrategy"),
    ("KafkaSubscriberTest", SAME, "", f"{SWITCH}::test_what_is_read[two topics]", "", "testTopicListSubscriber"),
    ("KafkaSubscriberTest", SAME, "", f"{SWITCH}::test_what_is_read[a pattern of two topics]", "", "testTopicPatternSubscriber"),
    ("KafkaSubscriberTest", SAME, "", f"{READS}[assign]", "", "testPartitionSetSubscriber"),
    ("KafkaSubscriberTest", SAME, "an error in both, that names the topic", f"{SCENE}::test_refused_by_name[testNonExistingTopic]", "", "testNonExistingTopic"),
    ("KafkaSubscriberTest", REFUSED, "the error names them: leave them out of assign; Spark's own says nothing of them", f"{E2E}test_batch_refusals.py::test_partitions_that_do_not_exist", "", "testNonExistingPartition"),
    (READER, SAME, "byte for byte what Kafka has", ODD, "", "testHandleSplitChangesAndFetch"),
    (READER, BETTER, "whoever waits wakes a fetch that rests", f"{PREFETCH}::test_who_waits_ends_the_pause_of_a_quiet_prefetcher", NO_PREFETCH, "testWakeUp testWakeupThenAssign"),
    (READER, BETTER, "bytes and records by path", f"{METRICS}::test_a_live_query_is_seen", NO_METRICS, "testNumBytesInCounter"),
    (READER, BETTER, "lag in records, the same figures; by partition besides", f"{E2E}test_progress_listener.py::test_offsets_behind_latest_as_sparks_own", "", "testPendingRecordsGauge"),
    (READER, SAME, "no rows and no error", f"{READS}[nothing between]", "", "testAssignEmptySplit"),
    (READER, REFUSED, NO_NONE, f"{SCENE}::test_refused_by_name[unsupported kafka configs: auto.offset.reset]", "", "testUsingCommittedOffsetsWithNoneOffsetResetStrategy"),
    (READER, BETTER, "startingOffsets.fallback says earliest or latest", f"{SOURCES}::test_starts", NO_COMMITTED, "testUsingCommittedOffsetsWithEarliestOrLatestOffsetResetStrategy"),
    (READER, BETTER, RACK, f"{PARSE}::test_each_executor_has_a_rack_of_its_own", NO_RACKS, "testConsumerClientRackSupplier testSetConsumerClientRackIgnoresNullAndEmpty"),
    (READER, NOT_APPLICABLE, "Spark aligns no watermarks of sources", "", "", "testPauseOrResumeSplitsWithUnassignedPartition"),
    ("KafkaSourceReaderTest", BETTER, "the driver commits, whoever has read", f"{COMMITS}::test_no_batch_waits_for_its_own_commit", NO_COMMITS, "testCommitOffsetsWithoutAliveFetchers"),
    ("KafkaSourceReaderTest", BETTER, "as soon as Spark's commit log has the batch", f"{E2E}test_progress_listener.py::test_the_group_follows_within_the_trigger", NO_COMMITS, "testOffsetCommitOnCheckpointComplete"),
    ("KafkaSourceReaderTest", BETTER, "nothing but the start before the first batch is in the commit log", FIRST, NO_COMMITS, "testNotCommitOffsetsForUninitializedSplits testCommitEmptyOffsets"),
    ("KafkaSourceReaderTest", NOT_APPLICABLE, "a group without commits is what Spark's own source is for", "", "", "testDisableOffsetCommit"),
    ("KafkaSourceReaderTest", BETTER, "positions, commits and lag by partition", f"{METRICS}::test_a_live_query_is_seen", NO_METRICS, "testKafkaSourceMetrics"),
    ("KafkaSourceReaderTest", SAME, "an empty partition gives nothing and ends no query", EMPTY, "", "testAssigningEmptySplits testAssigningEmptySplitOnly"),
    ("KafkaSourceReaderTest", NOT_APPLICABLE, "Spark aligns no watermarks of sources", "", "", "testSupportsPausingOrResumingSplits"),
    ("KafkaSourceReaderTest", BETTER, RACK, f"{PARSE}::test_each_executor_has_a_rack_of_its_own", NO_RACKS, "testThatReaderDoesNotCallRackIdSupplierOnInit testThatReaderDoesCallRackIdSupplierOnSplitAssignment"),
    (MEASURES, BETTER, "the same positions in Spark's progress; by partition in metrics besides", f"{STATEFUL}::test_progress_and_plan", "", "testCurrentOffsetTracking"),
    (MEASURES, BETTER, "commits by partition", f"{METRICS}::test_a_live_query_is_seen", NO_COMMITS, "testCommitOffsetTracking"),
    (MEASURES, BETTER, "counted, told, and tried again with the next batch", f"{COMMITS}::test_a_commit_that_failed_is_tried_again", NO_COMMITS, "testFailedCommit"),
    (MEASURES, NOT_APPLICABLE, "a class of Flink's own, nothing that a user sees", "", "", "testNonTrackingTopicPartition"),
    (VALUES, SAME, "value.format and key.format; what Spark's functions make of the bytes", TYPED, "", "testKafkaDeserializationSchemaWrapper testKafkaValueDeserializationSchemaWrapper"),
    (VALUES, SAME, "a Java deserializer is an error in both; value.format and key.format do it here", DESERIALIZER, "", "testKafkaValueDeserializerWrapper testKafkaValueDeserializerWrapperWithoutConfigurable testKafkaValueDeserializerWrapperWithConfigurable"),
    (TABLE, SAME, "what was written is read (the sink is left out)", ODD, "", "testKafkaSourceSink"),
    (TABLE, SAME, "", f"{SWITCH}::test_what_is_read[two topics]", "", "testKafkaSourceSinkWithTopicList testKafkaTableWithMultipleTopics"),
    (TABLE, SAME, "", f"{SWITCH}::test_what_is_read[a pattern of two topics]", "", "testKafkaSourceSinkWithTopicPattern"),
    (TABLE, SAME, "an error, or no rows with failOnDataLoss=false", f"{BATCH}::test_lost_records", "", "testKafkaSourceEmptyResultOnDeletedOffsets"),
    (TABLE, SAME, "by a batch read", f"{READS}[explicit offsets]", "", "testKafkaSourceSinkWithBoundedSpecificOffsets"),
    (TABLE, SAME, "by a batch read", f"{READS}[timestamp provided for ending, starting not provided]", "", "testKafkaSourceSinkWithBoundedTimestamp"),
    (TABLE, SAME, "Spark's columns, and headers with includeHeaders", f"{ODD}[nulls and headers]", "", "testKafkaSourceSinkWithMetadata testKafkaHeadersMapNullValue testKafkaSourceSinkWithMultiHeaders testKafkaHeadersInteroperability"),
    (TABLE, SAME, "key.format and value.format; what Spark's functions make of the bytes", TYPED, "", "testKafkaSourceSinkWithKeyAndPartialValue testKafkaSourceSinkWithKeyAndFullValue"),
    (TABLE, DIFFERENT, WATERMARK, f"{STATEFUL}::test_queries_with_state", "", "testPerPartitionWatermarkKafka testPerPartitionWatermarkWithIdleSource"),
    (TABLE, SAME, "a query that starts at latest goes on from its checkpoint", STARTS, "", "testLatestOffsetStrategyResume"),
    (TABLE, BETTER, "startingOffsets=committed, with startingOffsets.fallback", f"{SOURCES}::test_starts[committed, latest else]", NO_COMMITTED, "testStartFromGroupOffsetsLatest"),
    (TABLE, BETTER, "startingOffsets=committed, with startingOffsets.fallback", f"{SOURCES}::test_starts[committed, earliest else]", NO_COMMITTED, "testStartFromGroupOffsetsEarliest"),
    (TABLE, REFUSED, NO_NONE, f"{SCENE}::test_refused_by_name[unsupported kafka configs: auto.offset.reset]", "", "testStartFromGroupOffsetsNone"),
    ("DynamicKafkaSourceITTest", DIFFERENT, "one cluster a load: union() of several, each with its group", f"{SWITCH}::test_sources_of_one_query_start_where_each_says", "", "testBasicMultiClusterRead"),
)  # fmt: skip

SCENARIOS: Final = tuple(
    Scenario(f"Flink: {suite}", name, result, words, test, alone)
    for suite, result, words, test, alone, names in _ROWS
    for name in names.split()
)
