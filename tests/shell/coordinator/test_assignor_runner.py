"""The driver's leading, with users' own assignors that go wrong: each costs its round, says so once, and is asked again."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from sparkcohort.assignors import ASSIGNORS, Assignor
from sparkcohort.runtime.group.member_state import ComputeAssignment
from sparkcohort.runtime.leader import delayed_rebalance
from sparkcohort.runtime.protocol.messages import Assignments, JoinedMember, Subscription
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.coordinator import assignor_runner
from tests.kit.own_assignors import MISBEHAVIOURS, TOPICS, Own, everything_to, first, raises

TIMEOUT_MS, LIMIT_S = 60_000, 20.0
OVER_MS = TIMEOUT_MS - 5_000  # see listening.patience_ms
ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


class Desk:
    """A leading of members a, b and clerk (who wants nothing); a has t-0 since generation 3.  Time stands still."""

    def __init__(self, *assignors: Assignor) -> None:
        self.now_ms, self.generation = 0, 3
        self.jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.done: list[tuple[Mapping[str, tuple[TopicPartition, ...]], int, str]] = []
        self.topics: Callable[[], Mapping[str, int]] = lambda: TOPICS
        self.leading = assignor_runner.AssignorRunner(
            "g",
            {assignor.name: assignor for assignor in assignors},
            TIMEOUT_MS,
            0,
            now=lambda: self.now_ms,
            post=self.jobs.put,
            done=self._done,
        )

    def _done(self, assignments: Assignments, generation: int, why: str) -> None:
        self.done.append((dict(assignments), generation, why))

    def begin(self, name: str = "own") -> None:
        """Begin a round."""
        self.generation += 1
        wants, a = Subscription(("t",)), Subscription(("t",), (ZERO,), 3)
        members = tuple(
            JoinedMember(name, name, said) for name, said in (("a", a), ("b", wants), ("clerk", Subscription()))
        )
        since = {"a": {ZERO: 3}}
        asked = ComputeAssignment(name, members, self.generation)
        self.leading.lead_round(
            asked, since, lambda: delayed_rebalance.Round(name, members, self.topics(), since, {"a": (ZERO,)})
        )

    def work(self) -> None:
        """Do what the thread has posted, once it has."""
        self.jobs.get(timeout=LIMIT_S)()

    def round(self, name: str = "own") -> tuple[Mapping[str, tuple[TopicPartition, ...]], str]:
        """One round to its end: who got what, and why it isn't the assignor's."""
        self.begin(name)
        self.work()
        given, generation, why = self.done[-1]
        assert generation == self.generation
        return given, why

    def pass_ms(self, ms: int) -> None:
        """Let time go by."""
        self.now_ms += ms
        self.leading.tick()


class Gate:
    """What holds an assignor up, which answers well when it is opened."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def assignor(self) -> Own:
        """The assignor."""

        def how(topics: Any, members: Any) -> Any:
            self.reached.set()
            assert self.opened.wait(LIMIT_S)
            return first(topics, members)

        return Own(how)


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate, open at the end."""
    closed = Gate()
    yield closed
    closed.opened.set()


KEPT = {"a": (ZERO,), "b": (), "clerk": ()}


@pytest.mark.parametrize("case", MISBEHAVIOURS)
def test_an_assignor_that_misbehaves_costs_its_round_only(case: str, caplog: pytest.LogCaptureFixture) -> None:
    """The error names it, everybody keeps what it had and gets nothing, it is counted, and told once however often."""
    how, words = MISBEHAVIOURS[case]
    desk = Desk(Own(how))
    given, why = desk.round()

    assert given == KEPT
    assert why.startswith(f"assignor {words}") and "\n" not in why
    assert desk.leading.failures == {"own": 1}
    assert desk.round() == (given, why)
    assert desk.leading.failures == {"own": 2}
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert told == [f"group g: {why}; each member keeps its partitions"]
    failure = desk.leading.failure()
    assert failure == {"assignor": "own", "error": why, "age_ms": 0, "in_a_row": 2, "retry_in_ms": 10_000}


def test_a_good_one_rules_and_makes_up_for_its_failures(caplog: pytest.LogCaptureFixture) -> None:
    """It need not know who holds what: t-0 goes to b only after a has given it up.  After a success nothing is wrong."""
    fates = [raises(OSError("no such database")), lambda _, members: everything_to("b", members)]

    def how(topics: Any, members: Any) -> Any:
        return fates.pop(0)(topics, members)

    desk = Desk(Own(how))
    caplog.set_level(logging.INFO)
    assert desk.round()[0] == KEPT
    assert delayed_rebalance.deadline(desk.leading.leader_state) == delayed_rebalance.RETRY_MS

    assert desk.round() == ({"a": (), "b": (ONE,), "clerk": ()}, "")
    assert (desk.leading.failure(), delayed_rebalance.deadline(desk.leading.leader_state)) == (None, None)
    assert desk.leading.failures == {"own": 1}
    assert caplog.messages[-1] == "group g: assignor own works again"
    assert (
        "no such database" in caplog.text and "Traceback" in caplog.text
    )  # of what it raised, not of what it answered


def test_the_built_in_ones_are_done_at_once() -> None:
    """Without a thread, also while a user's own doesn't return."""
    desk = Desk(*ASSIGNORS.values())
    desk.begin("range")
    assert desk.done == [({"a": (ZERO,), "b": (ONE,), "clerk": ()}, 4, "")]
    assert desk.jobs.empty()


def test_one_that_hangs_is_gone_on_without(gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    """It is told while it runs, given up before the rebalance timeout, not asked while it hangs, asked when it is back."""
    desk = Desk(gate.assignor())
    desk.begin()
    assert gate.reached.wait(LIMIT_S)
    desk.pass_ms(OVER_MS - 1)
    assert desk.leading.running() == {"name": "own", "age_ms": OVER_MS - 1}
    assert (desk.leading.deadline(), desk.done) == (OVER_MS, [])
    desk.pass_ms(1)
    assert desk.done == [(KEPT, 4, f"assignor own did not return within {OVER_MS} ms")]
    assert (desk.leading.deadline(), desk.leading.running()) == (None, None)

    desk.begin()  # at once, and without another thread
    assert desk.done[1:] == [(KEPT, 5, "assignor own has not returned since the round of generation 4")]
    gate.opened.set()
    desk.work()  # the late answer changes nothing
    assert len(desk.done) == 2
    assert f"assignor own has returned, after {OVER_MS} ms" in caplog.text
    assert desk.round() == ({"a": (ZERO, ONE), "b": (), "clerk": ()}, "")
    assert desk.leading.failures == {"own": 2}


def test_a_round_that_was_overtaken_is_void(gate: Gate) -> None:
    """Others begin while the assignor runs: its answer is not taken for theirs, and the latest alone is computed."""
    desk = Desk(gate.assignor())
    desk.begin()
    assert gate.reached.wait(LIMIT_S)
    desk.begin()
    desk.begin()
    gate.opened.set()
    while not desk.done:  # the second may have been passed over before its thread began: then there is no answer of it
        desk.work()
    assert desk.done == [({"a": (ZERO, ONE), "b": (), "clerk": ()}, 6, "")]
    assert desk.jobs.empty() and desk.leading.failures == {}


def test_a_call_that_was_given_up_before_its_turn_holds_nobody_up() -> None:
    """When its turn comes its time is over: it is passed over, and the assignor is there for the next."""
    desk = Desk(Own(raises(AssertionError("asked in vain"))))
    with desk.leading._computing:
        desk.begin()
        desk.pass_ms(OVER_MS)
    desk.work()
    assert [why for _, _, why in desk.done] == [f"assignor own did not return within {OVER_MS} ms"]
    assert desk.round()[1] == "assignor own raised AssertionError: asked in vain"


def test_what_goes_wrong_before_the_assignor_is_asked_costs_the_round_too() -> None:
    """The group is answered even if nobody can tell the topics."""
    desk = Desk(Own(first))
    desk.topics = partial(raises(OSError("no snapshot")))
    desk.begin()
    assert desk.done == [(KEPT, 4, "assignor own could not be asked: OSError: no snapshot")]


def test_a_failure_is_told_once_in_a_row_and_another_one_too(caplog: pytest.LogCaptureFixture) -> None:
    """However often the assignor is asked meanwhile."""
    words = iter("aab")

    def how(*_arguments: Any) -> None:
        raise ValueError(next(words))

    desk = Desk(Own(how))
    for _ in range(3):
        desk.round()
    told = [record.getMessage().partition(": ")[2] for record in caplog.records if record.levelname == "ERROR"]
    assert told == [f"assignor own raised ValueError: {word}; each member keeps its partitions" for word in "ab"]
