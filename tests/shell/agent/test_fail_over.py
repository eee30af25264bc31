"""A coordinator that is started again finds its members: they keep what they own and what they have fetched."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.coordinator.group_journal import GroupJournal, Predecessor, RunIdentity, take
from tests.kit.agents import PARTITIONS, TOPIC, World, gone, pulled
from tests.kit.waiting import hold_for, wait_until

SESSION_MS = 20_000  # longer than a process takes to start, on any machine
GENERATIONS = 1_000


def journal(world: World, path: Path) -> GroupJournal:
    """The journal of the run that the world has."""
    identity = RunIdentity(world.run_id, world.port, world.authority)
    made = GroupJournal(path, identity, "the members' options", "g")
    world.coordinator.open_journal(made)
    return made


def taken(path: Path) -> Predecessor:
    """What the run before has left."""
    found = take(path, "the members' options", session_timeout_ms=SESSION_MS, patience_s=5)
    assert found is not None
    return found


@pytest.mark.parametrize("how", ["ended", "killed"])
def test_members_come_back_with_all_they_had(world: World, tmp_path: Path, how: str) -> None:
    """Same processes, same partitions under the same generations, a higher one for the group; and rows from before the takeover."""
    world.session_timeout_ms = SESSION_MS
    path = tmp_path / "g.journal"
    kept = journal(world, path)
    executors = [world.start(name) for name in ("1", "2")]
    wait_until(lambda: sorted(world.loads()) == [1, 2], 20, "both to own something")
    for executor, _ in executors:  # its plan begins at 10, from where it has fetched
        partition = world.owned_on(executor)[0].partition
        wait_until(lambda: pulled(world, executor, Range(TOPIC, partition, 10, 90)), 20, "rows")  # noqa: B023
    before = {member: world.owned(member) for member in world.coordinator.members()}
    if how == "ended":
        world.coordinator.stop(for_good=False)
        kept.close(keep=True)
    world.server.stop(2)
    if how == "killed":  # of a process that is gone nothing is said, and its lock is free
        world.coordinator.open_journal(GroupJournal(tmp_path / "none", taken_identity(world), "", ""))
        kept.close(keep=True)
    found = taken(path)
    assert {m: dict(found.group.owned.get(m, {})) for m in before} == before
    assert found.identity == taken_identity(world)
    hold_for(lambda: not any(gone(agent) for _, agent in executors), 1.0, "agents wait without a coordinator")

    old = world.coordinator
    world.begin_again(found.group, GENERATIONS)
    old.stop(for_good=False)
    assert world.coordinator.members().keys() == before.keys(), "known before they have said a word"
    world.plans.seed({TopicPartition(TOPIC, number): 95 for number in range(PARTITIONS)})
    wait_until(lambda: world.coordinator.group.generation > GENERATIONS, 20, "the group's next generation")
    wait_until(lambda: not world.coordinator.group.unsynced, 20, "all to have synced")
    assert {member: world.owned(member) for member in world.coordinator.members()} == before
    assert [gone(agent) for _, agent in executors] == [False, False]
    for executor, agent in executors:
        member = world.member(executor)
        assert member is not None and member.pid == agent.pid
        partition = world.owned_on(executor)[0].partition
        again = pulled(world, executor, Range(TOPIC, partition, 20, 90), plan_seq=3)
        assert sum(batch.num_rows for _, batch in again if batch is not None) == 70, "fetched before the takeover"


def taken_identity(world: World) -> RunIdentity:
    """What members know this world's runs by."""
    return RunIdentity(world.run_id, world.port, world.authority)


def test_a_member_that_died_meanwhile_is_missed_for_a_session(world: World, tmp_path: Path) -> None:
    """Those who are there wait for nobody longer than a session timeout, and then have its partitions."""
    path = tmp_path / "g.journal"
    kept = journal(world, path)
    _, dead = world.start("1")
    world.start("2")
    wait_until(lambda: sorted(world.loads()) == [1, 2], 20, "both to own something")
    world.coordinator.stop(for_good=False)
    kept.close(keep=True)
    world.server.stop(2)
    dead.kill()

    world.begin_again(taken(path).group, GENERATIONS)
    wait_until(lambda: world.loads() == [PARTITIONS], 30, "the other one to have all")
