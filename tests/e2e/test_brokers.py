"""Brokers that go away and come back, while queries read from them."""

from __future__ import annotations

import pytest

from tests.kit.application import Application, Query, Status
from tests.kit.broker import Broker, Cluster
from tests.kit.delivery import check, from_parquet, held, rows_of_partitions
from tests.kit.produce import produce
from tests.kit.streams import AVAILABLE_NOW, options
from tests.kit.tier import of_tier
from tests.kit.waiting import hold_for, wait_until

AWAY_S = 6.0
LIMIT_S = 240


@pytest.fixture
def topic_of_both(pair: Cluster, topic: str) -> str:
    """A topic with partition 0 on the first broker and partition 1 on the second, 1,000 records in each."""
    pair.admin.create_topic(topic, assignment=[1, 2])
    produce(pair.bootstrap, topic, 2_000, partitions=2)
    return topic


def _wait_for_rows(query: Query, expected: dict[int, int]) -> None:
    query.wait(lambda: rows_of_partitions(query.out) == expected, LIMIT_S, f"rows per partition: {expected}")


def _policy(application: Application, pair: Cluster, topic: str, policy: str) -> Query:
    """A query with this ``unreachable.partitions`` that has read what there is."""
    source = options(pair, topic, unreachable__partitions=policy, group__id=f"{topic}-{policy}")
    query = application.start(f"{topic}-{policy}", source)
    _wait_for_rows(query, {0: 1_000, 1: 1_000})
    return query


def _away(pair: Cluster) -> None:
    """Stop the second broker and wait until the first knows."""
    pair.node(2).stop()
    wait_until(lambda: pair.admin.brokers() == {1}, LIMIT_S, "the cluster to see that broker 2 is away")


def _unreachable(status: Status) -> set[int]:
    return {row["partition"] for row in status["partitions"] if row["unreachable"]}


@pytest.mark.thorough("more ways to lose a broker")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("when", ["at its start", "between two batches"])
def test_available_now_waits_for_a_broker(
    application: Application, pair: Cluster, topic_of_both: str, when: str
) -> None:
    """A bounded query while a broker is away for some seconds reads what it can, waits, and delivers everything."""
    source = options(pair, topic_of_both, maxOffsetsPerTrigger=400)
    if when == "at its start":
        _away(pair)
    query = application.start(topic_of_both, source, trigger=AVAILABLE_NOW, gate=0)
    if when == "between two batches":
        query.wait_for("begin", 1)
        _away(pair)
    query.allow(1 << 60)
    hold_for(lambda: not query.events("ended"), AWAY_S, "the query goes on")
    pair.start()
    assert query.end() is None
    check(from_parquet(query.out), held(pair.bootstrap, [topic_of_both])).assert_exact()


@pytest.mark.thorough("more ways to lose a broker")
@pytest.mark.timeout(600)
def test_available_now_gives_up_after_its_deadline(application: Application, pair: Cluster, topic_of_both: str) -> None:
    """Away for longer than unreachable.timeout.ms: the query ends with an error that names partition and option."""
    source = options(pair, topic_of_both, unreachable__timeout__ms=3_000)
    with_checkpoint = application.start(topic_of_both, source, trigger=AVAILABLE_NOW)
    assert with_checkpoint.end() is None
    _away(pair)
    for name in (topic_of_both, f"{topic_of_both}-new"):
        error = application.start(name, source, trigger=AVAILABLE_NOW).end()
        assert error is not None
        assert f"{topic_of_both}-1" in error and f"{topic_of_both}-0" not in error
        assert "unreachable.timeout.ms" in error


@pytest.mark.timeout(600)
def test_the_others_flow_while_one_broker_is_away(application: Application, pair: Cluster, topic_of_both: str) -> None:
    """hold: only the unreachable partitions wait; wait: all of them do; fail: an error names them."""
    policies = of_tier(quick=["hold"], thorough=["hold", "wait", "fail"])
    queries = {policy: _policy(application, pair, topic_of_both, policy) for policy in policies}
    _away(pair)
    if "fail" in queries:
        error = queries.pop("fail").end()
        assert error is not None and f"{topic_of_both}-1" in error and "unreachable.partitions" in error

    produce(pair.bootstrap, topic_of_both, 500, partitions=1, first=1_000)
    hold = queries["hold"]
    _wait_for_rows(hold, {0: 1_500, 1: 1_000})
    hold.wait_for_status(lambda status: _unreachable(status) == {1}, "partition 1 to be shown as unreachable")
    if wait := queries.get("wait"):
        hold_for(lambda: rows_of_partitions(wait.out) == {0: 1_000, 1: 1_000}, 2, "everything waits", every_s=0.5)
    assert not any(query.events("ended") for query in queries.values())

    pair.start()
    produce(pair.bootstrap, topic_of_both, 1_000, partitions=2, first=1_500)
    everything = held(pair.bootstrap, [topic_of_both])
    for query in queries.values():
        _wait_for_rows(query, {0: 2_000, 1: 1_500})
        query.stop()
        check(from_parquet(query.out), everything).assert_exact()


@pytest.mark.thorough("more ways to lose a broker")
@pytest.mark.timeout(600)
def test_the_only_broker_is_away(application: Application, topic: str) -> None:
    """Some seconds without any broker: the query survives, and the executors' group does not even rebalance."""
    with Broker() as broker:
        broker.fill(topic, 3_000, 3)
        query = application.start(topic, options(broker, topic))
        before = query.wait_for_members(3)
        query.wait_for_no_lag()
        broker.stop()
        hold_for(lambda: not query.events("ended"), AWAY_S, "the query goes on")
        broker.start()
        produce(broker.bootstrap, topic, 3_000, partitions=3, first=1_000)
        everything = held(broker.bootstrap, [topic])
        _wait_for_rows(query, dict.fromkeys(range(3), 2_000))
        after = query.wait_for_no_lag()
        query.stop()
    assert after["generation"] == before["generation"]
    assert [member["member_id"] for member in after["members"]] == [member["member_id"] for member in before["members"]]
    assert [member["owned"] for member in after["members"]] == [member["owned"] for member in before["members"]]
    check(from_parquet(query.out), everything).assert_exact()
