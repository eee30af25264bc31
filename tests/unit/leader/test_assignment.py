"""The leader: subscriptions in, partitions out, and no plan that breaks a promise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from sparkcohort import assignors
from sparkcohort.assignors import ASSIGNORS, MemberSubscription, Partition
from sparkcohort.assignors.api import NO_RACKS, Racks
from sparkcohort.assignors.solver.packed import Packed
from sparkcohort.assignors.sticky import balance_partitions
from sparkcohort.runtime.leader import assignment
from sparkcohort.runtime.leader.delayed_rebalance import Round
from sparkcohort.runtime.protocol.messages import JoinedMember, Subscription
from sparkcohort.runtime.protocol.partitions import TopicPartition
from tests.kit import groups
from tests.kit.own_assignors import Own


def joined(member: str, said: MemberSubscription) -> JoinedMember:
    """A member as the coordinator hands it to the leader."""
    return JoinedMember(member, said.instance_id or member, Subscription(said.topics, rack=said.rack or ""))


def known(members: groups.Members) -> dict[str, dict[TopicPartition, int]]:
    """What the coordinator knows of each member's partitions."""
    return {
        m: {TopicPartition(*p): said.since.get(p, said.generation) for p in said.owned} for m, said in members.items()
    }


def a_round(name: str, topics: Mapping[str, int], **more: Any) -> Round:
    """A round of this assignor."""
    return Round(name, (), topics, {}, {}, **more)


def planned(
    name: str, members: groups.Members, topics: Mapping[str, int], **more: Any
) -> dict[str, tuple[TopicPartition, ...]]:
    """What the leader gives these members."""
    said = assignment.subscriptions([joined(*item) for item in members.items()], known(members))
    return dict(assignment.plan(a_round(name, topics, **more), said).assignments)


@pytest.mark.parametrize("name", ASSIGNORS)
@given(topics=groups.topics(), members=groups.members())
def test_whatever_the_assignor_nobody_starts_what_another_holds(
    name: str, topics: dict[str, int], members: groups.Members
) -> None:
    """Law I1 with every assignor, the eager range included; and everybody is answered."""
    result = planned(name, members, topics)
    assert list(result) == sorted(members)
    for member, partitions in result.items():
        for partition in partitions:
            others = [m for m, said in members.items() if m != member and partition in said.owned]
            assert not others or partition in members[member].owned


def test_a_partition_that_the_coordinator_knows_to_be_owned_is_held_back() -> None:
    """Whatever the members' metadata claims."""
    members = {"a": MemberSubscription(("t",), tuple(("t", p) for p in range(4)), 3), "b": MemberSubscription(("t",))}
    assert planned("cooperative-sticky", members, {"t": 4}) == {"a": (("t", 0), ("t", 1)), "b": ()}


@dataclass(frozen=True)
class Fixed:
    """An assignor that always answers the same."""

    answer: Mapping[str, tuple[Partition, ...]]
    name: str = "fixed"
    cooperative: bool = False
    asked: list[str] = field(default_factory=list)

    def assign(
        self, topics: Mapping[str, int], members: Mapping[str, MemberSubscription], racks: Racks = NO_RACKS
    ) -> dict[str, tuple[Partition, ...]]:
        """Answer whatever is asked."""
        self.asked.append(f"{len(topics)} topics, {len(members)} members")
        return dict(self.answer)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"a": (("t", 0),)}, "t-1 is given to nobody, though a subscribes to t"),
        ({"a": (("t", 0), ("t", 1)), "b": (("t", 1),)}, "t-1 is given to both a and b"),
        ({"a": (("t", 0), ("t", 1)), "z": (("u", 0),)}, "u-0 is given to z, who is not in the group"),
        ({"a": (("t", 0), ("t", 2))}, "t-2 is given to a, but doesn't exist"),
        ({"driver": (("t", 0),)}, "t-0 is given to driver, who doesn't subscribe to t"),
    ],
)
def test_a_bad_plan_is_refused_with_the_assignors_name(
    monkeypatch: pytest.MonkeyPatch, answer: Mapping[str, tuple[Partition, ...]], problem: str
) -> None:
    """Incomplete, shared, of strangers, not existing, not subscribed: each has its own words."""
    monkeypatch.setitem(assignors.ASSIGNORS, "fixed", Fixed(answer))
    both = MemberSubscription(("t",))
    with pytest.raises(assignment.InvalidAssignment, match=f"^assignor fixed: {problem}$"):
        planned("fixed", {"a": both, "b": both, "driver": MemberSubscription(())}, {"t": 2, "u": 1})


@dataclass(frozen=True)
class Careless:
    """The cooperative one, but it forgets a partition, or gives one to somebody who doesn't want it."""

    to: int
    name: str = "careless"
    cooperative: bool = True

    def assign(
        self, topics: Mapping[str, int], members: Mapping[str, MemberSubscription], racks: Racks = NO_RACKS
    ) -> Packed:
        """By places, as the assignors that come with this package answer."""
        target = balance_partitions(topics, members)
        return Packed(target.space, np.where(target.member == 0, self.to, target.member), target.ownership)


@pytest.mark.parametrize(
    ("to", "problem"),
    [
        (-1, "t-0 is given to nobody, though a subscribes to t"),
        (1, "t-0 is given to b, who doesn't subscribe to t"),
    ],
)
def test_a_bad_plan_is_refused_however_it_is_written(monkeypatch: pytest.MonkeyPatch, to: int, problem: str) -> None:
    """What an assignor answers by places is looked through like any other answer."""
    monkeypatch.setitem(assignors.ASSIGNORS, "careless", Careless(to))
    with pytest.raises(assignment.InvalidAssignment, match=f"^assignor careless: {problem}$"):
        planned("careless", {"a": MemberSubscription(("t",)), "b": MemberSubscription(("u",))}, {"t": 1, "u": 1})


def test_racks_go_with_the_partitions_that_are_read() -> None:
    """Of partitions 1 and 3, numbered 0 and 1 for the assignor, each goes where its replica is."""
    members = {rack: MemberSubscription(("t",), rack=rack) for rack in ("x", "y")}
    racks = {"t": [["x"], ["y"], ["x"], ["x"]], "unread": [["x"]]}
    result = planned("sticky", members, {"t": 4}, subset={"t": [1, 3]}, racks=racks)
    assert result == {"x": (("t", 3),), "y": (("t", 1),)}
    result = planned("sticky", members, {"t": 4}, racks={"t": [["y"], ["y"], ["x"], ["x"]]})
    assert result == {"x": (("t", 2), ("t", 3)), "y": (("t", 0), ("t", 1))}


def test_members_that_an_assignor_leaves_out_get_an_empty_assignment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody waits for an answer, so everybody gets one."""
    monkeypatch.setitem(assignors.ASSIGNORS, "fixed", Fixed({"a": (("t", 0),)}))
    assert planned("fixed", dict.fromkeys("ba", MemberSubscription(("t",))), {"t": 1}) == {"a": (("t", 0),), "b": ()}


def test_keeping_moves_nothing() -> None:
    """When no plan can be had, everybody keeps what it is known to have and nobody gets anything new."""
    since = {"a": {TopicPartition("t", 5): 4, TopicPartition("t", 0): 3}}
    members = [joined(name, MemberSubscription(("t",))) for name in "ab"]
    assert dict(assignment.keep_owned(members, since)) == {"a": (("t", 0), ("t", 5)), "b": ()}


def test_nothing_for_a_stranger_is_nothing() -> None:
    """An own assignor may remember members that are gone, as long as they get nothing."""
    own = {"fixed": Fixed({"a": (("t", 0),), "gone": ()})}
    given = assignment.plan(a_round("fixed", {"t": 1}), {"a": MemberSubscription(("t",))}, own).assignments
    assert dict(given) == {"a": (("t", 0),)}


@pytest.mark.parametrize("name", ASSIGNORS)
@given(topics=groups.topics(), members=groups.members())
def test_an_own_assignor_may_leave_it_to_a_built_in_one(
    name: str, topics: dict[str, int], members: groups.Members
) -> None:
    """What a built-in one returns is an answer like any other, and comes to the same plan."""
    own = {"own": Own(ASSIGNORS[name].assign, "own", ASSIGNORS[name].cooperative)}
    assert assignment.plan(a_round("own", topics), members, own) == assignment.plan(a_round(name, topics), members)


def test_an_eager_own_assignor_gives_out_all_at_once() -> None:
    """What an eager one leaves out is forgotten; what a cooperative one leaves out may have to be given up first."""
    said = {"a": MemberSubscription(("t",), owned=(("t", 1),), generation=3)}
    own = {"fixed": Fixed({"a": (("t", 0),)})}
    with pytest.raises(assignment.InvalidAssignment, match=r"^assignor fixed: t-1 is given to nobody, though"):
        assignment.plan(a_round("fixed", {"t": 2}), said, own)
    own = {"fixed": Fixed({"a": (("t", 0),)}, cooperative=True)}
    assert assignment.plan(a_round("fixed", {"t": 2}), said, own).revokes


def test_topics_read_in_part_are_shared_in_part() -> None:
    """Of partitions 3, 7 and 8, the only ones read, two members get all and nothing else; claims of others are dropped."""
    members = {
        "a": MemberSubscription(("t",), owned=(("t", 0), ("t", 7)), generation=4, since={("t", 0): 4, ("t", 7): 4}),
        "b": MemberSubscription(("t",)),
    }
    result = planned("cooperative-sticky", members, {"t": 9}, subset={"t": [3, 7, 8]})

    assert {3, 7, 8} == {tp.partition for partitions in result.values() for tp in partitions}
    assert TopicPartition("t", 7) in result["a"]


def test_what_no_longer_exists_withholds_nothing_else() -> None:
    """Partitions of somebody who is waited for may be gone with their topic: all others are given out."""
    members = {"a": MemberSubscription(("t",))}
    stays = dict(
        assignment.assign_free(a_round("range", {"t": 3}), members, withheld=[("gone", 0), ("t", 7), ("t", 1)])
    )
    assert stays == {"a": (("t", 0), ("t", 2))}


def barred_from(*numbers: int) -> list[TopicPartition]:
    """Partitions of topic t."""
    return [TopicPartition("t", number) for number in numbers]


def decided(name: str, members: groups.Members, barred: assignment.Barred, **more: Any) -> dict[str, list[int]]:
    """The partitions of topic t that a plan gives to each member."""
    plan = planned(name, members, {"t": 6}, barred=barred, **more)
    return {member: [tp.partition for tp in mine] for member, mine in plan.items()}


@pytest.mark.parametrize("name", ASSIGNORS)
def test_nobody_gets_what_it_is_barred_from(name: str) -> None:
    """It goes to who has least, whatever the assignor; once the others have it, nothing moves in the rounds to come."""
    barred = {"a": barred_from(*range(6)), "b": barred_from(0)}
    fresh = decided(name, {member: MemberSubscription(("t",)) for member in "abc"}, barred)
    assert fresh["a"] == [] and 0 not in fresh["b"]
    assert sorted(fresh["b"] + fresh["c"]) == list(range(6)) and abs(len(fresh["b"]) - len(fresh["c"])) <= 1
    owned = {member: tuple(("t", number) for number in mine) for member, mine in fresh.items()}
    members = {member: MemberSubscription(("t",), owned[member], 1) for member in "abc"}
    again = decided(name, members, barred)
    assert again["a"] == [] and 0 not in again["b"]
    if name in ("sticky", "cooperative-sticky", "load-balanced"):
        assert again == fresh


def test_who_is_barred_gives_up_before_another_starts() -> None:
    """Law I1 holds for what moves for this reason, too: first nobody has it, then the other."""
    members = {
        "a": MemberSubscription(("t",), tuple(("t", number) for number in range(3)), 1),
        "b": MemberSubscription(("t",), tuple(("t", number) for number in range(3, 6)), 1),
    }
    first = decided("cooperative-sticky", members, {"a": barred_from(1)})
    assert first["a"] == [0, 2] and 1 not in first["b"]
    members["a"] = MemberSubscription(("t",), (("t", 0), ("t", 2)), 2)
    assert 1 in decided("cooperative-sticky", members, {"a": barred_from(1)})["b"]


def test_what_nobody_can_fetch_stays() -> None:
    """Then the fault is not the member's; who isn't there any more, and what isn't, is nobody's concern."""
    members = {member: MemberSubscription(("t",)) for member in "ab"}
    everybody = dict.fromkeys("ab", barred_from(*range(6)))
    plain = decided("range", members, {})
    assert decided("range", members, everybody) == plain
    assert decided("range", members, {"gone": barred_from(1), "a": barred_from(77, -1)}) == plain


def test_partitions_read_in_part_are_barred_by_their_own_numbers() -> None:
    """With ``subset`` assignors count otherwise than Kafka."""
    members = {member: MemberSubscription(("t",)) for member in "ab"}
    given = decided("range", members, {"a": barred_from(3)}, subset={"t": [3, 5]})
    assert given == {"a": [], "b": [3, 5]}


def test_what_is_free_does_not_go_to_who_is_barred_while_somebody_is_waited_for() -> None:
    """Nobody gives anything up then, not even who can't fetch it."""
    members = {
        "a": MemberSubscription(("t",), (("t", 0),), 1),
        "b": MemberSubscription(("t",), (("t", 1), ("t", 2)), 1),
    }
    said = assignment.subscriptions([joined(*item) for item in members.items()], known(members))
    given = dict(assignment.assign_free(a_round("range", {"t": 4}, barred={"a": barred_from(0, 3)}), said))
    assert {member: [tp.partition for tp in mine] for member, mine in given.items()} == {"a": [0], "b": [1, 2, 3]}
