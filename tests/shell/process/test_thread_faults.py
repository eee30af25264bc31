"""Every call of every background thread fails once: all goes on, and nothing is held for good."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.agent.agent_config import to_json
from sparkcohort.runtime.shell.driver import group_commits
from sparkcohort.runtime.shell.driver.group_commits import GroupCommits
from sparkcohort.runtime.shell.driver.log_ends import LogEnds
from sparkcohort.runtime.shell.options.parse import SourceOptions, parse
from sparkcohort.runtime.shell.rpc.executor import start_agent
from tests.kit.agents import TOPIC, World, gone, pulled, sockets
from tests.kit.broker import Broker
from tests.kit.faults import INSIDE
from tests.kit.mock import MockCluster
from tests.kit.produce import produce
from tests.kit.thread_faults import ThreadFaults
from tests.kit.waiting import wait_until

LIMIT_S = 90
LONG = pytest.mark.thorough("each call of a thread fails once")


def options_of(bootstrap: str, topic: str) -> SourceOptions:
    """Options under which metadata is looked at often."""
    return parse(
        {"kafka.bootstrap.servers": bootstrap, "group.id": topic, "subscribe": topic, "metadata.max.age.ms": "100"}
    )


@contextmanager
def log_ends(options: SourceOptions) -> Iterator[LogEnds]:
    """Started."""
    ends = LogEnds(options)
    try:
        ends.start()
        yield ends
    finally:
        ends.close()


@pytest.mark.timeout(240)
def test_log_ends_go_on(mock_broker: MockCluster, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends are current again, no partition is held, new partitions would be found."""
    mock_broker.create_topic(topic, 3)
    with log_ends(options_of(mock_broker.bootstrap, topic)) as ends:
        faults = ThreadFaults(monkeypatch, "cohort-cluster")
        wait_until(lambda: ends.refresh(0.05).partitions and faults.quiet(), LIMIT_S, "each call to have failed once")
        produce(mock_broker.bootstrap, topic, 30, partitions=3)
        wait_until(lambda: set(ends.refresh(0.2).ends.values()) == {10}, 10, "the new ends")
        assert ends.refresh(1).unreachable == {}
    assert len(faults.struck) > 8, faults.struck


@pytest.mark.timeout(420)
@pytest.mark.parametrize("thread", ["cohort-group-commits", "cohort-kafka-group"])
@LONG
def test_commits_go_on(thread: str, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The membership is one again, with another client, and what was committed last is in the group."""
    monkeypatch.setattr(group_commits, "COMMIT_S", 1.0)
    monkeypatch.setattr(group_commits, "RETRY_S", 0.05)
    monkeypatch.setattr(
        group_commits, "START_S", 150.0
    )  # each call of the machine is one more fault, and one more client
    broker.admin.create_topic(topic)
    options, tp, offsets = options_of(broker.bootstrap, topic), TopicPartition(topic, 0), itertools.count(1)
    with log_ends(options) as ends:
        commits = GroupCommits(options, ends)
        faults = ThreadFaults(monkeypatch, thread)
        try:
            commits.open()
            commits.begin({tp: 0})

            def committing() -> bool:
                commits.commit({tp: next(offsets)}, generation=0, final=False)
                return faults.quiet()

            wait_until(committing, LIMIT_S, "each call to have failed once")
            faults.armed = False
            last = next(offsets)
            commits.commit({tp: last}, generation=0, final=True)
            assert broker.admin.committed(topic)[topic, 0] == last
            assert commits.failure() is None
        finally:
            commits.close()
    assert len(faults.struck) > 8, faults.struck


@pytest.fixture
def world(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Its agents find our faults."""
    world.session_timeout_ms, world.paths = 20_000, [str(INSIDE)]
    monkeypatch.syspath_prepend(str(INSIDE))
    return world


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "thread", ["cohort-prefetch", *(pytest.param(each, marks=LONG) for each in ("cohort-call", "cohort-events"))]
)
def test_an_agent_goes_on(thread: str, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It joins, owns, and serves what it owns."""
    told = tmp_path / "struck"
    monkeypatch.setenv("COHORT_THREAD_FAULTS", f"{thread}:{told}")
    executor = world.executor("1")
    start_agent(executor.address("run"), to_json(world.config(executor)), world.paths)
    wait_until(world.settled(), LIMIT_S, "the agent to own the partitions")
    wanted = Range(TOPIC, 1, 10, 90)

    def served() -> int:
        return sum(batch.num_rows for _, batch in pulled(world, executor, wanted) if batch is not None)

    wait_until(lambda: served() == 80, LIMIT_S, "what it owns")
    assert len(told.read_text().splitlines()) > 1
    assert world.settled()() and sockets(executor)
    world.executors[0].kill()
    wait_until(lambda: not sockets(executor), 30, "it to end with its executor")


@pytest.mark.timeout(240)
def test_an_agent_whose_own_loop_fails_is_replaced(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the member was at is not known any more: it ends, and the next one takes its place."""
    executor, agent = world.start("1")
    wait_until(world.settled(), LIMIT_S, "the agent to own the partitions")
    agent.kill()
    wait_until(lambda: gone(agent), 10, "the agent to be gone")
    told = tmp_path / "struck"
    monkeypatch.setenv("COHORT_THREAD_FAULTS", f"cohort-member:{told}")
    address, said = executor.address("run"), to_json(world.config(executor))
    wait_until(lambda: start_agent(address, said, world.paths), 10, "an agent to be allowed")
    wait_until(told.exists, LIMIT_S, "its loop to fail")
    wait_until(lambda: not sockets(executor), 30, "it to be gone")
    monkeypatch.delenv("COHORT_THREAD_FAULTS")
    world.start_on(executor, agent)
    wait_until(world.settled(), LIMIT_S, "the next one to own the partitions")
