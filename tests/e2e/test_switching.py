"""The page on switching, run: what is alike beside ``format("kafka")``, and each row of what differs.

``ROWS`` maps each row of the page's tables, by what it says of Spark's source, to the test that runs it: one of this module,
or the path of another. ``tests/unit/house/test_switching_rows.py`` compares it with the page.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.kit import pages
from tests.kit.batch_reads import load, ordered
from tests.kit.broker import Broker
from tests.kit.produce import produce
from tests.kit.streams import FORMS, Stream, assert_outcome, error, options, together
from tests.kit.tier import of_tier

pytestmark = pytest.mark.timeout(240)

ROWS: Final = {
    "`startingOffsets` defaults to `latest`": "test_what_is_read",
    "`startingOffsets` JSON must name every partition": "test_what_is_read",
    "a hidden group id, new at each start": "test_a_group_is_required",
    "Java's `kafka.*` settings": "tests/unit/options/test_settings_table.py",
    "Java's bounds of numbers": "tests/unit/options/test_javas_settings.py",
    "`kafka.reconnect.backoff.ms`": "tests/shell/kafka/test_logins.py",
    "`spark.kafka.clusters.*` (delegation tokens)": "tests/e2e/test_operators_settings.py",
    "`kafka.config.providers`": "tests/unit/options/test_kafka_settings.py",
    "`spark.sql.kafka.disallowedOptions` (after Spark 4.2)": "tests/e2e/test_operators_settings.py",
    "`partition.metadata.cache.ttl.ms` (after Spark 4.2)": "tests/unit/options/test_parse.py",
    "Java's regular expressions in `subscribePattern`": "tests/unit/options/test_topic_pattern.py",
    "Kerberos": "tests/unit/options/test_kafka_settings.py",
    "Java classes that make tokens (`sasl.login.callback.handler.class`)": "tests/unit/options/test_token_settings.py",
    "`maxOffsetsPerTrigger` may be exceeded with many small partitions": "test_a_limit_with_small_partitions",
    "one task per Kafka partition": "test_tasks_of_a_batch",
    "`assign` leaves out partitions that do not exist, and reads nothing for `{}`": "test_what_is_refused",
    "unknown options, and `endingTimestamp` on a stream, are ignored": "test_what_is_refused",
    "`maxOffsetsPerTrigger=0` is a query that never reads": "test_what_is_refused",
    "spaces around numbers, `true`, `false` and strategies are an error": "test_what_is_read",
    "a recreated topic is read on from the old place if its log is long enough": "tests/e2e/test_sources.py",
    "with `failOnDataLoss=false`, a topic of a pattern that may not be read for a while is left out, then read from its beginning": (
        "tests/e2e/test_parity.py"
    ),
    "`Trigger.AvailableNow` ends with an error if a topic was recreated smaller, whatever `failOnDataLoss` says": (
        "tests/e2e/test_parity.py"
    ),
    "a broker that does not answer ends the query after Kafka's time-outs": "tests/e2e/test_parity.py",
    "a topic may be loaded twice by one query, and a DataFrame written by two": "test_a_self_join_of_two_loads",
    "`.schema(...)` is refused": "test_a_schema",
    "`from_json`, `from_avro`, `from_protobuf` over `value`": "tests/e2e/test_typed_values.py",
    "each action on a DataFrame looks for the newest records": "test_two_actions_of_one_batch_read",
    "`startingOffsets`, `endingOffsets` as JSON must name every partition": "tests/e2e/test_batch_refusals.py",
    "`assign` drops partitions that do not exist": "tests/e2e/test_batch_refusals.py",
    "`maxRecordsPerPartition` has an effect only beside a `minPartitions` that is larger than the number of partitions": (
        "tests/e2e/test_batch_reads.py"
    ),
    "a task for a partition without records, too": "tests/e2e/test_batch_reads.py",
    "`kafka.group.id` is the group of the consumers": "tests/e2e/test_batch_reads.py",
    "`CREATE TABLE … USING kafka`": "tests/e2e/test_batch_reads.py",
    '`write.format("kafka").save()`': "tests/e2e/test_sink.py",
    "output mode `update`": "tests/e2e/test_sink.py",
    "columns in lower case; `Key` is ignored": "tests/unit/values/test_sink_columns.py",
    "a column `timestamp` is ignored (Spark 4.2)": "tests/e2e/test_sink.py",
    "`kafka.partitioner.class`, `kafka.interceptor.classes`": "tests/unit/options/test_sink_options.py",
    "unknown options, and those of reads, are ignored": "tests/unit/options/test_sink_options.py",
    "`kafka.linger.ms`, `kafka.batch.size` default to Java's": "tests/unit/options/test_producer_settings.py",
    "`asyncProgressTrackingEnabled`": "tests/e2e/test_sink.py",
}
PER_PARTITION: Final = 10
TIME: Final = 99_999_999_999_999


@pytest.fixture(scope="module")
def turns(broker: Broker) -> str:
    """A topic of two partitions with ten records each, beside another one."""
    for name, partitions in (("turns", 2), ("other-turns", 1)):
        broker.fill(name, PER_PARTITION * partitions, partitions)
    return "turns"


def source(broker: Broker, topic: str, name: str, form: str, changes: dict[str, Any]) -> dict[str, str]:
    """The options of a case, as a group of its own."""
    return options(broker, topic, **{"group__id": f"switching-{form}-{name}", **changes})


# How many rows both deliver.
ALIKE: Final[dict[str, tuple[dict[str, Any], int]]] = {
    "a partition named twice": ({"subscribe": None, "assign": '{"turns":[0,0,1]}'}, 20),
    "two topics": ({"subscribe": " turns , other-turns"}, 30),
    "a pattern of two topics": ({"subscribe": None, "subscribePattern": "^(other-)?turns$"}, 30),
    "offsets of each partition": ({"startingOffsets": '{"turns":{"0":5,"1":-1}}'}, 5),
    "a word in capitals": ({"startingOffsets": " EARLIEST "}, 20),
    "a pattern, found anywhere": ({"subscribe": None, "subscribePattern": " r-tu "}, 10),
    "a pattern of Java's": ({"subscribe": None, "subscribePattern": r"^\p{Alpha}+$(?<=\Qrns\E)"}, 20),
    "a pattern that finds nothing": ({"subscribe": None, "subscribePattern": "nosuch"}, 0),
    "the latest after all records": (
        {"startingTimestamp": TIME, "startingOffsetsByTimestampStrategy": "LATEST"},
        0,
    ),
    "a delay with spaces": ({"minOffsetsPerTrigger": 5, "maxTriggerDelay": " 15M "}, 20),
}


ALL_PARTITIONS: Final = "If startingOffsets contains specific offsets, you must specify all TopicPartitions"
# What each says, Spark's own (4.2.0) first.
REFUSED: Final[dict[str, tuple[dict[str, Any], int | str, int | str]]] = {
    "a topic of assign that is not there": (
        {"subscribe": None, "assign": '{"nosuch":[0]}'},
        "UnknownTopicOrPartitionException",
        "option assign names topic nosuch",
    ),
    "endingOffsets": (
        {"endingOffsets": "latest"},
        "ending offset not valid in streaming queries",
        "option endingOffsets is not supported in a stream",
    ),
    "no partition named": ({"startingOffsets": "{}"}, ALL_PARTITIONS, "option startingOffsets names no partition"),
    "a partition too many": (
        {"startingOffsets": '{"turns":{"0":-2,"1":-2,"9":-2}}'},
        ALL_PARTITIONS,
        "option startingOffsets names turns-9, which does not exist",
    ),
    "a topic of another source": (
        {"startingOffsets": '{"turns":{"0":-2,"1":-2},"other-turns":{"0":0}}'},
        ALL_PARTITIONS,
        "option startingOffsets names other-turns-0, which does not exist or is not read",
    ),
    "a strategy that is none": (
        {"startingTimestamp": 1, "startingOffsetsByTimestampStrategy": "nonsense"},
        "No value found for 'NONSENSE'",
        "option startingOffsetsByTimestampStrategy='nonsense' must be one of error, latest",
    ),
    "a time after all records": (
        {"startingTimestamp": TIME},
        "No offset matched from request of topic-partition turns-",
        "no record at or after the starting timestamp in turns-0, turns-1",
    ),
    "two subscriptions": (
        {"assign": '{"turns":[0]}'},
        "Only one of the following options can be specified",
        "exactly one of the options subscribe, subscribePattern and assign is needed: subscribe and assign are given",
    ),
    "no subscription": (
        {"subscribe": None},
        "One of the following options must be specified",
        "exactly one of the options subscribe, subscribePattern and assign is needed: none is given",
    ),
    "an empty subscription": ({"subscribe": ""}, "No topics to subscribe to", "option subscribe is empty"),
    "an empty pattern": (
        {"subscribe": None, "subscribePattern": ""},
        "Pattern to subscribe is empty",
        "option subscribePattern is empty",
    ),
    "an empty assign": (
        {"subscribe": None, "assign": ""},
        "No topicpartitions to assign",
        "option assign is not JSON",
    ),
    "a word for a boolean": ({"includeHeaders": "yes"}, 'For input string: "yes"', "option includeHeaders='yes'"),
}


# By row of the page: the options, how many rows Spark's source delivers and how many ours does, or the words of its error.
DIFFERENT: Final[dict[str, tuple[dict[str, Any], int | str, int | str]]] = {
    "assign with a partition that is not there": (
        {"subscribe": None, "assign": '{"turns":[0,7]}'},
        10,
        "option assign names partition turns-7",
    ),
    "assign nothing": ({"subscribe": None, "assign": "{}"}, 0, "option assign names no partition"),
    "an unknown option": ({"nonsense": 1}, 20, "option nonsense is unknown"),
    "endingTimestamp": ({"endingTimestamp": 1}, 20, "option endingTimestamp is not supported in a stream"),
    "maxOffsetsPerTrigger=0": ({"maxOffsetsPerTrigger": 0}, 0, "option maxOffsetsPerTrigger=0 is out of bounds"),
    "a number with spaces": ({"maxOffsetsPerTrigger": " 500 "}, 'For input string: " 500 "', 20),
    "a boolean with spaces": ({"failOnDataLoss": " true "}, 'For input string: " true "', 20),
    "a strategy with spaces": (
        {"startingTimestamp": 1, "startingOffsetsByTimestampStrategy": " LATEST "},
        "No value found for ' LATEST '",
        20,
    ),
    "no start": ({"startingOffsets": None}, 0, 2 * PER_PARTITION),
    "offsets of one partition": ({"startingOffsets": '{"turns":{"0":5}}'}, ALL_PARTITIONS, 15),
}


BY_OURS: Final = {name: (changes, ours) for name, (changes, _, ours) in (REFUSED | DIFFERENT).items()}
BY_THEIRS: Final = {name: (changes, theirs) for name, (changes, theirs, _) in (REFUSED | DIFFERENT).items()}
FOUND_LATE: Final = ("a partition too many", "a time after all records")
"""What a plan finds: ``tests/unit/options`` has all that the parser refuses."""


@pytest.mark.parametrize("form", FORMS)
def test_what_is_read(spark: SparkSession, broker: Broker, turns: str, tmp_path: Path, form: str) -> None:
    """What both deliver, and what this one alone does: each case a source of one query."""
    table = BY_OURS if form == "cohort" else BY_THEIRS
    cases = ALIKE | {name: case for name, case in table.items() if isinstance(case[1], int) and case[1]}
    cases = {name: cases[name] for name in of_tier(quick=list(cases)[::4], thorough=list(cases))}
    sources = {name: source(broker, turns, name, form, changes) for name, (changes, _) in cases.items()}
    found = {name: len(places) for name, places in together(spark, sources, tmp_path / form, form).items()}
    assert found == {name: count for name, (_, count) in cases.items()}


@pytest.mark.parametrize("name", of_tier(quick=FOUND_LATE, thorough=tuple(REFUSED | DIFFERENT)))
def test_what_is_refused(spark: SparkSession, broker: Broker, turns: str, tmp_path: Path, name: str) -> None:
    """Each by its words; ours have the option and what to do."""
    for form in FORMS:
        changes, expected = (BY_OURS if form == "cohort" else BY_THEIRS)[name]
        if not expected or isinstance(expected, str):
            given = source(broker, turns, name, form, changes)
            assert_outcome(Stream(spark, given, tmp_path / form, form=form).outcome(), expected)


@pytest.mark.thorough("a row of the page, beside Spark's own source")
def test_a_group_is_required(spark: SparkSession, broker: Broker, turns: str, tmp_path: Path) -> None:
    """Without one Spark's source makes a name of its own; with one both read, by either name, and ours commits it."""
    for form in FORMS:
        found = Stream(spark, options(broker, turns, group__id=None), tmp_path / form, form=form).outcome()
        missing = "option group.id is missing: name the Kafka group"
        assert_outcome(found, missing if form == "cohort" else 2 * PER_PARTITION)
        sources = {
            name: options(broker, turns, **{"group__id": None, name: f"switching-{name}-{form}"})
            for name in ("group__id", "kafka__group__id")
        }
        assert [*map(len, together(spark, sources, tmp_path / f"{form}-2", form).values())] == [2 * PER_PARTITION] * 2
        ends = {(turns, number): PER_PARTITION for number in range(2)} if form == "cohort" else {}
        assert [broker.admin.committed(f"switching-{name}-{form}") for name in sources] == [ends, ends]


@pytest.mark.thorough("a row of the page, beside Spark's own source")
def test_a_limit_with_small_partitions(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """Of eight partitions and a limit of three Spark's source reads more than three a batch, ours never does."""
    broker.fill(topic, 40, 8)
    for form in FORMS:
        stream = Stream(spark, options(broker, topic, maxOffsetsPerTrigger=3), tmp_path / form, form=form).finish()
        sizes = [len(rows) for rows in stream.batches.values()]
        assert sum(sizes) == 40
        assert max(sizes) == 3 if form == "cohort" else max(sizes) > 3


@pytest.mark.thorough("a row of the page, beside Spark's own source")
@pytest.mark.parametrize("partitions", [12, 1])
def test_tasks_of_a_batch(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, partitions: int) -> None:
    """On two cores: twelve partitions are twelve tasks of Spark's source, fewer of ours; one is one, or pieces of it."""
    broker.fill(topic, 120, partitions)
    for form in FORMS:
        found: list[tuple[int, list[tuple[int, int]]]] = []

        def look(batch: DataFrame, _number: int, found: list[Any] = found) -> None:
            rows = sorted((row.partition, row.offset) for row in batch.collect())
            found.append((batch.rdd.getNumPartitions(), rows))

        reader = spark.readStream.format(form).options(**options(broker, topic, group__id=f"{topic}-{form}"))
        writer = reader.load().writeStream.foreachBatch(look).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / form)).start()
        assert query.awaitTermination(90)
        ((tasks, rows),) = found
        assert rows == [(number, offset) for number in range(partitions) for offset in range(120 // partitions)]
        assert tasks == partitions if form == "kafka" else 1 <= tasks <= (2 if partitions == 1 else 11)


def test_a_schema(spark: SparkSession, broker: Broker, turns: str) -> None:
    """Spark's source has one schema, ours delivers the columns that are asked for."""
    for form in FORMS:
        reader = spark.readStream.format(form).schema("value BINARY")
        if form == "cohort":
            assert reader.options(**options(broker, turns, group__id="schema")).load().columns == ["value"]
        else:
            assert "Kafka source has a fixed schema" in error(reader.options(**options(broker, turns)).load)


def _joined(left: DataFrame, right: DataFrame) -> DataFrame:
    there = right.selectExpr("key AS right_key", "partition AS right_partition", "offset AS right_offset")
    same = (left["partition"] == there["right_partition"]) & (left["offset"] == there["right_offset"])
    return left.join(there, same)


@pytest.mark.thorough("a row of the page, beside Spark's own source")
def test_a_self_join_of_two_loads(spark: SparkSession, broker: Broker, turns: str, tmp_path: Path) -> None:
    """One DataFrame joined with itself has one reader; two loads need two groups, and give the same rows."""
    given = {name: options(broker, turns, group__id=f"switching-{name}") for name in ("left", "right", "one", "same")}
    runs = [
        Stream(spark, given["one"], tmp_path / form, form=form, transform=lambda one: _joined(one, one)).finish()
        for form in FORMS
    ]
    expected = sorted(runs[0].rows)
    assert len(expected) == 2 * PER_PARTITION
    assert all(sorted(run.rows) == expected for run in runs)

    same = Stream(spark, given["same"], tmp_path / "same")
    refused = Stream(spark, given["same"], tmp_path / "two-same", transform=lambda one: _joined(one, same.load()))
    assert "load() it once for each and give each its own group.id" in refused.failure()

    def both(left: DataFrame) -> DataFrame:
        return _joined(left, Stream(spark, given["right"], tmp_path).load())

    for _start in range(2):
        ours = Stream(spark, given["left"], tmp_path / "two", transform=both).finish()
        assert len(ours.rows) in (2 * PER_PARTITION, 0)
        if ours.rows:
            assert sorted(ours.rows) == expected
    for name in ("left", "right"):
        assert broker.admin.committed(f"switching-{name}") == {(turns, number): PER_PARTITION for number in range(2)}


@pytest.mark.thorough("a row of the page, beside Spark's own source")
def test_two_actions_of_one_batch_read(spark: SparkSession, broker: Broker, topic: str) -> None:
    """Both plan by the first action, not by load().  Each later one is planned anew by Spark's source alone: ours has the same rows, or none that are gone."""
    broker.fill(topic, 2)
    frames = {form: load(spark, broker, topic, form) for form in FORMS}
    produce(broker.bootstrap, topic, 3, first=2)
    assert {len(ordered(frame)) for frame in frames.values()} == {5}
    assert {frame.union(frame).count() for frame in frames.values()} == {10}
    produce(broker.bootstrap, topic, 5, first=5)
    for form, frame in frames.items():
        assert len(ordered(frame)) == (10 if form == "kafka" else 5)
    broker.admin.delete_records(topic, {0: 5})
    for form in FORMS[1:]:
        assert [row.offset for row in ordered(frames[form])] == [*range(5, 10)]
    with pytest.raises(PySparkException, match=r"KAFKA_DATA_LOSS\.COULD_NOT_READ_OFFSET_RANGE"):
        frames["cohort"].collect()
    assert [row.offset for row in ordered(load(spark, broker, topic))] == [*range(5, 10)]


@pytest.mark.thorough("a row of the page, beside Spark's own source")
def test_the_program_that_compares_both(
    spark: SparkSession, broker: Broker, turns: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """That of the page, as it stands there: a batch of a query's checkpoint, read by both formats."""
    (tmp_path / "offsets").mkdir()
    for batch, ends in ((1041, (2, 3)), (1042, (7, 10))):
        text = json.dumps({turns: {str(number): end for number, end in enumerate(ends)}})
        (tmp_path / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{text}")
    program = pages.section((pages.DOCS / "migrate-from-spark-kafka.md").read_text(), "same")
    for name, value in (("/checkpoints/billing", str(tmp_path)), ("broker:9092", broker.bootstrap), ("orders", turns)):
        program = program.replace(name, value)
    exec(program.removeprefix("```python\n").removesuffix("```"), {"spark": spark})  # noqa: S102
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "12 records"
    assert len([line for line in printed if line.startswith("|")]) == 1, "the names of the columns, and no row"
