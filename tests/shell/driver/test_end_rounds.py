"""Rounds of questions for log ends: who is waited for, for how long, and how often (real brokers: test_log_ends.py)."""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import Any

import pytest

from sparkcohort.runtime.kafka.cluster_messages import ListedOffset, OffsetsQuestion
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver.discovery import Layout
from sparkcohort.runtime.shell.driver.list_offsets import End, EndRounds
from sparkcohort.runtime.shell.options.connection_settings import TransportError

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)
LAYOUT = Layout({ONE: 1, TWO: 2}, {1: "a:1", 2: "b:2"})


class Client:
    """Connected to all; keeps the open question of each leader."""

    def __init__(self) -> None:
        self.open: dict[Any, Future[Any]] = {}
        self.connected = False

    def ask(self, _question: OffsetsQuestion, node: int, _timeout_s: float) -> Future[Any]:
        """Never answered by itself."""
        self.open[node] = Future()
        return self.open[node]

    def is_connected(self, _node: int) -> bool:
        """As it is set."""
        return self.connected


class Clock:
    """Stands still but for ``now``."""

    now = 100.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of this process."""
    made = Clock()
    monkeypatch.setattr(time, "monotonic", lambda: made.now)
    return made


def answer(client: Client, node: int, tp: TopicPartition, offset: int, error: int = 0) -> None:
    """A leader answers what it was asked last."""
    client.open[node].set_result({tp: ListedOffset(error, offset, 4)})


def answered_round(client: Any, rounds: EndRounds, clock: Clock) -> None:
    """Both leaders have answered once, in a millisecond."""
    rounds.begin(LAYOUT)
    clock.now += 0.001
    answer(client, 1, ONE, 10)
    answer(client, 2, TWO, 20)
    assert not rounds.step(LAYOUT) and rounds.is_over()


def test_a_silent_leader_is_left_out_until_it_answers(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """The first round has the patience of a connection, later ones that of an answer; it is told of once it is silent again."""
    caplog.set_level("INFO")
    client: Any = Client()
    rounds = EndRounds(client, committed=False)
    answered_round(client, rounds, clock)
    assert rounds.answers == {ONE: End(10, 4), TWO: End(20, 4)} and rounds.reasons(LAYOUT) == {}
    client.connected = True
    rounds.begin(LAYOUT)
    answer(client, 1, ONE, 11)
    silent = client.open[2]
    clock.now += 0.9
    assert not rounds.step(LAYOUT) and not rounds.is_over()
    clock.now += 0.2
    assert not rounds.step(LAYOUT) and rounds.is_over()
    assert rounds.reasons(LAYOUT) == {TWO: "broker 2 (b:2) does not answer"}
    rounds.begin(LAYOUT)
    assert client.open[2] is silent and not rounds.is_over()  # its question is open: it isn't asked twice
    answer(client, 1, ONE, 12)
    assert not rounds.step(LAYOUT) and rounds.is_over()
    silent.set_exception(TransportError("no answer in time"))
    assert not rounds.step(LAYOUT) and client.open[2] is silent
    assert [line for line in caplog.messages if "broker 2" in line] == [
        "broker 2 (b:2) does not answer; its partitions are left out until it does"
    ]
    clock.now += 0.3
    rounds.step(LAYOUT)
    answer(client, 2, TWO, 25)
    assert rounds.step(LAYOUT), "a round is worth while again"
    assert rounds.reasons(LAYOUT) == {} and rounds.answers[TWO] == End(25, 4)
    assert caplog.messages[-1] == "broker 2 answers again"


def test_a_new_connection_has_the_patience_of_the_first(clock: Clock) -> None:
    """However quickly the leader has answered before."""
    client: Any = Client()
    rounds = EndRounds(client, committed=False)
    answered_round(client, rounds, clock)
    rounds.begin(LAYOUT)
    clock.now += 1.5
    rounds.step(LAYOUT)
    assert not rounds.is_over()
    clock.now += 1.6
    rounds.step(LAYOUT)
    assert rounds.is_over() and rounds.reasons(LAYOUT).keys() == {ONE, TWO}


def test_brokers_that_answer_with_errors_are_asked_less_often(clock: Clock) -> None:
    """Ten times a second, where those that are well are asked as often as answers are wanted."""
    client: Any = Client()
    rounds = EndRounds(client, committed=False)
    answered_round(client, rounds, clock)
    assert rounds.next_begin() == pytest.approx(clock.now + 0.019)
    client.connected = True
    rounds.begin(LAYOUT)
    answer(client, 1, ONE, -1, 6)
    answer(client, 2, TWO, 20)
    rounds.step(LAYOUT)
    assert rounds.has_refusals() and "Not leader" in rounds.reasons(LAYOUT)[ONE]
    assert rounds.next_begin() == pytest.approx(clock.now + 0.1)
    rounds.begin(LAYOUT)
    for node, tp in ((1, ONE), (2, TWO)):
        answer(client, node, tp, 20)
    clock.now += 5.0
    rounds.step(LAYOUT)
    assert rounds.next_begin() == pytest.approx(clock.now - 5.0 + 0.04)
