"""What ``cohort simulate`` computes: examples by hand, and what has to hold for random groups."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.assignors import ASSIGNORS, Assignor, MemberSubscription
from sparkcohort.cli.simulate import outcome
from sparkcohort.cli.simulate.case import Case
from sparkcohort.cli.simulate.outcome import simulate, unowned
from sparkcohort.runtime.leader import assignment
from sparkcohort.runtime.leader.assignment import InvalidAssignment
from sparkcohort.runtime.leader.delayed_rebalance import Round
from tests.kit import groups
from tests.kit.own_assignors import Own, answers, raises


def test_nobody_and_nothing() -> None:
    """No members or no topics: nothing is given, nothing pauses."""
    for case in (Case({"t": 3}, {}), Case({}, {"a": MemberSubscription(("t",))}), Case({"t": 0}, {})):
        for seen in (simulate(case, case, assignor) for assignor in ASSIGNORS.values()):
            assert (seen.moved, seen.placed, seen.fewest_moves, seen.spread) == (0, 0, 0, 0)


WAYS: list[Any] = [
    answers({"a": (("t", 0),), "b": ()}),
    answers({"a": (("t", 0), ("t", 1)), "b": (("t", 1),)}),
    answers({"a": (("t", 0), ("t", 1), ("t", 2)), "b": ()}),
    answers({"a": (("t", 0), ("t", 1)), "b": (("u", 0),)}),
    answers({"a": (("t", 0), ("t", 1)), "z": (("t", 0),)}),
    answers({"a": [["t", 0], ("t", np.int64(1))]}),
    lambda *_: {"a": {("t", 0)}, "b": iter([("t", 1)])},
    answers({"a": (("t", False), ("t", True))}),
    answers({"a": None}),
    answers(None),
    raises(KeyError("x")),
    raises(SystemExit(0)),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("cooperative", [False, True])
def test_an_answer_is_judged_as_the_group_does(way: Any, cooperative: bool) -> None:
    """Lists, numpy's integers, booleans, strangers, what is left out: taken by both, or refused by both in the same words."""
    members = {"a": MemberSubscription(("t",)), "b": MemberSubscription(("t",))}
    case = Case({"t": 2, "u": 1}, members)
    own = Own(way, cooperative=cooperative)
    try:
        plan = assignment.plan(Round("own", (), case.topics, {}, {}), members, {"own": own})
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
    """Gives everything to a, but takes at most ``max_moves`` partitions from b in a round for that."""

    max_moves: int = 1
    name: str = "bounded"
    cooperative: bool = True

    def assign(self, topics: Any, members: Any, racks: Any = None) -> Any:
        """Its answer."""
        kept = members["b"].owned[self.max_moves :]
        free = set(members["b"].owned[: self.max_moves])
        everything = {("t", number) for number in range(topics["t"])}
        return {"a": tuple(sorted(everything - set(kept) - free)), "b": kept}


def test_an_own_assignor_is_asked_as_the_group_asks_it() -> None:
    """In every round as it is, whatever its fields are called."""
    owned = (("t", 0), ("t", 1), ("t", 2))
    case = Case({"t": 3}, {"a": MemberSubscription(("t",)), "b": MemberSubscription(("t",), owned)})
    seen = simulate(case, case, Bounded())
    assert (seen.moved, seen.rounds, seen.settled["a"]) == (3, 4, owned)


RACKS = st.lists(st.sampled_from("abc"), max_size=2, unique=True)


@st.composite
def cases(draw: st.DrawFn, most: int = 5, people: int = 5) -> Case:
    """Groups with any claims, some with racks."""
    topics = draw(groups.topics(most))
    members = {
        m: replace(s, rack=draw(st.none() | st.sampled_from("abc")))
        for m, s in draw(groups.members(most=people)).items()
    }
    racks = {topic: [draw(RACKS) for _ in range(count)] for topic, count in topics.items() if draw(st.booleans())}
    return Case(topics, members, racks)


@given(assignor=st.sampled_from(list(ASSIGNORS.values())), case=cases())
def test_the_figures_of_any_group_fit_together(assignor: Assignor, case: Case) -> None:
    """Each partition has one owner in the end; what an owner had it keeps or moves, the others are placed; sticky moves least."""
    seen = simulate(case, case, assignor)
    everything = len(unowned(case, {}))
    settled = {partition: member for member, mine in seen.settled.items() for partition in mine}
    assert len(settled) == sum(map(len, seen.settled.values())) == everything
    kept = sum(settled[partition] == member for member, mine in seen.before.items() for partition in mine)
    assert (seen.owned - seen.moved, seen.placed) == (kept, everything - seen.owned)
    assert seen.transferring == tuple(unowned(case, seen.assignment))
    assert set(seen.transferring) | set(unowned(case, seen.before)) <= {
        partition for found in seen.pauses.values() for partition in found
    }
    if assignor.name == "cooperative-sticky":
        assert seen.moved == seen.fewest_moves or (case.racks and seen.moved > seen.fewest_moves)


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_the_figures_of_a_newcomer_in_another_rack(assignor: str) -> None:
    """Counted by hand: it gets what has replicas there, which pauses in the second round."""
    owned = tuple(("t", number) for number in range(4))
    members = {"a": MemberSubscription(("t",), owned, 1, rack="x"), "b": MemberSubscription(("t",), rack="y")}
    case = Case({"t": 4}, members, {"t": [["x"], ["x"], ["y"], ["y"]]})
    seen = simulate(case, case, ASSIGNORS[assignor])
    assert seen.settled == {"a": owned[:2], "b": owned[2:]}
    assert (seen.owned, seen.moved, seen.placed, seen.fewest_moves) == (4, 2, 0, 2)
    assert (seen.spread_before, seen.spread, seen.rack_mismatches_before, seen.rack_mismatches) == (4, 0, 2, 0)
    assert (len(seen.transferring), seen.rounds, seen.pauses) == (2, 2, {1: owned[2:]})


def test_the_figures_of_claims_that_contradict_each_other() -> None:
    """The higher generation owns; what nobody owns is placed, and has paused."""
    members = {
        "a": MemberSubscription(("t",), (("t", 0),), 2),
        "b": MemberSubscription(("t",), (("t", 0), ("u", 0)), 1),
    }
    case = Case({"t": 3, "u": 1}, members)
    seen = simulate(case, case, ASSIGNORS["cooperative-sticky"])
    assert seen.before == {"a": (("t", 0),), "b": ()}
    assert (seen.owned, seen.moved, seen.placed, seen.rack_mismatches) == (1, 0, 2, None)
    assert seen.pauses == {1: (("t", 1), ("t", 2))}
