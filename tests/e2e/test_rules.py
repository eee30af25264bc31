"""The rules on a real Prometheus, against queries broken on purpose.

Scrapes are five seconds apart, so that a value which stands for less is not seen.  Limits and windows are as shipped; only
``for`` is four seconds instead of minutes (``quick_rules``).  An age of minutes is that of records with old timestamps.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.streaming import StreamingQuery

from tests.chaos.campaign import left_open
from tests.kit import streams
from tests.kit.application import Application, Query
from tests.kit.broker import Broker, Cluster
from tests.kit.command import cohort
from tests.kit.jars import reader_jar
from tests.kit.ports import free_port
from tests.kit.produce import Steady, open_transaction, produce, value_of
from tests.kit.prometheus import Prometheus, alerting
from tests.kit.streams import ASAP, Stream
from tests.kit.waiting import hold_for, wait_until

pytestmark = [pytest.mark.thorough("needs a Prometheus server"), pytest.mark.timeout(900)]

LIMIT_S = 240.0
SESSION_MS = 6_000


def options(broker: Cluster, topic: str, port: int, **more: Any) -> dict[str, str]:
    """A query of this topic whose metrics are at this port."""
    given = {"metrics__port": port, "session__timeout__ms": SESSION_MS, "heartbeat__interval__ms": 1_000, **more}
    return streams.options(broker, topic, **given)


def scraped(server: Prometheus, port: int) -> bool:
    """Whether the driver at this port has been scraped."""
    return bool(server.query(f'cohort_up{{instance="127.0.0.1:{port}"}} == 1'))


def take_overs(query: Query) -> dict[str, int]:
    """The drivers that have given way to this one."""
    status = query.wait_for_status(lambda _: True, "a status")
    found: dict[str, int] = status["take_overs"]
    return found


def test_two_drivers_of_one_group(
    application: Application, other: Application, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """The older one is gone before any scrape sees that it was fenced; the newer one counts it.  A restart is no fencing."""
    ports = [free_port(), free_port()]
    broker.fill(topic, 100, 2)
    with alerting(tmp_path, *ports) as server:
        older = application.start(topic, options(broker, topic, ports[0]))
        older.wait_for("batch", 0)
        wait_until(lambda: scraped(server, ports[0]), LIMIT_S, "a scrape of the older driver", every_s=1.0)
        assert "CohortFenced" not in server.firing()
        newer = other.start(topic, options(broker, topic, ports[1]))
        error = str(older.end())
        assert "FENCED_INSTANCE_ID" in error and f"in group {topic}" in error and "give each its own group.id" in error
        server.wait_for_alert("CohortFenced")
        assert take_overs(newer) == {"handover": 0, "fencing": 1}
        newer.stop()
        again = other.start(topic, options(broker, topic, ports[1]))
        again.wait_for_no_lag()
        assert take_overs(again) == {"handover": 0, "fencing": 0}
        again.stop()


def test_a_stranger_ends_the_query(application: Application, broker: Broker, topic: str, tmp_path: Path) -> None:
    """The query that counted it has ended; the alert fires all the same."""
    port = free_port()
    broker.fill(topic, 100, 2)
    with alerting(tmp_path, port) as server:
        # The session is the time in which the stranger ends the query: long enough for two scrapes.
        query = application.start(topic, options(broker, topic, port, session__timeout__ms=12_000))
        query.wait_for("batch", 0)
        wait_until(lambda: scraped(server, port), LIMIT_S, "a scrape", every_s=1.0)
        assert "CohortForeignMember" not in server.firing()
        conf = {"bootstrap.servers": broker.bootstrap, "group.id": topic, "partition.assignment.strategy": "range"}
        stranger = Consumer(conf | {"client.id": "the-stranger"})
        stranger.subscribe([topic])

        def ended() -> bool:
            stranger.poll(0.1)
            return bool(query.events("ended"))

        wait_until(ended, LIMIT_S, "the end of the query")
        stranger.close()
        error = str(query.end())
        assert "client the-stranger (127.0.0.1)" in error and f"in group {topic}" in error
        assert "stop that consumer, or give this query a group.id of its own" in error
        server.wait_for_alert("CohortForeignMember")


def test_agents_that_die_and_freeze(application: Application, broker: Broker, topic: str, tmp_path: Path) -> None:
    """The driver counts the one that was started again, and the tasks that got no answer."""
    port = free_port()
    broker.admin.create_topic(topic, 6)
    with alerting(tmp_path, port) as server, Steady(broker.bootstrap, topic, partitions=6, rate=300):
        query = application.start(topic, options(broker, topic, port, agent__timeout__ms=2_000))
        status = query.wait_for_members(3)
        wait_until(lambda: scraped(server, port), LIMIT_S, "a scrape", every_s=1.0)
        assert not {"CohortAgentRestarts", "CohortAgentsTimeOut"} & server.firing()
        killed, frozen, _ = (member["pid"] for member in status["members"])
        os.kill(killed, signal.SIGKILL)
        server.wait_for_alert("CohortAgentRestarts")
        os.kill(frozen, signal.SIGSTOP)
        try:
            server.wait_for_alert("CohortAgentsTimeOut")
        finally:
            if psutil.pid_exists(frozen):
                os.kill(frozen, signal.SIGCONT)
        wait_until(lambda: flapped(query, server, "CohortMemberFlapping"), 2 * LIMIT_S, "CohortMemberFlapping")
        wait_until(lambda: flapped(query, server, "CohortRebalancesOften"), 2 * LIMIT_S, "CohortRebalancesOften")
        query.stop()


def flapped(query: Query, server: Prometheus, name: str) -> bool:
    """Whether this alert fires after one more member was silent for a session and has come back."""
    agent = query.wait_for_members(3)["members"][0]["pid"]
    os.kill(agent, signal.SIGSTOP)
    try:
        query.wait_for_status(lambda status: agent not in pids(status), "the member to be given up")
    finally:
        if psutil.pid_exists(agent):
            os.kill(agent, signal.SIGCONT)
    return name in server.firing()


def pids(status: dict[str, Any]) -> set[int]:
    """The processes of the group's members."""
    return {member["pid"] for member in status["members"]}


def test_a_group_that_waits_for_a_silent_member(
    application: Application, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """A member with a session of two minutes is silent in a rebalance: the group is not at rest for most of the time since."""
    port = free_port()
    broker.admin.create_topic(topic, 6)
    with alerting(tmp_path, port) as server, Steady(broker.bootstrap, topic, partitions=6, rate=60):
        slow = {"session__timeout__ms": 120_000, "rebalance__timeout__ms": 120_000}
        query = application.start(topic, options(broker, topic, port, **slow))
        status = query.wait_for_members(3)
        wait_until(lambda: scraped(server, port), LIMIT_S, "a scrape", every_s=1.0)
        assert "CohortGroupNotStable" not in server.firing()
        leaves, silent, _ = (member["pid"] for member in status["members"])
        os.kill(silent, signal.SIGSTOP)
        try:
            os.kill(leaves, signal.SIGTERM)
            server.wait_for_alert("CohortGroupNotStable")
        finally:
            os.kill(silent, signal.SIGCONT)
        query.stop()


def test_bad_records_a_failing_assignor_and_a_transaction_left_open(
    application: Application, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """What others do wrong, in one query, which goes on."""
    port = free_port()
    broker.fill(topic, 20, 2)  # values that are no JSON
    given = {"value__format": "json", "value__schema": "a INT", "kafka__isolation__level": "read_committed"}
    failing = {"partition__assignment__strategy": "tests.kit.own_assignors:FAILING"}
    query = application.start(topic, options(broker, topic, port, **given, **failing))
    query.wait_for_no_lag()  # before the first scrape
    with alerting(tmp_path, port) as server:
        server.wait_for_alert("CohortBadRecords")
        server.wait_for_alert("CohortAssignorFails")
        assert "CohortTransactionOpen" not in server.firing()
        left_open = open_transaction(broker.bootstrap, topic, 10, 17, partition=1)
        server.wait_for_alert("CohortTransactionOpen")
        left_open.abort_transaction(30)
        wait_until(lambda: "CohortTransactionOpen" not in server.firing(), LIMIT_S, "its end", every_s=1.0)
        query.stop()


def test_a_broker_that_leads_a_partition_and_the_group_falls_silent(
    application: Application, pair: Cluster, topic: str, tmp_path: Path
) -> None:
    """The other broker's partition is read on: what is read can't be committed to Kafka, for minutes."""
    port = free_port()
    pair.admin.create_topic(topic, assignment=[1, 2])
    with alerting(tmp_path, port) as server, Steady(pair.bootstrap, topic, partitions=[1], rate=20):
        query = application.start(topic, options(pair, topic, port))
        query.next_batches(2)
        wait_until(lambda: scraped(server, port), LIMIT_S, "a scrape", every_s=1.0)
        assert not {"CohortPartitionHeld", "CohortCommitsFail", "CohortCommitsOld"} & server.firing()
        pair.node(1).pause()
        server.wait_for_alert("CohortPartitionHeld")
        server.wait_for_alert("CohortCommitsFail")
        query.next_batches(2)
        server.wait_for_alert("CohortCommitsOld", 2 * LIMIT_S)
        pair.node(1).resume()
        wait_until(lambda: "CohortCommitsOld" not in server.firing(), LIMIT_S, "the commit", every_s=1.0)
        query.stop()


@pytest.mark.usefixtures("listener")
def test_a_sink_that_hangs(
    spark: SparkSession, broker: Broker, topic: str, checkpoint: Path, port: int, tmp_path: Path
) -> None:
    """Before it reads, and after: what the batch in flight waits for; meanwhile the lag grows, and retention comes near."""
    broker.admin.create_topic(topic, 2)
    old = int(time.time() - 600) * 1000
    read, end = threading.Event(), threading.Event()

    def write(batch: DataFrame, number: int) -> None:
        assert number == 0 or read.wait(2 * LIMIT_S)
        batch.collect()
        assert number == 0 or end.wait(2 * LIMIT_S)

    produce(broker.bootstrap, topic, 20, partitions=2, timestamp_ms=old)
    source = Stream(spark, options(broker, topic, port), checkpoint).load()
    writer = source.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint)).trigger(**ASAP)
    with alerting(tmp_path, port) as server:
        query = writer.start()
        try:
            wait_until(lambda: caught_up(broker, topic), LIMIT_S, "the first batch")
            # Ages are those of records that an agent has fetched: it has to be there before them.
            wait_until(lambda: described(topic, "--members").get("partitions") == 2, LIMIT_S, "an agent", every_s=1.0)
            wait_until(lambda: scraped(server, port), LIMIT_S, "a scrape", every_s=1.0)
            assert not {"CohortBatchHangs", "CohortLagGrows", "CohortRetentionNear"} & server.firing()
            produce(broker.bootstrap, topic, 20, partitions=2, first=10, timestamp_ms=old)
            before = wait_until(lambda: described(topic, "--state")["batch"], LIMIT_S, "the batch that hangs")
            server.wait_for_alert("CohortLagGrows")
            broker.admin.delete_records(topic, {0: 10, 1: 10})  # what was read, and nothing that was not
            server.wait_for_alert("CohortRetentionNear")
            server.wait_for_alert("CohortBatchHangs")
            hung = described(topic, "--state")["batch"]
            owed = hung["ranges_owed"]  # the batch's number comes with its first task
            assert hung["ranges_delivered"] == 0 and owed in (1, 2)
            assert hung["waits_for"].startswith(f"tasks that have not begun and are to read {topic}-")
            assert hung["age_ms"] > max(60_000, before["age_ms"])
            read.set()
            wait_until(lambda: "CohortBatchHangs" not in server.firing(), LIMIT_S, "records, which end it", every_s=1.0)
            server.wait_for_alert("CohortBatchHangs")
            hung = described(topic, "--state")["batch"]
            assert (hung["number"], hung["ranges_delivered"], hung["ranges_owed"]) == (1, owed, 0)
            assert hung["waits_for"].startswith("the sink") and not hung["may_be_over"]
            end.set()
            wait_until(lambda: caught_up(broker, topic, 40), LIMIT_S, "the batch's end")
            wait_until(lambda: "CohortBatchHangs" not in server.firing(), LIMIT_S, "its end", every_s=1.0)
        finally:
            read.set()
            end.set()
            query.stop()


@pytest.mark.skipif(not reader_jar(), reason="the jar counts what is written (COHORT_READER)")
def test_a_sink_whose_brokers_are_slow_and_then_away(
    spark: SparkSession, broker: Broker, topic: str, checkpoint: Path, port: int, tmp_path: Path
) -> None:
    """They answer now and then while the query is behind; then never within the time that it gives them, run after run."""
    old, calm = int(time.time() - 600) * 1000, threading.Event()
    broker.admin.create_topic(topic)
    with Broker() as target, alerting(tmp_path, port) as server:
        target.admin.create_topic(topic)

        def start() -> StreamingQuery:
            source = Stream(spark, options(broker, topic, port), checkpoint).load().select("value")
            writer = source.writeStream.format("cohort").option("kafka.bootstrap.servers", target.bootstrap)
            writer = writer.option("kafka.delivery.timeout.ms", "20000").option("kafka.request.timeout.ms", "5000")
            writer = writer.option("topic", topic).option("checkpointLocation", str(checkpoint))
            return writer.trigger(**ASAP).start()

        def be_slow() -> None:
            while not calm.is_set():
                produce(broker.bootstrap, topic, 20, timestamp_ms=old)
                target.pause()
                calm.wait(3)
                target.resume()
                calm.wait(0.3)

        query, slow = start(), threading.Thread(target=be_slow)
        try:
            wait_until(lambda: scraped(server, port), LIMIT_S, "a scrape", every_s=1.0)
            assert not {"CohortSinkWaiting", "CohortSinkFailing"} & server.firing()
            slow.start()
            server.wait_for_alert("CohortSinkWaiting")
            calm.set()
            slow.join()
            target.pause()
            produce(broker.bootstrap, topic, 20, timestamp_ms=old)
            for _ in range(3):
                with pytest.raises(StreamingQueryException, match=r"kafka\.(delivery\.timeout|max\.block)\.ms"):
                    query.awaitTermination(int(LIMIT_S))
                query = start()
            server.wait_for_alert("CohortSinkFailing")
        finally:
            calm.set()
            target.resume()
            query.stop()


@pytest.mark.skipif(not reader_jar(), reason="the jar counts what is written (COHORT_READER)")
def test_a_sink_whose_transactions_come_near_to_their_time_out(
    spark: SparkSession, broker: Broker, topic: str, checkpoint: Path, port: int, tmp_path: Path
) -> None:
    """Its brokers stand still amid a batch for more than half of that time; the batch is committed all the same."""
    rows, gate = 20_000, tmp_path / "gate"
    last = value_of(0, rows - 1)

    def pass_on(value: bytes) -> bytes:
        if value == last:
            wait_until(gate.exists, LIMIT_S, "the gate")
        return value

    broker.admin.create_topic(topic)
    produce(broker.bootstrap, topic, rows)  # before the query, which has them all in its first batch
    late = udf(pass_on, "binary", useArrow=False)("value").alias("value")
    with Broker() as target, alerting(tmp_path, port) as server:
        target.admin.create_topic(topic)
        sink = {"kafka.bootstrap.servers": target.bootstrap, "topic": topic, "kafka.transaction.timeout.ms": "40000"}
        sink |= {"delivery.guarantee": "exactly-once", "sink.id": topic}
        source = Stream(spark, options(broker, topic, port), checkpoint).load().select(late)
        writer = source.writeStream.format("cohort").options(**sink)
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(**ASAP).start()
        try:
            wait_until(lambda: scraped(server, port), LIMIT_S, "a scrape", every_s=1.0)
            wait_until(lambda: left_open(sink), LIMIT_S, "a task's transaction")
            assert "CohortSinkTransactionsOld" not in server.firing()
            target.pause()
            gate.touch()
            hold_for(lambda: query.isActive, 22, "the query")
            target.resume()
            server.wait_for_alert("CohortSinkTransactionsOld")
            wait_until(lambda: caught_up(broker, topic, rows), LIMIT_S, "the batch's end")
        finally:
            gate.touch()
            target.resume()
            query.stop()


def described(group: str, rows: str) -> Any:
    """The first row of ``cohort describe`` with this flag."""
    return (json.loads(cohort("describe", "--group", group, rows, "--output", "json").stdout or "[]") or [{}])[0]


def caught_up(broker: Broker, group: str, records: int = 20) -> bool:
    """Whether Kafka's group has so many records of all."""
    return sum(broker.admin.committed(group).values()) == records
