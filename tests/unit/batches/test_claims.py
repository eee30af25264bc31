"""Claims: every slot once, every index always the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.batches.claims import Slot, UnknownSlot, claim, new_plan
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition

MEMBERS = st.none() | st.sampled_from("abc")
SIZES = st.lists(st.integers(1, 9), max_size=3)


def slot(member: str | None, *sizes: int) -> Slot:
    """A slot of so many ranges of so many offsets."""
    return Slot(member, tuple(Range("t", partition, 0, size) for partition, size in enumerate(sizes)))


SLOTS = st.lists(st.builds(lambda member, sizes: slot(member, *sizes), MEMBERS, SIZES), max_size=8)


@given(SLOTS, st.lists(st.tuples(st.integers(0, 7), MEMBERS), max_size=30))
def test_an_index_keeps_its_slot_and_shares_it_with_no_other(
    slots: list[Slot], asked: list[tuple[int, str | None]]
) -> None:
    """Idempotent per index whoever asks, and one to one: so all slots are read when all indices are."""
    plan = new_plan("p", slots)
    got: dict[int, Slot] = {}
    for index, member in asked:
        if index < len(slots):
            later, given_out = claim(plan, index, member)
            assert given_out is got.setdefault(index, given_out)
            assert later is plan or plan.claims.items() < later.claims.items()
            plan = later
    assert len(set(plan.claims.values())) == len(plan.claims) == len(got)
    assert len(plan.unclaimed()) == len(slots) - len(got)


@given(SLOTS.filter(bool), st.lists(MEMBERS, max_size=7), MEMBERS)
def test_ones_own_come_first_then_nobodys(slots: list[Slot], before: list[str | None], member: str | None) -> None:
    """A slot of another member is taken only when neither an own nor an unowned one is left, and always the largest."""
    plan = new_plan("p", slots)
    for index, earlier in enumerate(before[: len(slots) - 1]):
        plan, _ = claim(plan, index, earlier)
    left = [slots[position] for position in plan.unclaimed()]
    _, got = claim(plan, len(slots) - 1, member)
    choices = [s for s in left if s.member == member] or [s for s in left if s.member is None] or left
    assert got in choices
    assert got.records == max(s.records for s in choices if s.member == got.member)


def test_a_stranger_takes_from_who_has_most_left() -> None:
    """With no own and no unowned slot left the member with most records left is helped, its largest slot first."""
    plan = new_plan("p", (slot("a", 10), slot("b", 6), slot("b", 3, 4)))
    plan, got = claim(plan, 0, "c")
    assert got == slot("b", 3, 4)
    assert claim(plan, 1, None)[1] == slot("a", 10)


def test_the_empty_scout_goes_to_a_newcomer_but_after_unowned_records() -> None:
    """A probe keeps a newcomer off the others' slots; what nobody owns comes before it."""
    plan = new_plan("p", (slot("a", 10), slot(None), slot(None, 5)))
    plan, first = claim(plan, 2, "new")
    plan, second = claim(plan, 1, "new")
    assert (first, second) == (slot(None, 5), slot(None))


@pytest.mark.parametrize("index", [-1, 1])
def test_an_index_that_the_plan_does_not_have_is_refused(index: int) -> None:
    """The error names the plan and the index."""
    with pytest.raises(UnknownSlot, match=f"plan p has 1 slots, none with index {index}"):
        claim(new_plan("p", [slot("a", 1)]), index, "a")


def test_the_dearest_comes_first_where_costs_are_known() -> None:
    """Few large records before many small ones, whatever their number."""
    large, small = Slot("a", (Range("t", 0, 0, 10),), 9_000), Slot("a", (Range("t", 1, 0, 500),), 4_000)
    assert claim(new_plan("p", (small, large)), 0, "a")[1] is large


def test_who_cannot_read_a_slot_takes_it_last_and_the_smallest_first() -> None:
    """A task where some leader isn't reached reads what it can, else the empty ones; others don't care."""
    members, unreadable = (None, "b", "a", "b"), {TopicPartition("t", partition) for partition in (0, 1, 3)}
    sizes = enumerate(zip(members, (5, 3, 1, 9), strict=True))
    slots = [*(Slot(member, (Range("t", number, 0, size),)) for number, (member, size) in sizes), Slot(None)]
    plan, got = new_plan("p", slots), []
    for index in range(5):
        plan, given_out = claim(plan, index, "a", unreadable)
        got.append(slots.index(given_out))
    assert got == [2, 4, 1, 0, 3]
    assert claim(new_plan("p", slots), 0, "c")[1] is slots[0]
    assert claim(new_plan("p", slots), 0, None)[1] is slots[0]
