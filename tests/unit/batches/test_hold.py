"""The rule for partitions that are unreachable or doubted: a situation to a row, and what is decided."""

from __future__ import annotations

from itertools import product

import pytest

from sparkcohort.runtime.batches import hold
from sparkcohort.runtime.batches.hold import HoldDecision, Policy, QueryTrigger, Situation
from sparkcohort.runtime.batches.suspected_loss import LAG_S, Mismatches
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.partitions import TopicPartition

PROCESSING, NOW, ONCE = QueryTrigger.PROCESSING_TIME, QueryTrigger.AVAILABLE_NOW, QueryTrigger.ONCE
PLAN, OTHERS, WAIT, FAIL = HoldDecision.PLAN, HoldDecision.PLAN_OTHERS, HoldDecision.WAIT, HoldDecision.FAIL
A, B, C = (TopicPartition("orders", number) for number in range(3))
OTHER = TopicPartition("other", 0)
NOTHING, HELD, DOUBTED = Situation(), Situation(unreachable={A}), Situation(doubted={A})
BOTH = Situation(unreachable={A}, doubted={B})
LIMIT_S = 120.0


def policy(mode: str) -> Policy:
    """With the default timeout."""
    return Policy(mode, int(LIMIT_S * 1000))


TABLE = [
    # Nothing stands in the way.
    *((mode, trigger, NOTHING, PLAN) for mode in ("hold", "wait", "fail") for trigger in QueryTrigger),
    # A broker is away, processing time: by the option.
    ("hold", PROCESSING, HELD, PLAN),
    ("hold", PROCESSING, HELD._replace(waited_s=1e6), PLAN),
    ("wait", PROCESSING, HELD, WAIT),
    ("wait", PROCESSING, HELD._replace(waited_s=LIMIT_S), WAIT),
    ("wait", PROCESSING, HELD._replace(waited_s=LIMIT_S + 0.1), FAIL),
    ("fail", PROCESSING, HELD, WAIT),
    ("fail", PROCESSING, HELD._replace(waited_s=hold.FAIL_AFTER_S), WAIT),
    ("fail", PROCESSING, HELD._replace(waited_s=hold.FAIL_AFTER_S + 0.1), FAIL),
    # A loss is doubted, processing time: the next batch has it.
    *((mode, PROCESSING, DOUBTED._replace(waited_s=1e6), PLAN) for mode in ("hold", "wait", "fail")),
    ("hold", PROCESSING, BOTH, PLAN),
    ("wait", PROCESSING, BOTH, WAIT),
    # A bounded query that doesn't know yet what it has to read waits under every option.
    *((mode, trigger, HELD, WAIT) for mode in ("hold", "wait", "fail") for trigger in (NOW, ONCE)),
    *((mode, trigger, DOUBTED, WAIT) for mode in ("hold", "wait", "fail") for trigger in (NOW, ONCE)),
    ("hold", ONCE, HELD._replace(waited_s=LIMIT_S + 0.1), FAIL),
    ("hold", NOW, HELD._replace(waited_s=LIMIT_S + 0.1), FAIL),
    ("fail", ONCE, HELD._replace(waited_s=hold.FAIL_AFTER_S + 0.1), FAIL),
    # Doubts alone are waited for as much longer as they need to be resolved.
    ("hold", ONCE, DOUBTED._replace(waited_s=LIMIT_S + LAG_S), WAIT),
    ("hold", ONCE, DOUBTED._replace(waited_s=LIMIT_S + LAG_S + 0.1), FAIL),
    ("fail", NOW, DOUBTED._replace(waited_s=hold.FAIL_AFTER_S + LAG_S), WAIT),
    ("hold", ONCE, BOTH._replace(waited_s=LIMIT_S + 0.1), FAIL),
    # AvailableNow knows where it stops: the others go on, however long it takes, and then it waits.
    ("hold", NOW, HELD._replace(stops_known=True, waited_s=1e6), OTHERS),
    ("wait", NOW, DOUBTED._replace(stops_known=True), OTHERS),
    ("hold", NOW, NOTHING._replace(stops_known=True), PLAN),
    ("hold", NOW, HELD._replace(stops_known=True, nothing_else=True), WAIT),
    ("hold", NOW, HELD._replace(stops_known=True, nothing_else=True, waited_s=LIMIT_S + 0.1), FAIL),
    ("fail", NOW, HELD._replace(stops_known=True, nothing_else=True, waited_s=hold.FAIL_AFTER_S + 0.1), FAIL),
]


@pytest.mark.parametrize(("mode", "trigger", "at", "decision"), TABLE)
def test_the_next_batch(mode: str, trigger: QueryTrigger, at: Situation, decision: HoldDecision) -> None:
    """Planned, waited for, or the end of the query."""
    assert hold.decide(policy(mode), trigger, at) is decision


ALL = [
    (mode, trigger, Situation(held, doubted, stops, nothing, waited_s))
    for mode, trigger, held, doubted, stops, nothing, waited_s in product(
        ("hold", "wait", "fail"),
        QueryTrigger,
        ((), {A}),
        ((), {B}),
        (False, True),
        (False, True),
        (0.0, 6.0, 11.0, 121.0, 1e6),
    )
    if trigger is NOW or not stops
]


def test_the_rule_is_total_and_no_wait_is_for_ever() -> None:
    """Every situation has a decision; whatever isn't planned fails in the end, and never after it was planned."""
    for mode, trigger, at in ALL:
        decision, late = (hold.decide(policy(mode), trigger, each) for each in (at, at._replace(waited_s=1e9)))
        assert late is {WAIT: FAIL}.get(decision, decision)
        assert (decision is OTHERS) <= (trigger is NOW and at.stops_known and not at.nothing_else)
        if not at.unreachable and not at.doubted:
            assert decision is PLAN
        elif trigger.bounded:  # PLAN would let an empty batch end it
            assert decision is not PLAN


@pytest.mark.parametrize(
    ("missing", "waited_s", "decision"),
    [([], 1e6, PLAN), ([A], LIMIT_S, WAIT), ([A], LIMIT_S + 0.1, FAIL), (True, 1e6, FAIL)],
)
def test_a_start(missing: list[TopicPartition] | bool, waited_s: float, decision: HoldDecision) -> None:
    """It is waited for as long under every option: without it there is no query."""
    assert {hold.decide_start(policy(mode), missing, waited_s) for mode in ("hold", "wait", "fail")} == {decision}


@pytest.mark.parametrize(
    ("doubted", "waited_s", "decision"),
    [([], 0.0, PLAN), ([A], 0.0, WAIT), ([A], LIMIT_S, WAIT), ([A], LIMIT_S + 0.1, PLAN)],
)
def test_a_batch_that_is_replayed(doubted: list[TopicPartition], waited_s: float, decision: HoldDecision) -> None:
    """It never fails for a doubt: its end is in Spark's log."""
    assert hold.decide_replay(policy("fail"), doubted, waited_s) is decision


@pytest.mark.parametrize(
    ("ends", "reasons", "leaderless", "unreachable"),
    [
        ({A: 5, B: 7}, {}, [], {}),
        ({A: 5, B: 7}, {A: "silent"}, [], {A: "silent"}),  # its end is an old one
        ({A: 5}, {A: "silent"}, [B], {A: "silent", B: hold.LEADERLESS}),
        ({A: 5}, {B: "silent"}, [B], {B: hold.LEADERLESS}),
        ({A: 5}, {}, [], {B: hold.UNANSWERED}),
        ({A: 5, B: 7}, {C: "deleted since"}, [], {}),
    ],
)
def test_what_is_unreachable(
    ends: dict[TopicPartition, int],
    reasons: dict[TopicPartition, str],
    leaderless: list[TopicPartition],
    unreachable: dict[TopicPartition, str],
) -> None:
    """No leader, no answer, no end yet; of two partitions that exist."""
    assert hold.unreachable([A, B], ends, reasons, leaderless) == unreachable


@pytest.mark.parametrize(
    ("start", "stops", "held"),
    [
        ({A: 5}, None, {A}),
        ({}, None, {A}),
        ({A: 5}, {A: 9}, {A}),
        ({A: 9}, {A: 9}, set()),  # it has nothing left to give
        ({A: 5}, {B: 9}, set()),  # it came after the start of the query
        ({}, {A: 0}, {A}),  # a new one that has not entered yet
        ({}, {}, set()),  # made after AvailableNow had its ends
    ],
)
def test_what_is_held(
    start: dict[TopicPartition, int], stops: dict[TopicPartition, int] | None, held: set[object]
) -> None:
    """All that is unreachable, and under AvailableNow what still has something to give."""
    assert hold.held_partitions({A: "silent"}, start, stops) == held


def test_what_is_doubted() -> None:
    """A topic made anew, a shorter log, a leader that doesn't tell; not what is gone, nor what goes on elsewhere."""
    start = {A: 1, B: 2, C: 3, OTHER: 4}
    none: frozenset[TopicPartition] = frozenset()
    anew = Mismatches(frozenset({A}), frozenset({"orders"}), none)
    assert hold.doubted(start, anew, (), ()) == {B, C}
    assert hold.doubted(start, anew, (), {B: 0}) == {C}
    assert hold.doubted(start, Mismatches(none, frozenset(), frozenset({OTHER})), {A}, ()) == {A, OTHER}
    assert hold.doubted(start, Mismatches(frozenset({A}), frozenset(), none), (), ()) == none


def test_how_far_a_batch_may_go() -> None:
    """To the ends; AvailableNow to its own, and into nothing that came later."""
    assert hold.up_to({A: 9, B: 5}, None) == {A: 9, B: 5}
    assert hold.up_to({A: 9, B: 5}, {A: 7}) == {A: 7}
    assert hold.up_to({A: 6}, {A: 7}) == {A: 6}


def test_which_new_partitions_may_enter() -> None:
    """Those that a broker answers for, of topics that nothing is doubted of."""
    ends = {A: 9, B: 5, C: 1, OTHER: 3}
    assert hold.may_enter(ends, {A: 4}, {B: "silent"}, []) == [C, OTHER]
    assert hold.may_enter(ends, {A: 4}, {}, [A]) == [OTHER]


def test_ends_that_are_not_known_by_now() -> None:
    """An old end of an unreachable partition is none."""
    assert hold.unknown_ends([A, B, C], {A: 1, B: 2}, {B: "silent"}) == [B, C]


def test_the_error_names_option_partitions_and_reasons() -> None:
    """Ten of them, what is unreachable before what is doubted; it is Kafka's retriable error."""
    error = hold.failure(policy("hold"), BOTH, {A: "broker 2 does not answer"})
    assert str(error).startswith(
        "120 s have passed (unreachable.timeout.ms) and these partitions cannot be reached: "
        "orders-0 (broker 2 does not answer). Their brokers are down or cut off; start the query again"
    )
    assert hold.is_unreachable(error)
    assert not hold.is_unreachable(CohortError("denied", "TOPIC_AUTHORIZATION_FAILED"))
    many = Situation(doubted=[TopicPartition("t", number) for number in range(13)])
    text = str(hold.failure(policy("fail"), many, {}))
    assert text.startswith("5 s have passed (unreachable.partitions=fail)")
    assert "t-9 (the start of its log is unknown) and 3 more." in text
