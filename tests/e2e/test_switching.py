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
from tests.kit.streams import ASAP, Stream, options

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
    "`Trigger.AvailableNow` ends with an error where a topic was made anew smaller meanwhile, whatever `failOnDataLoss` says": (
        "tests/e2e/test_parity.py"
    ),
    "a broker that does not answer ends the query after Kafka's time-outs": "tests/e2e/test_parity.py",
    "a topic may be loaded twice by one query, and a DataFrame written by two": "test_a_self_join_of_two_loads",
    "`.schema(...)` is refused": "test_a_schema",
    "`from_json`, `from_avro`, `from_protobuf` over `value`": "tests/e2e/test_typed_values.py",
    "each action on a DataFrame looks for the newest records": "test_two_actions_of_one_batch_read",
    "`startingOffsets`, `endingOffsets` as JSON must name every partition": "tests/e2e/test_batch_reads.py",
    "`assign` drops partitions that do not exist": "tests/e2e/test_batch_reads.py",
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
) -> Any:
    """The rows' places, or None when the query is refused or ends with an error."""
    source = options(broker, topic, **{"group__id": f"switching-{next(_numbers)}", **changes})
    try:
        rows = Stream(spark, source, folder / f"{form}-{next(_numbers)}", form=form).finish().rows
    except PySparkException:  # Spark's refusals and ours
        return None
    return sorted((row.topic, row.partition, row.offset) for row in rows)


ALIKE: Final[dict[str, dict[str, Any]]] = {
    "a partition named twice": {"subscribe": None, "assign": '{"turns":[0,0,1]}'},
    "a topic of assign that is not there": {"subscribe": None, "assign": '{"nosuch":[0]}'},
    "a topic that is not there": {"subscribe": "turns,nosuch"},
    "endingOffsets": {"endingOffsets": "latest"},
    "endingOffsetsByTimestamp": {"endingOffsetsByTimestamp": '{"turns":{"0":1,"1":1}}'},
    "no partition named": {"startingOffsets": "{}"},
    "a topic without partitions": {"startingOffsets": '{"turns":{}}'},
    "a partition too many": {"startingOffsets": '{"turns":{"0":-2,"1":-2,"9":-2}}'},
    "a topic of another source": {"startingOffsets": '{"turns":{"0":-2,"1":-2},"other-turns":{"0":0}}'},
    "offsets of each partition": {"startingOffsets": '{"turns":{"0":5,"1":-1}}'},
    "a word in capitals": {"startingOffsets": " EARLIEST "},
    "a pattern, found anywhere": {"subscribe": None, "subscribePattern": " r-tu "},
    "a pattern of Java's": {"subscribe": None, "subscribePattern": r"^\p{Alpha}+$(?<!\Qsnr\E)"},
    "a pattern that finds nothing": {"subscribe": None, "subscribePattern": "nosuch"},
    "a strategy that is none": {"startingTimestamp": 1, "startingOffsetsByTimestampStrategy": "nonsense"},
    "a time after all records": {"startingTimestamp": TIME},
    "the latest after all records": {
        "startingTimestamp": TIME,
        "startingOffsetsByTimestampStrategy": "LATEST",
    },
    "a delay with spaces": {"minOffsetsPerTrigger": 5, "maxTriggerDelay": " 15M "},
    "two subscriptions": {"assign": '{"turns":[0]}'},
    "no subscription": {"subscribe": None},
    "minPartitions": {"minPartitions": 0},
    "maxRecordsPerPartition": {"maxRecordsPerPartition": -5},
    "a word for a boolean": {"includeHeaders": "yes"},
}


@pytest.mark.parametrize("changes", ALIKE.values(), ids=ALIKE)
def test_what_is_alike(
    spark: SparkSession, broker: Broker, turns: str, tmp_path: Path, changes: dict[str, Any]
) -> None:
    """Both deliver the same rows, or both refuse."""
    ours, theirs = (outcome(spark, broker, turns, tmp_path, form, changes) for form in ("cohort", "kafka"))
    assert ours == theirs


@pytest.mark.parametrize(("protocol", "reads"), [("PLAINTEXT", True), ("NONSENSE", False)])
def test_values_that_are_looked_up(
    spark: SparkSession, broker: Broker, turns: str, tmp_path: Path, protocol: str, reads: bool
) -> None:
    """``kafka.config.providers`` of Kafka's: driver and executors of both sources find what the file says, and go by it."""
    (tmp_path / "kafka.properties").write_text(f"# of the team\nthe.protocol = {protocol}\n")
    changes = {
        "kafka__config__providers": "file",
        "kafka__config__providers__file__class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "kafka__security__protocol": f"${{file:{tmp_path / 'kafka.properties'}:the.protocol}}",
    }
    ours, theirs = (outcome(spark, broker, turns, tmp_path, form, changes) for form in ("cohort", "kafka"))
    assert ours == theirs
    assert (ours is not None and len(ours) == 2 * PER_PARTITION) == reads


# By row of the page: the options, how many rows Spark's source delivers and how many ours does (None: an error).
DIFFERENT: Final[dict[str, tuple[dict[str, Any], int | None, int | None]]] = {
    "assign with a partition that is not there": ({"subscribe": None, "assign": '{"turns":[0,7]}'}, 10, None),
    "assign nothing": ({"subscribe": None, "assign": "{}"}, 0, None),
    "an unknown option": ({"nonsense": 1}, 20, None),
    "endingTimestamp": ({"endingTimestamp": 1}, 20, None),
    "maxOffsetsPerTrigger=0": ({"maxOffsetsPerTrigger": 0}, 0, None),
    "a number with spaces": ({"maxOffsetsPerTrigger": " 500 "}, None, 20),
    "a boolean with spaces": ({"failOnDataLoss": " true "}, None, 20),
    "a strategy with spaces": ({"startingTimestamp": 1, "startingOffsetsByTimestampStrategy": " LATEST "}, None, 20),
    "offsets of one partition": ({"startingOffsets": '{"turns":{"0":5}}'}, None, 15),
}


@pytest.mark.parametrize(("changes", "theirs", "ours"), DIFFERENT.values(), ids=DIFFERENT)
def test_what_differs(
    spark: SparkSession,
    broker: Broker,
    turns: str,
    tmp_path: Path,
    changes: dict[str, Any],
    theirs: int | None,
    ours: int | None,
) -> None:
    """Each side does what its cell of the table says."""
    for form, expected in (("kafka", theirs), ("cohort", ours)):
        found = outcome(spark, broker, turns, tmp_path, form, changes)
        assert (None if found is None else len(found)) == expected, form


def test_where_a_query_starts(spark: SparkSession, broker: Broker, turns: str, tmp_path: Path) -> None:
    """Without startingOffsets Spark's source starts at latest, a group without offsets at earliest."""
    changes = {"startingOffsets": None}
    assert outcome(spark, broker, turns, tmp_path, "kafka", changes) == []
    assert len(outcome(spark, broker, turns, tmp_path, "cohort", changes)) == 2 * PER_PARTITION


def test_a_group_is_required(spark: SparkSession, broker: Broker, turns: str, tmp_path: Path) -> None:
    """Spark's source makes a name of its own."""
    found = {form: outcome(spark, broker, turns, tmp_path, form, {"group__id": None}) for form in ("kafka", "cohort")}
    assert found["cohort"] is None
    assert len(found["kafka"]) == 2 * PER_PARTITION


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


def test_tasks_of_a_batch(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """Twelve partitions on two cores: twelve tasks of Spark's source, fewer of ours."""
    broker.admin.create_topic(topic, 12)
    produce(broker.bootstrap, topic, 120, partitions=12)
    tasks = {}
    for form in ("kafka", "cohort"):
        found: list[int] = []

        def look(batch: DataFrame, _number: int, found: list[int] = found) -> None:
            found.append(batch.rdd.getNumPartitions())

        reader = spark.readStream.format(form).options(**options(broker, topic, group__id=f"{topic}-{form}"))
        writer = reader.load().writeStream.foreachBatch(look).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / form)).start()
        assert query.awaitTermination(90)
        tasks[form] = found[0]
    assert tasks["kafka"] == 12 > tasks["cohort"] >= 1


def test_a_schema(spark: SparkSession, broker: Broker, turns: str) -> None:
    """Spark's source has one schema, ours delivers the columns that are asked for."""
    asked = {form: spark.readStream.format(form).schema("value BINARY") for form in ("kafka", "cohort")}
    given = options(broker, turns, group__id="switching-schema")
    assert asked["cohort"].options(**given).load().columns == ["value"]
    with pytest.raises(PySparkException):
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
    """Spark's source sees what came between two actions on one DataFrame, ours sees it after another load."""
    broker.admin.create_topic(topic)
    produce(broker.bootstrap, topic, 5)
    frames = {form: load(spark, broker, topic, form) for form in ("kafka", "cohort")}
    assert {form: len(ordered(frame)) for form, frame in frames.items()} == {"kafka": 5, "cohort": 5}
    produce(broker.bootstrap, topic, 5, first=5)
    assert {form: len(ordered(frame)) for form, frame in frames.items()} == {"kafka": 10, "cohort": 5}
    assert len(ordered(load(spark, broker, topic))) == 10
