"""What ``cohort simulate`` computes: examples by hand, then every figure counted again for random groups."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.assignors import ASSIGNORS, Assignor, Load, MemberSubscription
from sparkcohort.cli.simulate import outcome
from sparkcohort.cli.simulate.case import Case
from sparkcohort.cli.simulate.outcome import simulate
from sparkcohort.runtime.leader import assignment
from sparkcohort.runtime.leader.assignment import InvalidAssignment
from tests.kit import groups
from tests.kit import plain_simulation as plain


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
    {"a": [["t", 0], ("t", np.int64(1))]},
    lambda *_: {"a": {("t", 0)}, "b": iter([("t", 1)])},
    {"a": (("t", False), ("t", True))},
    {"a": None},
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
        said = dict(plan.assignments)
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


def test_loads_move_nothing() -> None:
    """Of two members with four partitions each all that one has is busy: moves for load take an imbalance that lasts."""
    mine, yours = (tuple(("t", number) for number in range(first, 8, 2)) for first in (0, 1))
    members = {
        "a": MemberSubscription(("t",), mine, 1, loads=dict.fromkeys(mine, Load(90.0))),
        "b": MemberSubscription(("t",), yours, 1, loads=dict.fromkeys(yours, Load(1.0))),
    }
    case = Case({"t": 8}, members)
    seen = simulate(case, case, ASSIGNORS["load-balanced"])
    assert (seen.settled, seen.moved, seen.rounds) == (seen.owned_before, 0, 1)
    assert seen.busiest == seen.busiest_before == pytest.approx(1.978, abs=1e-3)


RACKS = st.lists(st.sampled_from("abc"), max_size=2, unique=True)


LOADS = st.builds(Load, st.integers(0, 100).map(float), st.integers(0, 10_000).map(float), st.integers(0, 9))


@st.composite
def cases(draw: st.DrawFn, most: int = 5, people: int = 5) -> Case:
    """Groups with any claims, some with racks and loads."""
    topics = draw(groups.topics(most))
    members = {
        m: replace(s, rack=draw(st.none() | st.sampled_from("abc")))
        for m, s in draw(groups.members(most=people)).items()
    }
    for member, said in members.items():
        loads = {partition: draw(LOADS) for partition in said.owned if draw(st.booleans())}
        members[member] = replace(said, loads=loads)
    racks = {topic: [draw(RACKS) for _ in range(count)] for topic, count in topics.items() if draw(st.booleans())}
    return Case(topics, members, racks)


@given(assignor=st.sampled_from(list(ASSIGNORS.values())), case=cases())
def test_every_figure_is_what_plain_counting_finds(assignor: Assignor, case: Case) -> None:
    """Moves, spread, rack mismatches, what is withheld, the rounds and the pauses, of any group, under every assignor."""
    seen = simulate(case, case, assignor)
    before, answer = plain.owners(case), plain.by_partition(case, seen.assignment)
    rounds = plain.cooperate(assignor, case)
    after = plain.by_partition(case, seen.settled)
    assert json.loads(json.dumps(seen.figures())) == seen.figures()
    assert seen.assignment == plain.at_first(assignor).assign(case.topics, case.members, case.racks)
    assert list(seen.transferring) == [tp for tp, now in answer.items() if now is None]
    assert after == (rounds["now"] if assignor.cooperative else answer)
    assert None not in after.values()
    assert {tp: m for m, mine in seen.owned_before.items() for tp in mine} == {tp: m for tp, m in before.items() if m}
    assert (seen.owned, seen.moved) == (sum(map(bool, before.values())), plain.moved(before, after))
    assert seen.placed == sum(has is None for has in before.values())
    assert (seen.spread_before, seen.spread) == (plain.spread(case, before), plain.spread(case, after))
    assert (seen.rack_mismatches_before, seen.rack_mismatches) == (
        plain.mismatches(case, before),
        plain.mismatches(case, after),
    )
    loads = {tp: load.records for _, said in sorted(case.members.items()) for tp, load in said.loads.items()}
    assert seen.busiest == pytest.approx(plain.busiest(case, loads, after))
    assert seen.paused_eager == len(before)
    assert seen.rounds_cooperative == rounds["rounds"]
    assert {tp: n for n, found in seen.paused_cooperative.items() for tp in found} == rounds["paused"]


@given(case=cases(most=3, people=3).filter(lambda case: len(plain.partitions(case)) <= 6))
def test_the_fewest_moves_are_the_fewest(case: Case) -> None:
    """No complete and balanced assignment of all that there are moves fewer."""
    assert simulate(case, case, ASSIGNORS["range"]).fewest_moves == plain.fewest_moves(case)
