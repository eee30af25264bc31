"""What a user sees when something is wrong: one error each, early, that names the option or the resource and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.kit import delivery
from tests.kit.batch_reads import told
from tests.kit.broker import Broker, Port
from tests.kit.produce import produce
from tests.kit.shared_brokers import PASSWORD
from tests.kit.streams import Stream, options
from tests.kit.tier import of_tier

pytestmark = pytest.mark.timeout(240)  # a busy machine makes a query slow

FRONT_LINES = 5  # of the message; the cause has to stand there
API_TIMEOUT_MS = 3_000


def refusal(spark: SparkSession, source: dict[str, str], checkpoint: Path) -> str:
    """What a user gets: from ``load()`` where that refuses the options, else from the query's end."""
    try:
        return Stream(spark, source, checkpoint).failure()
    except PySparkException as error:
        return str(error)


def assert_told(message: str, *words: str) -> None:
    """Check that the first lines of the message have all of these words (Spark may have lower-cased option names)."""
    front = "\n".join(message.splitlines()[:FRONT_LINES]).lower()
    for each in words:
        assert each.lower() in front, message


# Options that change a good query into a bad one, and what the message has to say.
BAD_OPTIONS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no group": ({"group__id": None}, ["option group.id is missing", "name the Kafka group"]),
    "misspelt": ({"startingOffset": "earliest"}, ["option startingOffset is unknown", "did you mean startingOffsets"]),
    "refused": ({"kafka__auto__offset__reset": "latest"}, ["kafka.auto.offset.reset", "use startingOffsets"]),
    "bad number": ({"maxOffsetsPerTrigger": "many"}, ["option maxOffsetsPerTrigger='many' is not a whole number"]),
}


@pytest.mark.parametrize("name", of_tier(quick=["misspelt"], thorough=list(BAD_OPTIONS)))
def test_bad_options(spark: SparkSession, broker: Broker, checkpoint: Path, name: str) -> None:
    """An option that is missing, unknown, refused or malformed is named, with what to do, before anything runs: ``tests/unit/options`` has them all."""
    changes, said = BAD_OPTIONS[name]
    assert_told(refusal(spark, options(broker, "orders", **changes), checkpoint), *said)


@pytest.fixture(scope="module")
def doors(guarded: Broker) -> Broker:
    """Alice may read the topic ``open`` as group ``mine`` and nothing else."""
    for topic in ("open", "closed"):
        guarded.admin.create_topic(topic)
    guarded.admin.allow("alice", "topic", "open", "read", "describe")
    guarded.admin.allow("alice", "group", "mine", "read", "describe")
    return guarded


def as_alice(broker: Broker, topic: str, group: str, password: str = PASSWORD) -> dict[str, str]:
    """Source options with which alice reads."""
    jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    return options(broker, topic, group__id=group, kafka__default__api__timeout__ms=API_TIMEOUT_MS) | {
        "kafka.bootstrap.servers": broker.sasl_bootstrap,
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{jaas} username="alice" password="{password}";',
    }


def test_permissions(spark: SparkSession, doors: Broker, tmp_path: Path) -> None:
    """Without the permission on a topic or a group, or with a wrong password, a stream and a batch read name it, not the secret."""
    cases = {
        "topic": (as_alice(doors, "closed", "mine"), ["no permission on topic closed", "READ and DESCRIBE"]),
        "group": (as_alice(doors, "open", "other"), ["no permission on group other", "READ and DESCRIBE"]),
        "password": (as_alice(doors, "open", "mine", "not-it"), ["authentication with", "check the kafka.sasl.*"]),
    }
    for name in of_tier(quick=["group"], thorough=list(cases)):
        source, said = cases[name]
        batch = spark.read.format("cohort").options(**(source | {"startingOffsets": "committed"}))
        for message in (Stream(spark, source, tmp_path / name).failure(), told(batch.load)):
            assert_told(message, *said)
            assert "not-it" not in message
            assert PASSWORD not in message


def test_the_permitted_user_reads(spark: SparkSession, doors: Broker, checkpoint: Path) -> None:
    """With READ and DESCRIBE on topic and group, and nothing else, and Java's own security settings; a batch read without a group."""
    produce(doors.bootstrap, "open", 50)
    run = Stream(spark, as_alice(doors, "open", "mine"), checkpoint).finish()
    delivery.check(run.delivered(), delivery.held(doors.bootstrap, ["open"])).assert_exact()
    without = {name: value for name, value in as_alice(doors, "open", "").items() if name != "group.id"}
    assert spark.read.format("cohort").options(**without).load().count() == 50


def test_missing_topic_and_wrong_address(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """A topic, a partition or a broker that is not there ends the query, by its name."""
    limit = {"kafka__default__api__timeout__ms": API_TIMEOUT_MS}
    broker.admin.create_topic(topic)
    nobody = Port("127.0.0.1")  # bound, and never listened on
    address = f"127.0.0.1:{nobody.number}"
    cases: dict[str, tuple[dict[str, Any], list[str]]] = {
        "topic": ({"subscribe": "no-such-topic"}, ["option subscribe names topic no-such-topic", "create it"]),
        "partition": (
            {"subscribe": None, "assign": f'{{"{topic}":[0,7]}}'},
            [f"option assign names partition {topic}-7", "correct the name"],
        ),
        "start": (
            {"startingOffsets": f'{{"{topic}":{{"0":0,"5":0}}}}'},
            [f"option startingOffsets names {topic}-5", "does not exist"],
        ),
        "address": (
            {"kafka__bootstrap__servers": address},
            [f"kafka.bootstrap.servers={address}", f"within {API_TIMEOUT_MS} ms", "check the address"],
        ),
    }
    try:
        for name in of_tier(quick=["topic"], thorough=list(cases)):
            changes, said = cases[name]
            source = options(broker, topic, **{"group__id": f"{topic}-{name}", **limit, **changes})
            assert_told(Stream(spark, source, tmp_path / name).failure(), *said)
    finally:
        nobody.close()


def test_options_of_the_other_way_and_impossible_schemas_are_refused(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    """A write with options of a read, and a schema that can't be, each get one sentence that says what to do instead."""
    source = options(broker, topic, startingOffsets=None)
    with pytest.raises(PySparkException) as written:
        spark.range(1).write.format("cohort").options(**source).mode("append").save()
    assert_told(str(written.value), "option subscribe is for reads only: leave it out")
    with pytest.raises(PySparkException) as shaped:
        stream = spark.readStream.format("cohort").schema("value STRING").options(**source).load()
        stream.writeStream.format("noop").start().processAllAvailable()
    words = "the schema of format('cohort') has the column value as STRING, and it can only be BINARY"
    assert_told(str(shaped.value), words, "set the option value.format to string")
