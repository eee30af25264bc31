"""Plans: what may be claimed, what was delivered, where the next range starts."""

from __future__ import annotations

from typing import Any

import pytest

from sparkcohort.runtime.batches.claims import Slot
from sparkcohort.runtime.protocol.calls import Delivered
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.coordinator.plan_registry import KEPT_PLANS, PlanRegistry, UnknownPlan

A, B = Range("t", 0, 0, 10), Range("t", 1, 5, 25)


def registered() -> PlanRegistry:
    """A plan ``p`` of two slots, of members a and b."""
    plans = PlanRegistry()
    plans.register("p", [Slot("a", (A,)), Slot("b", (B,))])
    return plans


def delivered(plan: str, *ranges: Range, agent: int = 0, direct: int = 0, sizes: tuple[int, ...] = ()) -> Delivered:
    """A task's report: bytes by path and range, a record for each hundred bytes."""
    read = (agent // 100, agent), (direct // 100, direct)
    return Delivered(plan, "", ranges, *read, sizes or (0,) * len(ranges), timed_out=False)


def test_a_claim_is_the_same_however_often_and_by_whomever() -> None:
    """Index 0 claimed on b's executor keeps its slot for a retry on a's."""
    plans = registered()
    first = plans.claim("p", 0, "b")

    assert first[0].ranges == first[1].ranges == (B,)
    assert first == plans.claim("p", 0, "a")
    assert plans.claim("p", 1, "b")[0].ranges == (A,)


def test_an_unknown_plan_says_what_to_do() -> None:
    """A plan of another run is refused with the remedy."""
    with pytest.raises(UnknownPlan, match="foreachBatch"):
        registered().claim("of-long-ago", 0, None)


def test_old_plans_are_forgotten_and_recent_ones_kept() -> None:
    """The last plans can be read again; memory is bounded."""
    plans = registered()
    first = plans.claim("p", 0, None)[1].sequence
    for number in range(KEPT_PLANS - 1):
        plans.register(f"p{number}", [Slot(None, (A,))])

    assert plans.claim("p", 0, None)[1].sequence == first
    assert plans.claim(f"p{KEPT_PLANS - 2}", 0, None)[1].sequence == first + KEPT_PLANS - 1
    assert registered().claim("p", 0, None)[1].sequence > first + KEPT_PLANS - 1, "those of the next run are higher"
    plans.register("one more", [Slot(None, (A,))])
    with pytest.raises(UnknownPlan):
        plans.claim("p", 0, None)


def test_the_floor_is_where_the_plan_starts_also_for_the_second_half_of_a_split_range() -> None:
    """Both slots of a split range tell the start of the whole."""
    plans = PlanRegistry()
    plans.register("p", [Slot("a", (Range("t", 0, 0, 5),)), Slot("a", (Range("t", 0, 5, 10),))])
    claims = [plans.claim("p", index, "a") for index in (0, 1)]

    assert [reply.planned_starts for _, reply in claims] == [(0,), (0,)]
    assert plans.planned_end(TopicPartition("t", 0)) == 10


def test_ranges_read_again_are_counted_apart() -> None:
    """A second report of the same range is no second delivery."""
    plans = registered()
    for _ in range(2):
        plans.record_report(delivered("p", A, agent=1000))

    assert (plans.audit.ranges_delivered, plans.audit.ranges_again, plans.audit.records_from_agent) == (1, 1, 20)


def test_what_was_never_planned_is_not_delivered() -> None:
    """Ranges that somebody makes up are not counted, and not remembered."""
    plans = registered()
    made_up = [Range("t", 0, 0, 9), Range("u", 7, 0, 2**60)]
    plans.record_report(delivered("p", *made_up, sizes=(1, 2**60)))

    assert (plans.audit.ranges_delivered, plans.audit.ranges_again) == (0, 2)
    assert plans.sizes().by_partition == {}


def test_sizes_are_learnt_from_the_first_report_of_a_range() -> None:
    """By range, per offset; what is read again and what belongs to no known plan says nothing new."""
    plans = registered()
    assert plans.sizes().mean(TopicPartition("t", 0)) is None
    before = plans.sizes()
    for size in (1_000, 9_000):
        plans.record_report(delivered("p", A, B, agent=size + 400, sizes=(size, 400)))
    plans.record_report(delivered("of-long-ago", A, direct=9_000, sizes=(9_000,)))

    known = plans.sizes()
    assert [known.mean(TopicPartition("t", partition)) for partition in (0, 1, 2)] == [100, 20, 47]
    assert known.total(TopicPartition("t", 0)) == 10
    assert before.total(TopicPartition("t", 0)) == 0


def test_a_seed_does_not_override_a_plan() -> None:
    """Where a partition starts is told before the first plan; after it the plan's end counts."""
    plans = registered()
    plans.seed({TopicPartition("t", 0): 3, TopicPartition("t", 2): 7})

    assert (plans.planned_end(TopicPartition("t", 0)), plans.planned_end(TopicPartition("t", 2))) == (10, 7)


def test_the_batch_in_flight_tells_what_it_waits_for() -> None:
    """From the moment Spark is told of it until it asks for the next one."""
    plans = PlanRegistry()

    def told() -> tuple[Any, ...] | None:
        known = plans.batches()["in_flight"]
        assert known is None or known["age_ms"] >= 0
        names = ("number", "ranges_delivered", "ranges_owed", "waits_for")
        return known and tuple(known[name] for name in names)

    assert told() is None
    plans.begin_batch()
    assert told() == (None, 0, 0, "Spark to plan it")
    plans.register("p", [Slot("a", (A,)), Slot("b", (B,)), Slot(None)])
    assert told() == (None, 0, 2, "tasks that have not begun and are to read t-0, t-1")
    plans.claim("p", 0, "a", 17)
    assert told() == (17, 0, 2, "tasks that read t-0, and for tasks that have not begun and are to read t-1")
    plans.record_report(delivered("p", A, agent=100))
    plans.claim("p", 1, "b", 17)
    assert told() == (17, 1, 1, "tasks that read t-1")
    plans.record_report(delivered("p", B, agent=100))
    assert told() == (17, 2, 0, "the sink, the query's own code, or the next trigger")
    assert plans.batches()["in_flight"]["may_be_over"]
    plans.end_batch(by_listener=True)
    assert told() is None
    plans.register("q", [Slot("a", (A,))])
    plans.record_report(delivered("q", A, agent=100))
    assert not plans.batches()["in_flight"]["may_be_over"]


def test_a_batch_is_its_own_plans() -> None:
    """Those of the batches before count for nothing, nor do tasks that read these again.

    Spark may plan a batch twice and run one plan: the other is not owed, unless tasks of both have begun.
    """
    plans = registered()
    plans.claim("p", 0, "a", 16)
    plans.end_batch()
    for name in ("q", "r"):
        plans.register(name, [Slot("a", (A,))])
    plans.claim("p", 0, "a", 16)

    def owed() -> tuple[Any, ...]:
        known = plans.batches()["in_flight"]
        return known["number"], known["ranges_delivered"], known["ranges_owed"]

    assert owed() == (None, 0, 1)
    plans.claim("q", 0, "a", 17)
    plans.record_report(delivered("q", A, agent=100))
    assert owed() == (17, 1, 0)
    assert plans.batches()["in_flight"]["may_be_over"]
    plans.claim("r", 0, "a", 17)
    assert owed() == (17, 1, 1)
