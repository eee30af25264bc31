"""The page on switching, run: what is alike beside ``format("kafka")``, and each row of what differs.

``ROWS`` maps each row of the page's tables, by what it says of Spark's source, to the test that runs it: one of this module,
or the path of another. ``tests/unit/house/test_switching_rows.py`` compares it with the page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.kit.batch_reads import load, ordered
from tests.kit.broker import Broker
from tests.kit.produce import produce
from tests.kit.streams import ASAP, FORMS, Places, Stream, assert_outcome, options

pytestmark = pytest.mark.timeout(240)

ROWS: Final = {
    "`startingOffsets` defaults to `latest`": "test_where_a_query_starts",
    "`startingOffsets` JSON must name every partition": "test_what_differs",
    "a group id that nobody sees, new at each start": "test_a_group_is_required",
    "Java's `kafka.*` settings": "tests/unit/options/test_settings_table.py",
    "Java's bounds of numbers": "tests/unit/options/test_javas_settings.py",
    "`kafka.reconnect.backoff.ms` less than a second": "tests/shell/kafka/test_logins.py",
    "`spark.kafka.clusters.*` (delegation tokens)": "tests/e2e/test_delegation_tokens.py",
    "`kafka.config.providers` with a class of anybody's": "tests/unit/options/test_config_providers.py",
    "Java's regular expressions in `subscribePattern`": "tests/unit/options/test_topic_pattern.py",
    "Kerberos": "tests/unit/options/test_kafka_settings.py",
    "Java classes that make tokens (`sasl.login.callback.handler.class`)": "tests/unit/options/test_token_settings.py",
    "`maxOffsetsPerTrigger` may be exceeded with many small partitions": "test_a_limit_with_small_partitions",
    "one task per Kafka partition": "test_tasks_of_a_batch",
    "`assign` leaves out partitions that do not exist, and reads nothing for `{}`": "test_what_differs",
    "unknown options, and `endingTimestamp` on a stream, are ignored": "test_what_differs",
    "`maxOffsetsPerTrigger=0` is a query that never reads": "test_what_differs",
    "spaces around numbers, `true`, `false` and strategies are an error": "test_what_differs",
    "a topic deleted and created anew is read on from the old place where its log is long enough": "tests/e2e/test_parity.py",
    "with `failOnDataLoss=false`, a topic of a pattern that may not be read for a while is left out, and read from its beginning once it may": (
        "tests/e2e/test_parity.py"
    ),
    "`Trigger.AvailableNow` ends with an error where a topic was made anew smaller meanwhile, whatever `failOnDataLoss` says": (
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
    "filters never bound what is read": "tests/e2e/test_batch_reads.py",
    "`kafka.group.id` is the group of the consumers": "tests/e2e/test_batch_reads.py",
    "`CREATE TABLE … USING kafka`": "tests/e2e/test_batch_reads.py",
}
PER_PARTITION: Final = 10
TIME: Final = 99_999_999_999_999
_numbers = count()


@pytest.fixture(scope="module")
def turns(broker: Broker) -> str:
    """A topic of two partitions with ten records each, beside another one."""
    for name, partitions in (("turns", 2), ("other-turns", 1)):
        broker.admin.create_topic(name, partitions)
        produce(broker.bootstrap, name, PER_PARTITION * partitions, partitions=partitions)
    return "turns"


def outcome(
    spark: SparkSession, broker: Broker, topic: str, folder: Path, form: str, changes: Mapping[str, Any]
) -> Places | str:
    """The rows' places, or the error with which the query is refused or ends."""
    source = options(broker, topic, **{"group__id": f"switching-{next(_numbers)}", **changes})
    return Stream(spark, source, folder / f"{form}-{next(_numbers)}", form=form).outcome()


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


@pytest.mark.parametrize(("changes", "count"), ALIKE.values(), ids=ALIKE)
def test_what_is_alike(
    spark: SparkSession, broker: Broker, turns: str, tmp_path: Path, changes: dict[str, Any], count: int
) -> None:
    """Both deliver the same rows."""
    ours, theirs = (outcome(spark, broker, turns, tmp_path, form, changes) for form in FORMS)
    assert ours == theirs
    assert_outcome(ours, count)


ALL_PARTITIONS: Final = "If startingOffsets contains specific offsets, you must specify all TopicPartitions"
# What each says, Spark's own first.
REFUSED: Final[dict[str, tuple[dict[str, Any], str, str]]] = {
    "a topic of assign that is not there": (
        {"subscribe": None, "assign": '{"nosuch":[0]}'},
        "UnknownTopicOrPartitionException",
        "option assign names topic nosuch",
    ),
    "a topic that is not there": (
        {"subscribe": "turns,nosuch"},
        "UnknownTopicOrPartitionException",
        "option subscribe names topic nosuch",
    ),
    "endingOffsets": (
        {"endingOffsets": "latest"},
        "ending offset not valid in streaming queries",
        "option endingOffsets is not supported in a stream",
    ),
    "endingOffsetsByTimestamp": (
        {"endingOffsetsByTimestamp": '{"turns":{"0":1,"1":1}}'},
        "ending timestamp not valid in streaming queries",
        "option endingOffsetsByTimestamp is not supported in a stream",
    ),
    "no partition named": ({"startingOffsets": "{}"}, ALL_PARTITIONS, "option startingOffsets names no partition"),
    "a topic without partitions": (
        {"startingOffsets": '{"turns":{}}'},
        ALL_PARTITIONS,
        "option startingOffsets names no partition",
    ),
    "a partition too many": (
        {"startingOffsets": '{"turns":{"0":-2,"1":-2,"9":-2}}'},
        ALL_PARTITIONS,
        "option startingOffsets names turns-9, which does not exist",
    ),
    "a topic of another source": (
        {"startingOffsets": '{"turns":{"0":-2,"1":-2},"other-turns":{"0":0}}'},
        ALL_PARTITIONS,
        "option startingOffsets names other-turns-0, which option subscribe does not read",
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
    "minPartitions": (
        {"minPartitions": 0},
        "minPartitions must be positive",
        "option minPartitions=0 is out of bounds",
    ),
    "maxRecordsPerPartition": (
        {"maxRecordsPerPartition": -5},
        "maxrecordsperpartition must be positive",
        "option maxRecordsPerPartition=-5 is out of bounds",
    ),
    "a word for a boolean": ({"includeHeaders": "yes"}, 'For input string: "yes"', "option includeHeaders='yes'"),
}


@pytest.mark.parametrize(("changes", "theirs", "ours"), REFUSED.values(), ids=REFUSED)
def test_what_both_refuse(
    spark: SparkSession, broker: Broker, turns: str, tmp_path: Path, changes: dict[str, Any], theirs: str, ours: str
) -> None:
    """Each by its words; ours have the option and what to do."""
    for form, words in (("kafka", theirs), ("cohort", ours)):
        assert_outcome(outcome(spark, broker, turns, tmp_path, form, changes), words)


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        ("PLAINTEXT", {"kafka": 20, "cohort": 20}),
        (
            "NONSENSE",
            {
                "kafka": "Invalid value NONSENSE for configuration security.protocol",
                "cohort": "option kafka.security.protocol refers to a value that is not fit for it",
            },
        ),
    ],
)
def test_values_that_are_looked_up(
    spark: SparkSession, broker: Broker, turns: str, tmp_path: Path, protocol: str, expected: dict[str, int | str]
) -> None:
    """``kafka.config.providers`` of Kafka's: driver and executors of both sources find what the file says, and go by it."""
    (tmp_path / "kafka.properties").write_text(f"# of the team\nthe.protocol = {protocol}\n")
    changes = {
        "kafka__config__providers": "file",
        "kafka__config__providers__file__class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "kafka__security__protocol": f"${{file:{tmp_path / 'kafka.properties'}:the.protocol}}",
    }
    for form in FORMS:
        assert_outcome(outcome(spark, broker, turns, tmp_path, form, changes), expected[form])


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
    "offsets of one partition": ({"startingOffsets": '{"turns":{"0":5}}'}, ALL_PARTITIONS, 15),
}


@pytest.mark.parametrize(("changes", "theirs", "ours"), DIFFERENT.values(), ids=DIFFERENT)
def test_what_differs(
    spark: SparkSession,
    broker: Broker,
    turns: str,
    tmp_path: Path,
    changes: dict[str, Any],
    theirs: int | str,
    ours: int | str,
) -> None:
    """Each side does what its cell of the table says."""
    for form, expected in (("kafka", theirs), ("cohort", ours)):
        assert_outcome(outcome(spark, broker, turns, tmp_path, form, changes), expected)


def test_where_a_query_starts(spark: SparkSession, broker: Broker, turns: str, tmp_path: Path) -> None:
    """Without startingOffsets Spark's source starts at latest, a group without offsets at earliest."""
    changes = {"startingOffsets": None}
    assert_outcome(outcome(spark, broker, turns, tmp_path, "kafka", changes), 0)
    assert_outcome(outcome(spark, broker, turns, tmp_path, "cohort", changes), 2 * PER_PARTITION)


def test_a_group_is_required(spark: SparkSession, broker: Broker, turns: str, tmp_path: Path) -> None:
    """Without one Spark's source makes a name of its own; with one both read, by either name, and ours commits it."""
    without: dict[str, Any] = {"group__id": None}
    assert_outcome(outcome(spark, broker, turns, tmp_path, "kafka", without), 2 * PER_PARTITION)
    missing = "option group.id is missing: name the Kafka group"
    assert_outcome(outcome(spark, broker, turns, tmp_path, "cohort", without), missing)
    for name in ("group__id", "kafka__group__id"):
        for form in FORMS:
            group = f"switching-{name}-{form}"
            found = outcome(spark, broker, turns, tmp_path, form, without | {name: group})
            assert_outcome(found, 2 * PER_PARTITION)
            ends = {(turns, number): PER_PARTITION for number in range(2)} if form == "cohort" else {}
            assert broker.admin.committed(group) == ends


def test_a_limit_with_small_partitions(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """Of eight partitions and a limit of three Spark's source reads more than three a batch, ours never does."""
    broker.admin.create_topic(topic, 8)
    produce(broker.bootstrap, topic, 40, partitions=8)
    sizes = {}
    for form in ("kafka", "cohort"):
        stream = Stream(spark, options(broker, topic, maxOffsetsPerTrigger=3), tmp_path / form, form=form).finish()
        sizes[form] = [len(rows) for rows in stream.batches.values()]
        assert sum(sizes[form]) == 40
    assert max(sizes["cohort"]) == 3 < max(sizes["kafka"])


@pytest.mark.parametrize("partitions", [12, 1])
def test_tasks_of_a_batch(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, partitions: int) -> None:
    """On two cores: twelve partitions are twelve tasks of Spark's source, fewer of ours; one is one, or pieces of it."""
    broker.admin.create_topic(topic, partitions)
    produce(broker.bootstrap, topic, 120, partitions=partitions)
    tasks = {}
    for form in FORMS:
        found: list[tuple[int, list[tuple[int, int]]]] = []

        def look(batch: DataFrame, _number: int, found: list[Any] = found) -> None:
            rows = sorted((row.partition, row.offset) for row in batch.collect())
            found.append((batch.rdd.getNumPartitions(), rows))

        reader = spark.readStream.format(form).options(**options(broker, topic, group__id=f"{topic}-{form}"))
        writer = reader.load().writeStream.foreachBatch(look).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / form)).start()
        assert query.awaitTermination(90)
        ((tasks[form], rows),) = found
        assert rows == [(number, offset) for number in range(partitions) for offset in range(120 // partitions)]
    assert tasks["kafka"] == partitions
    assert 1 <= tasks["cohort"] <= (2 if partitions == 1 else 11)


def test_a_schema(spark: SparkSession, broker: Broker, turns: str) -> None:
    """Spark's source has one schema, ours delivers the columns that are asked for."""
    asked = {form: spark.readStream.format(form).schema("value BINARY") for form in ("kafka", "cohort")}
    given = options(broker, turns, group__id="switching-schema")
    assert asked["cohort"].options(**given).load().columns == ["value"]
    with pytest.raises(PySparkException, match="Kafka source has a fixed schema"):
        asked["kafka"].options(**given).load()


def _joined(left: DataFrame, right: DataFrame) -> DataFrame:
    there = right.selectExpr("key AS right_key", "partition AS right_partition", "offset AS right_offset")
    same = (left["partition"] == there["right_partition"]) & (left["offset"] == there["right_offset"])
    return left.join(there, same)


def test_a_self_join_of_two_loads(spark: SparkSession, broker: Broker, turns: str, tmp_path: Path) -> None:
    """One DataFrame joined with itself has one reader; two loads need two groups, and give the same rows."""
    given = {name: options(broker, turns, group__id=f"switching-{name}") for name in ("left", "right", "one", "same")}
    found = {
        form: Stream(spark, given["one"], tmp_path / form, form=form, transform=lambda one: _joined(one, one)).finish()
        for form in ("kafka", "cohort")
    }
    theirs = found["kafka"]
    assert len(theirs.rows) == 2 * PER_PARTITION
    assert sorted(found["cohort"].rows) == sorted(theirs.rows)

    same = Stream(spark, given["same"], tmp_path / "same")
    refused = Stream(spark, given["same"], tmp_path / "two-same", transform=lambda one: _joined(one, same.load()))
    assert "load() it once for each and give each its own group.id" in refused.failure()

    def both(left: DataFrame) -> DataFrame:
        return _joined(left, Stream(spark, given["right"], tmp_path).load())

    for _start in range(2):
        ours = Stream(spark, given["left"], tmp_path / "two", transform=both).finish()
        assert len(ours.rows) in (2 * PER_PARTITION, 0)
        if ours.rows:
            assert sorted(ours.rows) == sorted(theirs.rows)
    for name in ("left", "right"):
        assert broker.admin.committed(f"switching-{name}") == {(turns, number): PER_PARTITION for number in range(2)}


def test_two_queries_of_two_loads(spark: SparkSession, broker: Broker, turns: str, tmp_path: Path) -> None:
    """Two writeStreams at once, each with a load and a group of its own."""
    streams = [
        Stream(spark, options(broker, turns, group__id=f"switching-{name}"), tmp_path / name, trigger=ASAP)
        for name in ("first", "second")
    ]
    with streams[0], streams[1]:
        for stream in streams:
            stream.wait_for_rows(2 * PER_PARTITION)


def test_sources_of_one_query_start_where_each_says(
    spark: SparkSession, broker: Broker, turns: str, tmp_path: Path
) -> None:
    """startingOffsets of one source of a union is its own."""
    found = {}
    for form in ("kafka", "cohort"):
        later = options(
            broker,
            "other-turns",
            group__id=f"switching-later-{form}",
            startingOffsets=json.dumps({"other-turns": {"0": 7}}),
        )
        more = Stream(spark, later, tmp_path, form=form)
        first = options(broker, turns, group__id=f"switching-union-{form}")
        stream = Stream(spark, first, tmp_path / form, form=form, transform=more.load().union)
        found[form] = sorted((row.topic, row.partition, row.offset) for row in stream.finish().rows)
    assert found["cohort"] == found["kafka"]
    assert [offset for name, _, offset in found["cohort"] if name == "other-turns"] == [7, 8, 9]


def test_two_actions_of_one_batch_read(spark: SparkSession, broker: Broker, topic: str) -> None:
    """Both plan by the first action, not by load().  Each later one is planned anew by Spark's source alone: ours has the same rows, or none that are gone."""
    broker.admin.create_topic(topic)
    produce(broker.bootstrap, topic, 2)
    frames = {form: load(spark, broker, topic, form) for form in FORMS}
    produce(broker.bootstrap, topic, 3, first=2)

    def counted() -> dict[str, int]:
        return {form: len(ordered(frame)) for form, frame in frames.items()}

    assert counted() == {"kafka": 5, "cohort": 5}
    assert {form: frame.union(frame).count() for form, frame in frames.items()} == {"kafka": 10, "cohort": 10}
    produce(broker.bootstrap, topic, 5, first=5)
    assert counted() == {"kafka": 10, "cohort": 5}
    broker.admin.delete_records(topic, {0: 5})
    assert [row.offset for row in ordered(frames["kafka"])] == [*range(5, 10)]
    with pytest.raises(PySparkException, match=r"KAFKA_DATA_LOSS\.COULD_NOT_READ_OFFSET_RANGE"):
        frames["cohort"].collect()
    assert [row.offset for row in ordered(load(spark, broker, topic))] == [*range(5, 10)]
