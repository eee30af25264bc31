"""Scenarios of failure, discovery and refusal of Spark's suites: both formats, each one's outcome asserted.

``tests/kit/scenarios.py`` has all of them by name, and which test runs each.  Where records, partitions or topics are taken
away, each format has a topic of its own.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession

from sparkcohort import offsets_behind_latest
from tests.kit.broker import Broker
from tests.kit.jars import reader_jar
from tests.kit.produce import place_of, produce
from tests.kit.shared_brokers import PASSWORD
from tests.kit.streams import ASAP, FORMS, Stream, error, options
from tests.kit.waiting import hold_for, wait_until

pytestmark = [
    pytest.mark.thorough("failures and discovery beside Spark's own source"),
    pytest.mark.timeout(300),
]  # a busy machine makes a query slow

# How a loss begins: Spark's own tells of it in its condition's words, without its name.
LOST: Final = {"cohort": "[KAFKA_DATA_LOSS", "kafka": "Some data may have been lost"}
QUICK: Final = {"metadata__max__age__ms": 300}
IMPATIENT: Final = {"kafka__default__api__timeout__ms": 5000, "kafka__request__timeout__ms": 4000}


class Stepped(Stream):
    """A query that does something after it has read a batch, and before Spark has committed it."""

    then: Callable[[int], None]

    def _keep(self, batch: DataFrame, batch_id: int) -> None:
        super()._keep(batch, batch_id)
        self.then(batch_id)


class Hasty(Stepped):
    """A query that does it before it reads the batch, which is planned."""

    def _keep(self, batch: DataFrame, batch_id: int) -> None:
        self.then(batch_id)
        Stream._keep(self, batch, batch_id)


def filled(broker: Broker, topic: str, partitions: int, each: int, first: int = 0) -> str:
    """A topic with so many records in each partition."""
    broker.fill(topic, each * partitions, partitions, first=first)
    return topic


def places(run: Stream) -> list[tuple[str, int, int]]:
    """Where its rows are, in order, each as often as it came."""
    return sorted((row.topic, row.partition, row.offset) for row in run.rows)


def by_batch(run: Stream) -> list[list[tuple[int, int]]]:
    """The same by batch."""
    return [sorted((row.partition, row.offset) for row in rows) for _, rows in sorted(run.batches.items())]


def test_topics_and_partitions_that_come(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """A drawn order of topics that come and go, new partitions, records, stops and starts: each record once in both, from its beginning."""
    some, sizes, written = random.Random(20), {f"{topic}-0": 1}, 0
    everything: list[tuple[str, int, int]] = []
    broker.admin.create_topic(f"{topic}-0", 1)
    source = options(
        broker, topic, subscribe=None, subscribePattern=f"^{topic}-.", failOnDataLoss="false", **QUICK, **IMPATIENT
    )

    def started(before: Mapping[str, Stream] | None = None) -> dict[str, Stream]:
        kept = {form: run.batches for form, run in (before or {}).items()}
        return {
            form: Stream(spark, source, tmp_path / form, form=form, trigger=ASAP, batches=kept.get(form)).start()
            for form in FORMS
        }

    runs = started()
    try:
        for step in range(8):
            if step == 6:
                for form, run in runs.items():
                    last = tmp_path / form / "commits" / str(max(run.batches))
                    wait_until(last.exists, 60, "the commit log")
                    run.query.stop()
            if step % 3 == 0 and step:  # while they run, and while they do not
                gone = some.choice(list(sizes))
                everything += offsets_of(broker, [gone])
                broker.admin.delete_topic(gone)
                del sizes[gone]
            if step % 3 == 1:
                sizes[f"{topic}-{step}"] = count = some.randint(1, 3)
                broker.admin.create_topic(f"{topic}-{step}", count)
            elif step % 3 == 2:
                grown = some.choice(list(sizes))
                sizes[grown] += some.randint(1, 2)
                broker.admin.add_partitions(grown, sizes[grown])
            for name, count in sizes.items():
                written += sum(produce(broker.bootstrap, name, 10 * count, partitions=count).values())
            if step == 6:
                runs = started(runs)
            for run in runs.values():
                run.wait_for_rows(written)
    finally:
        for run in runs.values():
            run.query.stop()
    everything = sorted(everything + offsets_of(broker, sizes))
    assert {form: places(run) for form, run in runs.items()} == dict.fromkeys(FORMS, everything)
    assert len({name for name, _, _ in everything}) == len(sizes) + 2


def offsets_of(broker: Broker, topics: Iterable[str]) -> list[tuple[str, int, int]]:
    """Every offset of these topics."""
    ends = {(name, number): end for name in topics for number, end in broker.admin.ends(name).items()}
    return [(*place, offset) for place, end in ends.items() for offset in range(end)]


def test_available_now_ends_where_the_logs_ended(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """What comes while it runs, also in a new partition, is for the next run, in both."""
    found: dict[str, Any] = {}
    for form in FORMS:
        name = filled(broker, f"{topic}-{form}", 2, 10)
        runs = [
            Stepped(spark, options(broker, name, maxOffsetsPerTrigger=10, **QUICK), tmp_path / form, form=form)
            for _ in range(2)
        ]

        def more(batch_id: int, name: str = name) -> None:
            if batch_id == 0:
                broker.admin.add_partitions(name, 3)
                produce(broker.bootstrap, name, 15, partitions=3, first=10)

        for run in runs:
            run.then = more
            run.finish()
        found[form] = [[place[1:] for place in places(run)] for run in runs]
    assert found["cohort"] == found["kafka"]
    assert [len(rows) for rows in found["cohort"]] == [20, 15]


def test_an_uncommitted_batch_of_available_now(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """Read again as it was planned, though there are more records and a partition by now; then the rest."""
    found: dict[str, Any] = {}
    for form in FORMS:
        name = filled(broker, f"{topic}-{form}", 2, 10)
        source = options(broker, name, maxOffsetsPerTrigger=8)
        first = Stepped(spark, source, tmp_path / form, form=form)

        def fail(batch_id: int) -> None:
            if batch_id == 1:
                raise RuntimeError("fails as it is told")

        first.then = fail
        assert "fails as it is told" in first.failure()
        broker.admin.add_partitions(name, 3)
        produce(broker.bootstrap, name, 15, partitions=3, first=10)
        again = Stream(spark, source, tmp_path / form, form=form).finish()
        assert min(again.batches) == 1
        assert by_batch(again)[0] == by_batch(first)[1]
        found[form] = by_batch(again)[0], [place[1:] for place in places(again)]
    assert found["cohort"] == found["kafka"]
    assert len(found["cohort"][1]) == 35 - 8


def test_deletion_under_a_pattern(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """With failOnDataLoss=false the other topics go on, and new ones come; else both end by Spark's condition."""
    lost: dict[str, str] = {}
    for form in FORMS:
        prefix = f"{topic}-{form}"
        for letter in "ab":
            filled(broker, f"{prefix}-{letter}", 2, 10)
        source = options(broker, prefix, subscribe=None, subscribePattern=f"^{prefix}-.", group__id=prefix, **QUICK)
        strict = Stream(spark, source, tmp_path / f"{form}-strict", form=form, trigger=ASAP).start()
        tolerant = Stream(
            spark,
            source | {"failOnDataLoss": "false", "group.id": f"{prefix}-false"},
            tmp_path / f"{form}-tolerant",
            form=form,
            trigger=ASAP,
        )
        with tolerant:
            for run in (strict, tolerant):
                run.wait_for_rows(40)
            broker.admin.delete_topic(f"{prefix}-b")
            lost[form] = error(lambda strict=strict: strict.query.awaitTermination(90))  # type: ignore[misc]
            produce(broker.bootstrap, f"{prefix}-a", 20, partitions=2, first=10)
            filled(broker, f"{prefix}-c", 1, 10)
            tolerant.wait_for_rows(70)
        assert [name[-1] for name, _, _ in places(tolerant)] == ["a"] * 40 + ["b"] * 20 + ["c"] * 10
        assert len(set(places(tolerant))) == 70
    for form, message in lost.items():
        assert LOST[form] in message
        assert f"{topic}-{form}-b-1" in message
        assert "have been deleted" in message


def test_a_topic_that_may_not_be_read_for_a_while(
    spark: SparkSession, guarded: Broker, topic: str, tmp_path: Path
) -> None:
    """Under a pattern with failOnDataLoss=false: ours ends and names it, then goes on there; Spark's own reads it again."""
    broker, jaas = (
        guarded,
        f'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{PASSWORD}";',
    )
    with ExitStack() as queries:
        hidden, seen = f"{topic}-b", filled(broker, f"{topic}-a", 1, 10)
        filled(broker, hidden, 1, 10)
        for name in (seen, hidden):
            broker.admin.allow("alice", "topic", name, "read", "describe")
        broker.admin.allow("alice", "group", topic, "read", "describe")
        source = options(broker, topic, subscribe=None, subscribePattern=f"^{topic}-.", failOnDataLoss="false", **QUICK)
        source |= {
            "kafka.bootstrap.servers": broker.sasl_bootstrap,
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": jaas,
        }
        runs = {form: Stream(spark, source, tmp_path / form, form=form, trigger=ASAP) for form in FORMS}
        for run in (runs["cohort"].start(), queries.enter_context(runs["kafka"])):
            run.wait_for_rows(20)
        broker.admin.forbid("alice", "topic", hidden)
        produce(broker.bootstrap, seen, 10, first=10)
        assert f"no permission on topic {hidden}: allow this user READ and DESCRIBE" in runs["cohort"].failure()
        runs["kafka"].wait_for_rows(30)
        broker.admin.allow("alice", "topic", hidden, "read", "describe")
        produce(broker.bootstrap, hidden, 5, first=10)
        again = Stream(spark, source, tmp_path / "cohort", trigger=ASAP, batches=runs["cohort"].batches)
        for run, rows in ((queries.enter_context(again), 35), (runs["kafka"], 35 + 10)):
            found = places(run.wait_for_rows(rows))
            assert set(found) == {(seen, 0, at) for at in range(20)} | {(hidden, 0, at) for at in range(15)}
            assert len(found) == rows


@pytest.mark.parametrize("where", ["read", "unread"])
def test_a_topic_made_anew_with_a_shorter_log(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, where: str
) -> None:
    """Between two runs, or between two batches of AvailableNow: an error in both, that names the topic."""
    said = {}
    for form in FORMS:
        name = filled(broker, f"{topic}-{form}", 3, 10)
        source = options(broker, name, maxOffsetsPerTrigger=15 if where == "unread" else 30, **IMPATIENT)

        def anew(batch_id: int, name: str = name) -> None:
            broker.admin.delete_topic(name)
            filled(broker, name, 3, 1)

        run = Stepped(spark, source, tmp_path / form, form=form)
        run.then = anew if where == "unread" else lambda _: None
        if where == "read":
            run.finish()
            anew(0)
            run = Stepped(spark, source, tmp_path / form, form=form, batches=run.batches)
            run.then = lambda _: None
        said[form] = run.failure()
        assert f"{topic}-{form}" in said[form]
    assert LOST["cohort"] in said["cohort"]
    theirs = (
        "offset was changed from 10 to 1"
        if where == "read"
        else "report available offset which is less than end offset"
    )
    assert theirs in said["kafka"]


@pytest.mark.parametrize("loss", ["true", "false"])
def test_partitions_that_available_now_loses(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, loss: str
) -> None:
    """A topic made anew with fewer partitions between two batches: an error in both, with failOnDataLoss=false in Spark's own alone."""
    said = {}
    for form in FORMS:
        name = filled(broker, f"{topic}-{form}", 3, 10)

        def anew(batch_id: int, name: str = name) -> None:
            if batch_id == 0:
                broker.admin.delete_topic(name)
                filled(broker, name, 1, 8)

        source = options(broker, name, failOnDataLoss=loss, maxOffsetsPerTrigger=15, **IMPATIENT)
        run = Stepped(spark, source, tmp_path / form, form=form)
        run.then = anew
        if (form, loss) == ("cohort", "false"):
            run.finish()
            assert sorted(len(rows) for rows in run.batches.values())[-2:] == [8, 15]
        else:
            said[form] = run.failure()
            assert name in said[form]
    assert "Some of partitions in Kafka topic(s) have been lost" in said["kafka"]
    assert loss == "false" or LOST["cohort"] in said["cohort"]


def test_losses_at_random(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """Records, partitions' beginnings and topics go while both run with failOnDataLoss=false: neither ends, no record comes twice, and the last ones come."""
    some, written = random.Random(21), dict.fromkeys((f"{topic}-{letter}" for letter in "abc"), 0)
    for name in written:
        broker.admin.create_topic(name, 1)
    source = options(
        broker,
        topic,
        subscribe=None,
        subscribePattern=f"^{topic}-.",
        failOnDataLoss="false",
        kafkaConsumer__pollTimeoutMs=1000,
        **QUICK,
        **IMPATIENT,
    )
    runs = [Stream(spark, source, tmp_path / form, form=form, trigger=ASAP) for form in FORMS]
    with runs[0], runs[1]:
        for step in range(12):
            name = some.choice(list(written))
            if step % 4 == 2:
                broker.admin.delete_records(name, {0: broker.admin.ends(name)[0]})
            elif step == 7:  # a name that does not come again: what Spark's own source does then is another scenario
                # Nor does it go under a batch that is planned: Spark's own waits there for longer than this test.
                produce(broker.bootstrap, name, 5, first=written[name])
                for run in runs:
                    wait_for_records(run, {(name, written[name] + 4)})
                broker.admin.delete_topic(name)
                del written[name]
                written[f"{topic}-d"] = 0
                broker.admin.create_topic(f"{topic}-d", 1)
            else:
                produce(broker.bootstrap, name, 20, first=written[name])
                written[name] += 20
        for name, count in written.items():
            produce(broker.bootstrap, name, 5, first=count)
        last = {(name, count + 4) for name, count in written.items()}
        for run in runs:
            wait_for_records(run, last)
            assert len(places(run)) == len(set(places(run)))


def wait_for_records(run: Stream, last: set[tuple[str, int]]) -> None:
    """Until these have come, each a topic and a sequence."""
    wait_until(lambda: last <= {(row.topic, place_of(row.value)[1]) for row in run.rows}, 90, "the last records")


def test_progress_without_records(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """Before the first batch there are no figures of lag in both; with a batch there are, also of a replayed one."""
    spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "1")
    broker.admin.create_topic(topic, 2)
    found: dict[str, list[dict[str, str]]] = {form: [] for form in FORMS}
    try:
        with ExitStack() as running:
            runs = {
                form: running.enter_context(
                    Stream(spark, options(broker, topic), tmp_path / form, form=form, trigger=ASAP)
                )
                for form in FORMS
            }
            for form, run in runs.items():
                found[form].append(figures(form, run, lambda each: each["numInputRows"] == 0))
            produce(broker.bootstrap, topic, 20, partitions=2)
            for form, run in runs.items():
                run.wait_for_rows(20)
                found[form].append(figures(form, run, lambda each: each["batchId"] >= 0 and len(run.rows) == 20))  # noqa: B023
    finally:
        spark.conf.unset("spark.sql.streaming.noDataProgressEventInterval")
    assert found["cohort"] == found["kafka"]
    assert found["cohort"][1]["maxOffsetsBehindLatest"] == "0"


def figures(form: str, run: Stream, wanted: Callable[[Any], bool]) -> dict[str, str]:
    """The metrics of the first progress that is wanted."""
    progress = wait_until(lambda: next((p for p in run.query.recentProgress if wanted(p)), None), 60, "progress")
    metrics = {
        name: value for name, value in progress["sources"][0]["metrics"].items() if name.endswith("OffsetsBehindLatest")
    }
    if form == "kafka":
        return metrics
    behind = offsets_behind_latest(progress)[0]
    if reader_jar():
        assert metrics == behind
    return behind


@pytest.mark.parametrize("when", ["idle", "reading"])
def test_a_query_stops(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, when: str) -> None:
    """As soon as its offsets are known, or in the middle of a batch: both end, without an error."""
    filled(broker, topic, 5, 1)
    for form in FORMS:
        run = Hasty(spark, options(broker, topic, startingOffsets="latest"), tmp_path / form, form=form, trigger=ASAP)
        begun: list[int] = []
        run.then = begun.append
        run.start()
        wait_until((tmp_path / form / "metadata").exists, 60, "the query's beginning")
        wait_until(lambda run=run: "Waiting" in run.query.status["message"], 60, "no new data")  # type: ignore[misc]
        if when == "reading":
            produce(broker.bootstrap, topic, 50_000, partitions=5, first=1)
            wait_until(lambda begun=begun: begun, 60, "a batch")  # type: ignore[misc]
        began = time.monotonic()
        run.query.stop()
        assert time.monotonic() - began < 30
        assert not run.query.isActive
        assert run.query.exception() is None


@pytest.fixture(scope="module")
def frozen() -> Any:
    """A broker of its own, to be paused."""
    with Broker() as running:
        yield running


def test_a_broker_that_does_not_answer(spark: SparkSession, frozen: Broker, topic: str, tmp_path: Path) -> None:
    """For two seconds: both ask again and go on.  For longer than they wait: AvailableNow ends with an error in both, a stream only in Spark's own."""
    filled(frozen, topic, 1, 10)
    patience = {**IMPATIENT, "unreachable__timeout__ms": 8000, "group__id": None}
    source = {form: options(frozen, topic, **patience) | {"group.id": f"{topic}-{form}"} for form in FORMS}
    runs = {form: Stream(spark, source[form], tmp_path / form, form=form, trigger=ASAP) for form in FORMS}
    for run in runs.values():
        run.start().wait_for_rows(10)
    frozen.pause()
    try:
        hold_for(lambda: all(run.query.isActive for run in runs.values()), 2, "both ask again")
        frozen.resume()
        produce(frozen.bootstrap, topic, 10, first=10)
        for run in runs.values():
            run.wait_for_rows(20)
        frozen.pause()
        assert "TimeoutException" in error(lambda: runs["kafka"].query.awaitTermination(120))
        bounded = Stream(spark, source["cohort"] | {"group.id": f"{topic}-bounded"}, tmp_path / "bounded")
        message = error(bounded.finish)
        assert frozen.bootstrap in message
        assert runs["cohort"].query.isActive
    finally:
        frozen.resume()
    produce(frozen.bootstrap, topic, 10, first=20)
    runs["cohort"].wait_for_rows(30)
    runs["cohort"].query.stop()
    assert places(runs["cohort"]) == [(topic, 0, offset) for offset in range(30)]
