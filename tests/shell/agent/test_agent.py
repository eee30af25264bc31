"""The member agent as a process: it joins, serves, and is gone when there is no reason left to be."""

from __future__ import annotations

import resource
import socket
from contextlib import suppress
from dataclasses import replace

import psutil

from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.messages import (
    CommittedPosition,
    OffsetCommit,
    OffsetCommitReply,
)
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.agent.task_frames import address
from sparkcohort.runtime.shell.rpc.executor import Executor, agent_answers
from tests.kit.agents import TOPIC, World, gone, pulled, sockets, start_member
from tests.kit.rebalances import rebalances_of
from tests.kit.waiting import wait_until


def test_an_agent_joins_owns_prefetches_and_commits_what_it_handed_over(world: World) -> None:
    """Its partitions are served from where the plan ended, and the position is committed under its generation."""
    executor, _ = world.start("1")
    wait_until(world.settled(), 10, "the agent to own the partitions")
    wanted = Range(TOPIC, 1, 10, 90)
    pieces = wait_until(lambda: pulled(world, executor, wanted), 20, "the agent to have fetched its positions")

    assert sum(batch.num_rows for _, batch in pieces if batch is not None) == 80
    assert pieces[-1][0] == 90
    tp = TopicPartition(TOPIC, 1)
    wait_until(lambda: tp in world.coordinator.group.committed, 5, "the position to be committed")
    assert world.coordinator.group.committed[tp].offset == 90


def test_it_ends_at_once_when_its_executor_is_killed_and_its_partitions_move(world: World) -> None:
    """SIGKILL of the executor: the agent leaves by itself, long before a session would expire; no socket stays."""
    world.session_timeout_ms = 120_000
    first, agent = world.start("1")
    _, _ = world.start("2")
    wait_until(lambda: len(set(world.coordinator.owners().values())) == 2, 10, "both to own something")
    world.executors[0].kill()

    wait_until(lambda: len(set(world.coordinator.owners().values())) == 1 and world.settled()(), 30, "the move")
    wait_until(lambda: gone(agent), 5, "the agent to be gone")
    wait_until(lambda: not sockets(first), 5, "its sockets to be gone")


def test_a_frozen_agent_loses_its_partitions_and_comes_back_empty_handed(world: World) -> None:
    """SIGSTOP past the session: out; SIGCONT: it rejoins as a new member."""
    executor, agent = world.start("1")
    wait_until(world.settled(), 10, "the agent to own the partitions")
    before = set(world.coordinator.members())
    agent.suspend()
    wait_until(lambda: not world.coordinator.members(), 10, "its session to expire")
    agent.resume()

    wait_until(lambda: world.coordinator.members() and world.settled()(), 20, "the agent to be back")
    assert not before & set(world.coordinator.members())
    assert executor.address("run") in {info.address for info in world.coordinator.members().values()}


def test_an_instance_id_is_one_executors() -> None:
    """It is called after the executor, and is another for every other process, also on a host with the same ids."""
    executor = Executor(7, 100, "3", "host", 2)
    assert executor.instance_id().startswith("executor-3-")
    assert replace(executor, cores=4).instance_id() == executor.instance_id()
    others = [replace(executor, pid=8), replace(executor, started=9), replace(executor, host="other")]
    assert len({other.instance_id() for other in [executor, *others]}) == 4


def test_an_agent_started_again_takes_its_place_over_without_a_rebalance(world: World) -> None:
    """SIGKILL of the agent alone: its successor has the same partitions in the same generation, and goes on after them."""
    world.session_timeout_ms = 20_000  # longer than a process takes to start, on any machine
    executor, agent = world.start("1")
    world.start("2")
    wait_until(lambda: sorted(world.loads()) == [1, 2], 10, "both to own something")
    before = world.member(executor)
    assert before is not None
    owned, generation = world.owned(before.member_id), world.coordinator.group.generation
    rebalances, moved = (
        len(rebalances_of(world.coordinator)),
        world.coordinator.history.rebalance_totals.partitions_moved,
    )
    agent.kill()
    again = world.start_on(executor, agent)

    after = world.member(executor)
    assert after is not None and after.member_id != before.member_id
    assert world.owned(after.member_id) == dict.fromkeys(owned, generation)
    assert world.coordinator.group.generation == generation
    assert len(rebalances_of(world.coordinator)) == rebalances
    wanted = Range(TOPIC, min(owned).partition, 10, 90)
    pieces = wait_until(lambda: pulled(world, executor, wanted), 20, "it to have fetched its positions")
    assert sum(batch.num_rows for _, batch in pieces if batch is not None) == 80
    wait_until(lambda: world.coordinator.group.committed.get(wanted.tp), 5, "the position to be committed")

    late = OffsetCommit(
        before.member_id, executor.instance_id(), generation, (CommittedPosition(*wanted.tp, 99, generation),)
    )
    reply = world.coordinator.request(late, 5)
    assert isinstance(reply, OffsetCommitReply)
    assert reply.partitions[0][1] is ErrorCode.FENCED_INSTANCE_ID
    again.terminate()
    wait_until(lambda: len(set(world.coordinator.owners().values())) == 1 and world.settled()(), 5, "the move")
    assert world.coordinator.history.rebalance_totals.partitions_moved - moved <= len(owned), (
        "nothing counted as moved by the takeover"
    )


def test_of_many_tasks_that_start_an_agent_exactly_one_does(world: World) -> None:
    """The lock lets one through and is held for the agent's life; after it a new one may start."""
    executor, agent = world.start("1")
    config = world.config(executor)

    assert not any(start_member(config.address, config) for _ in range(5))
    assert agent_answers(config.address)
    agent.kill()
    wait_until(lambda: not agent_answers(config.address), 5, "the socket to be gone")
    wait_until(lambda: start_member(config.address, config), 5, "another agent to be allowed")
    wait_until(lambda: agent_answers(config.address), 20, "the other agent to listen")
    others = wait_until(
        lambda: [info for info in world.coordinator.members().values() if info.pid != agent.pid], 20, "it to join"
    )
    world.agents |= {info.pid for info in others}


def test_it_is_no_child_of_the_worker_that_started_it(world: World) -> None:
    """A Python worker lives on for other tasks and waits for nobody: an agent of its own would end as a zombie there."""
    _, agent = world.start("1")

    assert agent.pid not in {child.pid for child in psutil.Process().children()}


def test_sigterm_makes_it_leave(world: World) -> None:
    """An agent that is told to end by the system leaves the group before it goes, and says why."""
    world.session_timeout_ms = 60_000  # a member that is out of the group before has left
    _, agent = world.start("1")
    wait_until(world.settled(), 40, "the agent to own the partitions")
    (name,) = world.coordinator.members()
    agent.terminate()

    wait_until(lambda: not world.coordinator.members(), 40, "it to have left")
    wait_until(lambda: gone(agent), 40, "the agent to be gone")
    assert dict(world.coordinator.group.former_members)[name].startswith("it left: terminated")


def test_an_agent_that_can_serve_nobody_ends_and_is_replaced(world: World) -> None:
    """Without a descriptor it ends by itself, and the next task's agent takes its place over."""
    world.session_timeout_ms = 20_000
    executor, agent = world.start("1")
    before = resource.prlimit(agent.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(agent.pid, resource.RLIMIT_NOFILE, (agent.num_fds(), before[1]))
    asking: list[socket.socket] = []

    def ended() -> bool:
        # Not one connection: the accept that waits has its descriptor already, and what it had open for a moment is free.
        asking.append(connected(executor))
        return gone(agent)

    try:
        wait_until(ended, 60, "the agent to end", every_s=0.2)
    finally:
        for each in asking:
            each.close()
    world.start_on(executor, agent)


def connected(executor: Executor) -> socket.socket:
    """A connection to the executor's agent, accepted or not."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    with suppress(BlockingIOError, ConnectionRefusedError):  # nobody accepts, or the agent has ended
        connection.connect(address(executor.address("run")))
    return connection
