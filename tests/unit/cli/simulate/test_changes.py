"""Changes of a group for ``cohort simulate``: what they do, what is refused and in which words."""

from __future__ import annotations

import pytest

from sparkcohort.assignors import MemberSubscription
from sparkcohort.cli.simulate.case import Case, CaseError
from sparkcohort.cli.simulate.changes import change_members, change_partitions


def a_case() -> Case:
    """Three members, of which most want one topic."""
    m1, m2 = (MemberSubscription(("orders",), (("orders", number),), 5, f"i{number}") for number in (0, 1))
    m3 = MemberSubscription(("orders", "returns"))
    return Case({"orders": 2, "returns": 1}, {"m1": m1, "m2": m2, "m3": m3}, {"orders": (("a",), ("b",))})


def test_members_come_and_go() -> None:
    """New ones want what most want, under names of their own."""
    case = change_members(a_case(), ["-m1", "+1", "+1@b", "-m2"])
    assert list(case.members) == ["m3", "new-1", "new-2"]
    assert case.members["new-1"] == MemberSubscription(("orders",))
    assert case.members["new-2"].rack == "b"
    assert list(change_members(case, ["+1"]).members)[-1] == "new-3"
    named = change_members(case, ["+executor-9@b"]).members["executor-9"]
    assert (named.topics, named.rack) == (("orders",), "b")
    assert change_members(Case({"t": 1}, {}), ["+1"]).members["new-1"].topics == ("t",)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("-m4", "there is no member 'm4'; did you mean m3?"),
        (f"+{'9' * 5000}", "expected +2 (two more)"),
        ("+1,-m2", "the option may be repeated"),
        ("+m1", "there is a member of this name already"),
        ("+@b", "expected +2 (two more), +2@rack (in that rack), +name (one called so) or -name"),
        ("-", "there is no member ''"),
    ],
)
def test_a_change_of_members_that_can_not_be(change: str, words: str) -> None:
    """Unknown, too many, no change at all."""
    with pytest.raises(CaseError) as error:
        change_members(a_case(), [change])
    assert words in str(error.value)


def test_topics_grow_and_shrink() -> None:
    """Racks of new partitions are unknown, those of partitions that are gone are gone."""
    grown = change_partitions(a_case(), ["orders=3", "returns=0"])
    assert (grown.topics, grown.racks["orders"]) == ({"orders": 3, "returns": 0}, (("a",), ("b",), ()))
    assert change_partitions(grown, ["orders=1"]).racks["orders"] == (("a",),)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("order=3", "there is no topic 'order'; did you mean orders?"),
        ("orders=-3", "expected TOPIC=NUMBER"),
        ("=3", "expected TOPIC=NUMBER"),
        ("orders=5000000", "5,000,001 partitions are too many"),
    ],
)
def test_a_change_of_partitions_that_can_not_be(change: str, words: str) -> None:
    """Unknown topics, what is no number, too many."""
    with pytest.raises(CaseError) as error:
        change_partitions(a_case(), [change])
    assert words in str(error.value)
