"""What ``cohort simulate`` computes: examples by hand; rounds for load beside the leader's own watch."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given

from sparkcohort.assignors import ASSIGNORS, Load, MemberSubscription, Partition, find_assignor
from sparkcohort.assignors.load_balanced import LoadBalancedAssignor
from sparkcohort.cli.simulate import outcome
from sparkcohort.cli.simulate.case import Case, LoadBalance, parse
from sparkcohort.cli.simulate.changes import change_members
from sparkcohort.cli.simulate.outcome import FIGURES, simulate
from sparkcohort.runtime.leader import assignment, imbalance
from sparkcohort.runtime.leader.assignment import InvalidAssignment
from sparkcohort.runtime.protocol.consumer_protocol import decode_assignment
from tests.kit import groups

BOTH = ("t0", "t1")


def kafkas_example() -> Case:
    """Kafka's own: C0 and C1 share t0 and t1 of three partitions each, as cooperative-sticky gave them out."""
    return Case(
        {"t0": 3, "t1": 3},
        {
            "C0": MemberSubscription(BOTH, (("t0", 0), ("t0", 2), ("t1", 1)), 1),
            "C1": MemberSubscription(BOTH, (("t0", 1), ("t1", 0), ("t1", 2)), 1),
        },
    )


def test_a_third_member_comes() -> None:
    """C2: two partitions move in a second round and pause in it; four flow on.  Eagerly all six would stop."""
    base = kafkas_example()
    seen = simulate(base, change_members(base, ["+1"]), find_assignor("cooperative-sticky"))
    assert seen.assignment == {"C0": (("t0", 0), ("t1", 1)), "C1": (("t0", 1), ("t1", 0)), "new-1": ()}
    assert seen.transferring == (("t0", 2), ("t1", 2))
    assert seen.settled == {**seen.assignment, "new-1": (("t0", 2), ("t1", 2))}
    assert (seen.owned, seen.moved, seen.placed, seen.fewest_moves) == (6, 2, 0, 2)
    assert (seen.spread_before, seen.spread, seen.rounds, seen.settles) == (0, 0, 2, True)
    assert (seen.paused_eager, seen.rounds_cooperative) == (6, 2)
    assert seen.paused_cooperative == {1: (("t0", 2), ("t1", 2))}


def test_racks_are_counted_where_both_sides_are_known() -> None:
    """t-0 is in a, its owner in b; of t-1 no rack is known, m3 has none."""
    members = {
        "m1": MemberSubscription(("t",), (("t", 0),), 1, rack="b"),
        "m2": MemberSubscription(("t",), (("t", 1),), 1, rack="b"),
        "m3": MemberSubscription(("t",), (("t", 2),), 1),
    }
    case = Case({"t": 3}, members, {"t": (("a",), (), ("c",))})
    assert simulate(case, case, find_assignor("range")).rack_mismatches_before == 1
    assert simulate(replace(case, racks={}), replace(case, racks={}), find_assignor("range")).rack_mismatches is None


def test_the_busiest_member_is_told_where_loads_are() -> None:
    """30 of 40 records per second on one of two members are 1.5 times the mean; without loads there is none."""
    members = {
        "a": MemberSubscription(("t",), (("t", 0), ("t", 1)), 1, loads={("t", 0): Load(30.0), ("t", 1): Load(5.0)}),
        "b": MemberSubscription(("t",), (("t", 2),), 1, loads={("t", 2): Load(5.0)}),
        "driver": MemberSubscription(()),
    }
    case = Case({"t": 3}, members)
    seen = simulate(case, change_members(case, ["-b"]), find_assignor("range"))
    assert (seen.busiest_before, seen.busiest) == (1.75, 1.0)
    assert simulate(kafkas_example(), kafkas_example(), find_assignor("range")).busiest is None


def test_nobody_and_nothing() -> None:
    """No members or no topics: nothing is given, nothing pauses."""
    for case in (Case({"t": 3}, {}), Case({}, {"a": MemberSubscription(("t",))}), Case({"t": 0}, {})):
        for seen in (simulate(case, case, assignor) for assignor in ASSIGNORS.values()):
            assert (seen.moved, seen.placed, seen.fewest_moves, seen.spread, seen.paused_eager) == (0, 0, 0, 0, 0)


@dataclass(frozen=True)
class Own:
    """An assignor that answers what it is told to."""

    answer: Any
    name: str = "own"
    cooperative: bool = False

    def assign(self, topics: Any, members: Any, racks: Any = None) -> Any:
        """Whatever it is."""
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer(topics, members) if callable(self.answer) else self.answer


ANSWERS: list[Any] = [
    {"a": (("t", 0),), "b": ()},
    {"a": (("t", 0), ("t", 1)), "b": (("t", 1),)},
    {"a": (("t", 0), ("t", 1), ("t", 2)), "b": ()},
    {"a": (("t", 0), ("t", 1)), "b": (("u", 0),)},
    {"a": (("t", 0), ("t", 1)), "z": (("t", 0),)},
    {"a": (("t", 0), ("t", 1)), "z": ()},
    {"a": (("t", 0), ("t", 0), ("t", 1))},
    {"a": [["t", 0], ("t", np.int64(1))]},
    lambda *_: {"a": {("t", 0)}, "b": iter([("t", 1)])},
    {"a": (("t", False), ("t", True))},
    {"a": (("t", 0.0), ("t", 1))},
    {"a": (("t", 2**70), ("t", 1))},
    {"a": "t-0"},
    {"a": None},
    {1: (("t", 0), ("t", 1))},
    [("t", 0)],
    None,
    KeyError("x"),
    SystemExit(0),
]


@pytest.mark.parametrize("answer", ANSWERS, ids=repr)
@pytest.mark.parametrize("cooperative", [False, True])
def test_an_answer_is_judged_as_the_group_does(answer: Any, cooperative: bool) -> None:
    """Lists, numpy's integers, booleans, strangers, what is left out: taken by both, or refused by both in the same words."""
    members = {"a": MemberSubscription(("t",)), "b": MemberSubscription(("t",))}
    case = Case({"t": 2, "u": 1}, members)
    own = Own(answer, cooperative=cooperative)
    try:
        plan = assignment.plan("own", members, case.topics, assignors={"own": own})
        said = {name: tuple(decode_assignment(mine).partitions) for name, mine in plan.assignments}
    except (ValueError, KeyError, SystemExit) as error:
        with pytest.raises(InvalidAssignment) as refused:
            simulate(case, case, own)
        assert str(refused.value) == assignment.failure_message("own", error)
        assert str(refused.value).startswith("assignor own")
    else:
        assert said == simulate(case, case, own).assignment


def test_a_group_that_never_settles_is_said_so() -> None:
    """A cooperative assignor that in every round takes away what its member has, for what it hasn't."""

    def swap(topics: Any, members: Any) -> Any:
        return {"a": tuple(("t", number) for number in (0, 1) if ("t", number) not in members["a"].owned)}

    case = Case({"t": 2}, {"a": MemberSubscription(("t",), (("t", 0),))})
    seen = simulate(case, case, Own(swap, cooperative=True))
    assert (seen.settles, seen.rounds) == (False, outcome.MOST_ROUNDS)


@dataclass(frozen=True)
class Bounded:
    """Gives everything to a, but takes at most ``max_moves`` partitions from b in a round for that; notes who knew loads."""

    max_moves: int = 1
    name: str = "bounded"
    cooperative: bool = True

    def assign(self, topics: Any, members: Any, racks: Any = None) -> Any:
        """Its answer."""
        assert not any(said.loads for said in members.values())
        kept = members["b"].owned[self.max_moves :]
        free = set(members["b"].owned[: self.max_moves])
        everything = {("t", number) for number in range(topics["t"])}
        return {"a": tuple(sorted(everything - set(kept) - free)), "b": kept}


def test_an_own_assignor_is_asked_as_the_group_asks_it() -> None:
    """In every round as it is, whatever its fields are called, and without loads, which the group shows to its own only."""
    owned = (("t", 0), ("t", 1), ("t", 2))
    b = MemberSubscription(("t",), owned, loads=dict.fromkeys(owned, Load(9.0)))
    case = Case({"t": 3}, {"a": MemberSubscription(("t",)), "b": b})
    seen = simulate(case, case, Bounded())
    assert (seen.moved, seen.rounds, seen.settled["a"]) == (3, 4, owned)


def hot(**balance: Any) -> Case:
    """Two members with four partitions each; all that a has is busy."""
    mine, yours = (tuple(("t", number) for number in range(first, 8, 2)) for first in (0, 1))
    members = {
        "a": MemberSubscription(("t",), mine, 1, loads=dict.fromkeys(mine, Load(90.0))),
        "b": MemberSubscription(("t",), yours, 1, loads=dict.fromkeys(yours, Load(1.0))),
    }
    return Case({"t": 8}, members, load_balance=LoadBalance(**balance))


def test_loads_move_nothing_at_once() -> None:
    """A round for another reason moves nothing for load; what then lasts is relieved, in a round that says what it was."""
    case = hot()
    seen = simulate(case, case, find_assignor("load-balanced"))
    assert seen.assignment == seen.owned_before
    assert [(relief.member, relief.partitions) for relief in seen.relieved] == [("a", 2)]
    assert (seen.moved, seen.rounds) == (2, 3)
    assert seen.busiest_before == pytest.approx(1.978, abs=1e-3)
    assert seen.busiest == pytest.approx(1.0, abs=0.02)
    assert seen.figures()["relieved"] == [{"member": "a", "times_mean": pytest.approx(1.9, abs=0.1), "partitions": 2}]


def test_the_options_of_load_balancing_count() -> None:
    """One move a round makes two rounds of two; where nobody carries so much nothing moves."""
    one = simulate(hot(max_moves=1), hot(max_moves=1), find_assignor("load-balanced"))
    assert ([relief.partitions for relief in one.relieved], one.moved) == ([1, 1], 2)
    much = simulate(hot(threshold=2.5), hot(threshold=2.5), find_assignor("load-balanced"))
    assert (much.relieved, much.moved, much.rounds) == ((), 0, 1)


@given(group=groups.carrying())
def test_load_balancing_goes_the_coordinators_way(group: tuple[dict[str, int], groups.Members]) -> None:
    """Round by round what the leader's own memory and watch make of the same group, with the same options."""
    topics, members = group
    case = Case(topics, members)
    seen = simulate(case, case, find_assignor("load-balanced"))
    assert seen.settled == watched(case)


def watched(case: Case) -> dict[str, tuple[Partition, ...]]:
    """Where a group ends that is led as the coordinator leads it, by its watch: a minute passes after every round."""
    threshold, after_ms, max_moves = msgspec.structs.astuple(case.load_balance)
    assignor = LoadBalancedAssignor(threshold=threshold, max_moves=max_moves)
    loads = {partition: load for said in case.members.values() for partition, load in said.loads.items()}
    members, watch, now_ms, rounds = dict(case.members), imbalance.Watch(), 0, 1
    while rounds < 100:
        free = imbalance.has_lasted(watch, now_ms, after_ms)
        known = imbalance.Balance(assignor if free else replace(assignor, max_moves=0), loads)
        plan = assignment.plan(
            "load-balanced", known.with_loads(members), case.topics, assignors={known.assignor.name: known.assignor}
        )
        given = {name: tuple((*tp,) for tp in decode_assignment(mine).partitions) for name, mine in plan.assignments}
        watch = imbalance.record_round(watch) if free else watch
        members, rounds = groups.rejoin(members, given, 10 + rounds), rounds + 1
        if plan.revokes:
            continue
        shown = assignment.assignor_input(imbalance.Balance(assignor, loads).with_loads(members), case.topics)
        watch = imbalance.record_relief(watch, assignor.relief(*shown), now_ms)
        if watch.relief is None or rounds > 60:
            break
        now_ms += after_ms
        watch = imbalance.record_request(watch, now_ms)
    return {name: said.owned for name, said in members.items()}


def test_the_figures_are_plain_values() -> None:
    """That JSON takes."""
    figures = simulate(kafkas_example(), change_members(kafkas_example(), ["+1"]), find_assignor("range")).figures()
    assert json.loads(json.dumps(figures)) == figures
    assert set(FIGURES) < set(figures)


def test_a_group_of_the_size_that_people_have_is_no_matter() -> None:
    """A case of JSON with 10,000 partitions goes all the way through, and its figures are those of its arithmetic."""
    owned: dict[str, Any] = {f"m{n:03}": [["t", p] for p in range(n, 10_000, 100)] for n in range(100)}
    members = {m: {"topics": ["t"], "owned": mine, "generation": 1} for m, mine in owned.items()}
    base = parse(json.dumps({"topics": {"t": 10_000}, "members": members}))
    seen = simulate(base, change_members(base, ["+25"]), find_assignor("cooperative-sticky"))
    assert (seen.moved, seen.fewest_moves, seen.spread, seen.rounds) == (2_000, 2_000, 0, 2)
