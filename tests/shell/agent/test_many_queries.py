"""One agent for all queries of an executor: their members share a process, and nothing that happens to one is the others'."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, cast

import psutil
import pytest

from sparkcohort.runtime.protocol.messages import JoinGroup, JoinGroupReply
from sparkcohort.runtime.protocol.partitions import Range
from sparkcohort.runtime.shell.agent import prefetch
from sparkcohort.runtime.shell.agent.query_member import QueryMember
from sparkcohort.runtime.shell.agent.task_client import AgentTimeout, TaskClient
from sparkcohort.runtime.shell.rpc.executor import Executor, agent_answers
from tests.kit.agents import PARTITIONS, TOPIC, World, gone, pulled, sockets, start_member
from tests.kit.buffered import buffered
from tests.kit.hello import hello
from tests.kit.mock import MockCluster
from tests.kit.tier import of_tier
from tests.kit.waiting import hold_for, wait_until

QUERIES = of_tier(quick=3, thorough=10)


class Runs:
    """Several runs of coordinators, with one executor."""

    def __init__(self, mock: MockCluster) -> None:
        self.worlds = [World(mock)]
        self._mock = mock
        self.executor = self.worlds[0].executor("1")

    def more(self, number: int) -> None:
        """Other queries of the same application."""
        known = len(self.worlds)
        self.worlds += [World(self._mock, run_id=f"run-{known + n}") for n in range(number)]

    def start(self, world: World, after: psutil.Process | None = None) -> psutil.Process:
        """As a task of this query does; its member owns what it is to own."""
        process = world.start_on(self.executor, after, agent=self.executor.agent_name())
        wait_until(world.settled(), 20, "its member to own the partitions")
        return process

    def close(self) -> None:
        """End everything."""
        for world in self.worlds:
            world.close()


@pytest.fixture
def runs(mock_broker: MockCluster) -> Iterator[Runs]:
    """One query's coordinator, and an executor."""
    running = Runs(mock_broker)
    yield running
    running.close()


def rows(world: World, executor: Executor, plan_seq: int) -> int:
    """How many of eighty rows the agent hands over to a task of this query."""
    wanted = Range(TOPIC, 1, 10, 90)
    return sum(batch.num_rows for _, batch in pulled(world, executor, wanted, plan_seq) if batch is not None)


def flows(world: World, executor: Executor) -> None:
    """What its member owns comes from it."""
    wait_until(lambda: rows(world, executor, 2) == 80, 20, f"rows of {world.run_id}")


@pytest.mark.timeout(240)
def test_queries_have_their_members_in_one_process(runs: Runs) -> None:
    """Each is a member of its own group, owns all of it, and is asked by its own socket, with its own token."""
    runs.more(QUERIES - 1)
    processes = {runs.start(world).pid for world in runs.worlds}
    assert len(processes) == 1
    for world in runs.worlds:
        flows(world, runs.executor)
    first, second = runs.worlds[:2]
    with (
        closing(TaskClient(runs.executor.address(first.run_id), second.authority.client.token, 5)) as stranger,
        pytest.raises(AgentTimeout),
    ):
        hello(stranger)
    flows(first, runs.executor)


def test_queries_that_start_at_the_same_time_start_one_process(runs: Runs) -> None:
    """Whoever comes second leaves its request with a process that isn't up yet, and waits for nothing."""
    runs.more(3)
    for world in runs.worlds:
        assert start_member(runs.executor.agent_name(), world.config(runs.executor))
    found = [
        wait_until(lambda world=world: world.member(runs.executor), 20, "the members")  # type: ignore[misc]
        for world in runs.worlds
    ]
    runs.worlds[0].agents |= {member.pid for member in found}
    assert len({member.pid for member in found}) == 1


def _stop(world: World, _: Executor) -> None:
    world.coordinator.stop()


def _take_its_place(world: World, executor: Executor) -> None:
    """As a second agent of the same executor would: it is told FENCED_INSTANCE_ID."""
    member = next(m for m in world.coordinator.group.members.values() if m.group_instance_id == executor.instance_id())
    taken = world.coordinator.request(
        JoinGroup(
            "", executor.instance_id(), "executor-1", "host", 20_000, 5_000, member.protocols, member.subscription
        ),
        5,
    )
    assert isinstance(taken, JoinGroupReply)


def _vanish(world: World, _: Executor) -> None:
    assert world.relay is not None
    world.relay.close()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("end", of_tier(quick=[_stop], thorough=[_stop, _take_its_place, _vanish]))
def test_a_member_ends_alone(runs: Runs, end: Callable[[World, Executor], None]) -> None:
    """Its sockets, threads and descriptors go with it; the others' members are the same ones, and their rows flow."""
    runs.more(1)
    ending, staying = runs.worlds
    ending.be_behind_relay()
    process = runs.start(staying)
    flows(staying, runs.executor)
    member = staying.member(runs.executor)
    threads, descriptors = process.num_threads(), process.num_fds()
    assert runs.start(ending).pid == process.pid
    flows(ending, runs.executor)
    end(ending, runs.executor)

    wait_until(lambda: not sockets(runs.executor), 30, "its socket to be gone")
    flows(staying, runs.executor)
    # A few of gRPC's and of callers stay with the process, whoever was the reason for them.
    wait_until(lambda: process.num_threads() <= threads + 5, 30, "its threads to be gone")
    wait_until(lambda: process.num_fds() <= descriptors + 4, 30, "its descriptors to be gone")
    assert staying.member(runs.executor) == member


def test_it_ends_after_its_last_member(runs: Runs) -> None:
    """Not with the first one's end, and soon after the last one's."""
    runs.more(1)
    process = runs.start(runs.worlds[0])
    runs.start(runs.worlds[1])
    runs.worlds[0].coordinator.stop()
    wait_until(lambda: not sockets(runs.executor), 10, "the first one to be gone")
    hold_for(lambda: not gone(process), 3, "the process")
    runs.worlds[1].coordinator.stop()
    wait_until(lambda: gone(process), 20, "its end")


def test_what_is_no_request_is_a_line_and_no_more(runs: Runs) -> None:
    """Whatever comes from outside: no member is made of it, and those that are there go on."""
    runs.more(1)
    process = runs.start(runs.worlds[0])
    name, config = runs.executor.agent_name(), runs.worlds[1].config(runs.executor)
    for body in (b"", b"[]", b'{"address": 1}', b"\xff" * 100):
        _send(name, len(body).to_bytes(4, "big") + body)
    _send(name, b"\xff\xff\xff\xff")
    _send(name, b"\x00\x00\x10\x00half")
    flows(runs.worlds[0], runs.executor)
    hold_for(lambda: not agent_answers(config.address), 1, "no member")
    assert runs.start(runs.worlds[1]).pid == process.pid


def _send(name: str, said: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(10)
        asking.connect(f"\0{name}-agent")
        asking.sendall(said)


class Told:
    """Hears of the ends of members in this process."""

    def __init__(self) -> None:
        self.over: list[QueryMember] = []
        self.failed: list[str] = []

    def on_member_ended(self, member: QueryMember) -> None:
        """Nothing is left of it."""
        self.over.append(member)

    def fail(self, reason: str) -> None:
        """The process would end."""
        self.failed.append(reason)


@contextmanager
def members(runs: Runs, host: Told, number: int) -> Iterator[list[QueryMember]]:
    """Members in this process, each of another query."""
    runs.more(number - 1)
    made = [QueryMember(world.config(runs.executor), cast("Any", host)).start() for world in runs.worlds]
    try:
        for world in runs.worlds:
            wait_until(world.settled(), 20, "its member to own the partitions")
        yield made
    finally:
        for member in made:
            member.end("the test is over", leave=True)
        wait_until(lambda: len(host.over) == len(made) or host.failed, 30, "their ends")


def test_a_member_whose_loop_fails_ends_alone(runs: Runs) -> None:
    """Its threads are gone, and its socket; the other one's partitions flow."""
    host = Told()
    with members(runs, host, 2) as (crashing, _):
        both = _threads()

        def crash() -> None:
            raise RuntimeError("whatever nobody has thought of")

        crashing._loop._inbox.put(crash)
        wait_until(lambda: host.over == [crashing], 20, "its end")
        wait_until(lambda: _threads() <= both // 2 + 1, 20, "its threads to be gone")
        assert not agent_answers(crashing.config.address)
        assert len(runs.worlds[1].owned_on(runs.executor)) == PARTITIONS
        flows(runs.worlds[1], runs.executor)
    assert not host.failed
    wait_until(lambda: not _threads(), 20, "all threads to be gone")


def _threads() -> int:
    """How many threads of this process are members'."""
    own = (
        "cohort-member",
        "cohort-call",
        "cohort-events",
        "cohort-prefetch",
        "cohort-local",
        "cohort-line",
        "cohort-ending",
    )
    return sum(thread.name.startswith(own) for thread in threading.enumerate())


def test_a_member_that_can_not_be_ended_ends_the_process(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last resort: a thread that holds connections and memory and doesn't come back."""
    monkeypatch.setattr(prefetch, "CLOSE_S", 0.2)
    host, released = Told(), threading.Event()
    with members(runs, host, 1) as (member,):
        monkeypatch.setattr(member._prefetcher._client.source, "poll", lambda *_: released.wait(60) or [])
        wait_until(lambda: buffered(member._prefetcher), 10, "it to fetch")
        hold_for(lambda: True, 0.3, "the thread in there")
        member.end("asked to", leave=True)
        wait_until(lambda: host.failed, 20, "the host to hear of it")
        assert not host.over
        released.set()
    assert "fetching has not ended" in host.failed[0]
