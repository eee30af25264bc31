"""Brokers that go away and come back, as a query sees it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparkcohort.runtime.shell import connection
from tests.support.broker import Broker, Cluster
from tests.support.delivery import check, held
from tests.support.produce import produce
from tests.support.streams import ASAP, Stream, options
from tests.support.waiting import wait_until

AWAY_S = 10.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two brokers, topics of one replica; the first is controller and group coordinator and stays."""
    with Cluster(2) as running:
        yield running


def spread_topic(cluster: Cluster, topic: str, records: int) -> str:
    """A topic of four partitions, 1 and 3 of them on the second broker."""
    cluster.admin.create_topic(topic, assignment=[1, 2, 1, 2])
    produce(cluster.bootstrap, topic, records, partitions=4)
    return topic


def back_after(cluster: Cluster, seconds: float) -> threading.Thread:
    """Bring the second broker back in a while."""
    bringing = threading.Timer(seconds, cluster.node(2).start)
    bringing.start()
    return bringing


@pytest.mark.timeout(240)
def test_available_now_waits_for_a_broker_that_is_away_for_ten_seconds(
    spark: SparkSession, cluster: Cluster, topic: str, checkpoint: Path
) -> None:
    """The query started while two partitions cannot be reached ends when all of their records are delivered."""
    spread_topic(cluster, topic, 4_000)
    cluster.node(2).stop()
    bringing = back_after(cluster, AWAY_S)
    began = time.monotonic()
    run = Stream(spark, options(cluster, topic), checkpoint).finish(150)
    bringing.join()

    assert time.monotonic() - began >= AWAY_S
    check(run.delivered(), held(cluster.bootstrap, [topic])).assert_exact()


@pytest.mark.timeout(240)
def test_available_now_names_the_partitions_that_stay_away_beyond_the_deadline(
    spark: SparkSession, cluster: Cluster, topic: str, checkpoint: Path
) -> None:
    """After unreachable.timeout.ms the error names option and partitions; started again later, nothing is lost."""
    spread_topic(cluster, topic, 4_000)
    source = options(
        cluster, topic, unreachable__timeout__ms=6000, startingOffsets=json.dumps({topic: dict.fromkeys("0123", 0)})
    )
    cluster.node(2).stop()
    try:
        first = Stream(spark, source, checkpoint)
        message = first.failure()
    finally:
        cluster.node(2).start()

    assert "unreachable.timeout.ms" in message
    assert f"{topic}-1" in message
    assert f"{topic}-3" in message
    assert f"{topic}-0" not in message.split("cannot be reached", 1)[1].split("Their brokers")[0]
    again = Stream(spark, source, checkpoint, batches=first.batches).finish(150)
    check(again.delivered(), held(cluster.bootstrap, [topic])).assert_exact()


@pytest.mark.timeout(300)
def test_the_other_partitions_flow_while_a_broker_is_away(
    spark: SparkSession, cluster: Cluster, topic: str, checkpoint: Path
) -> None:
    """Held are only the partitions of the dead broker; back again, they catch up."""
    spread_topic(cluster, topic, 400)
    with Stream(spark, options(cluster, topic), checkpoint, trigger=ASAP) as run:
        run.wait_for_rows(400)
        cluster.node(2).stop()
        produce(cluster.bootstrap, topic, 100, partitions=1, first=100)
        run.wait_for_rows(500)
        cluster.node(2).start()
        produce(cluster.bootstrap, topic, 100, partitions=4, first=1_000)
        run.wait_for_rows(600)
    check(run.delivered(), held(cluster.bootstrap, [topic])).assert_exact()


@pytest.mark.timeout(240)
def test_fail_means_an_error_that_names_the_partitions(
    spark: SparkSession, cluster: Cluster, topic: str, checkpoint: Path
) -> None:
    """unreachable.partitions=fail ends a query whose broker goes away, not one whose broker is a moment late."""
    spread_topic(cluster, topic, 400)
    source = options(cluster, topic, unreachable__partitions="fail")
    run = Stream(spark, source, checkpoint, trigger=ASAP).start().wait_for_rows(400)
    cluster.node(2).stop()
    try:
        message = run.failure()
    finally:
        cluster.node(2).start()

    assert "unreachable.partitions=fail" in message
    assert f"{topic}-1" in message


@pytest.mark.timeout(300)
def test_a_query_survives_a_broker_that_is_stopped_for_ten_seconds(
    spark: SparkSession, topic: str, checkpoint: Path, tmp_path: Path
) -> None:
    """The only broker away and back: the query goes on, and its members' group has not even noticed."""
    with Broker() as broker:
        broker.admin.create_topic(topic, 4)
        produce(broker.bootstrap, topic, 400, partitions=4)
        with Stream(spark, options(broker, topic), checkpoint, trigger=ASAP) as run:
            run.wait_for_rows(400)
            before = generation(topic)
            broker.stop()
            away = threading.Timer(AWAY_S, broker.start)
            away.start()
            away.join()
            produce(broker.bootstrap, topic, 400, partitions=4, first=100)
            run.wait_for_rows(800)
            assert before == generation(topic)
            wait_until(
                lambda: all(at == 200 for at in broker.admin.committed(topic).values()), 30, "the commits to catch up"
            )
        check(run.delivered(), held(broker.bootstrap, [topic])).assert_exact()


def generation(group: str) -> int:
    """The generation of the group, once its member has joined."""
    (found,) = connection.find(group)
    status = wait_until(lambda: _with_members(found), 60, "a member")
    return int(status["generation"])


def _with_members(found: connection.Connection) -> dict[str, int] | None:
    status = connection.fetch_status(found)
    return status if status["members"] and status["state"] == "Stable" else None
