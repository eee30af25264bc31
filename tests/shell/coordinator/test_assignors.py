"""Users' own assignors behind the coordinator's port: members keep what they have, whatever the assignor does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from sparkcohort.assignors import MemberSubscription
from sparkcohort.cli import views
from sparkcohort.runtime.leader import delayed_rebalance
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.shell.driver import status
from sparkcohort.runtime.shell.driver.metric_values import values
from tests.kit.own_assignors import Own, answers, raises
from tests.kit.status import a_status
from tests.kit.waiting import wait_until
from tests.shell.coordinator.test_coordinator import PARTITIONS, Member, World, joined

RETRY_MS = 100
Members = Mapping[str, MemberSubscription]


def in_turn(topics: Mapping[str, int], members: Members) -> dict[str, Any]:
    """Partitions to members in turn, whoever has them now: a good answer."""
    takers = sorted(name for name, said in members.items() if said.topics)
    every = [("t", number) for number in range(topics["t"])]
    return {name: every[place :: len(takers)] for place, name in enumerate(takers)}


class Fickle:
    """An assignor that behaves as it is told: ``how`` may be set at any time."""

    def __init__(self) -> None:
        self.how: Callable[..., Any] = in_turn
        self.own = Own(self._assign)

    def _assign(self, topics: Mapping[str, int], members: Members) -> Any:
        return self.how(topics, members)


@pytest.fixture
def fickle(monkeypatch: pytest.MonkeyPatch) -> Fickle:
    """An assignor that behaves well; one that fails is asked again after 0.1 s."""
    monkeypatch.setattr(delayed_rebalance, "RETRY_MS", RETRY_MS)
    return Fickle()


@pytest.fixture
def world(fickle: Fickle) -> Iterator[World]:
    """A group that offers this assignor only; its rebalance timeout is 2 s, so an assignor has 1.6 s."""
    running = World(own=fickle.own)
    yield running
    running.close()


def described(world: World) -> dict[str, Any]:
    """The status of the run."""
    return status.build(
        world.coordinator,
        world.plans,
        status.LogView({}, dict.fromkeys(PARTITIONS, 0), None),
        instance_id="i",
        driver=status.DriverFigures(a_status()["commits"]),
    )


def all_committed(member: Member, before: Mapping[Any, int]) -> bool:
    """Whether the member may commit all of these, at the generations in which it got them."""
    return {member.commit(tp, 5, generation) for tp, generation in before.items()} == {ErrorCode.NONE}


def test_a_users_assignor_rules(world: World) -> None:
    """It says who gets what; what moves is given up first and then handed over, though it is eager and knows nothing of it."""
    a = joined(world, "a")
    b = joined(world, "b", 2)
    first, second = sorted((a, b), key=lambda member: member.member_id)
    wait_until(lambda: set(first.owned) == set(PARTITIONS[::2]), 10, "the first of them to have every other partition")
    wait_until(lambda: set(second.owned) == set(PARTITIONS[1::2]), 10, "the second to have the others")
    assert world.coordinator.group.protocol_name == "own"
    assert described(world)["assignor_failure"] is None


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (raises(OSError("no such database")), "assignor own raised OSError: no such database"),
        (answers(None), "assignor own: it returned None, not a dict"),
    ],
)
def test_one_that_fails_moves_nothing_and_is_asked_again(
    world: World, fickle: Fickle, how: Callable[..., Any], words: str
) -> None:
    """Who is there keeps all and commits, who comes waits empty-handed, everything tells of it; then it is made good."""
    a = joined(world, "a")
    before, fickle.how = dict(a.owned), how
    b = Member(world, "b")
    seen = wait_until(lambda: described(world)["assignor_failure"] and described(world), 10, "the failure to be told")
    wait_until(lambda: b.generation >= seen["generation"], 10, "b to be in the group")
    assert (a.owned, b.owned) == (before, {})
    assert all_committed(a, before)
    assert seen["assignor_failure"]["error"].startswith(words)
    assert 0 < seen["assignor_failure"]["retry_in_ms"] <= RETRY_MS << 3
    assert views.notes(seen)[0].startswith(f"group g: {words}")
    samples = dict(values(seen)["cohort_assignor_failures_total"])
    assert samples["own",] == seen["failed_rebalances"]["own"] >= 1
    wait_until(
        lambda: described(world)["failed_rebalances"]["own"] > samples["own",], 10, "it to be asked again in vain"
    )
    assert a.owned == before

    fickle.how = in_turn
    wait_until(lambda: len(a.owned) == len(b.owned) == 2, 10, "both to have their share")
    assert described(world)["assignor_failure"] is None
    ended = [entry.result for entry in world.coordinator.history.entries() if entry.result.startswith("failed")]
    assert len(ended) == described(world)["failed_rebalances"]["own"]
    assert {result.startswith(f"failed: {words}") for result in ended} == {True}
    reasons = described(world)["rebalance_totals"]["by_reason"]
    assert reasons["assignor_retry"]["count"] >= 2
