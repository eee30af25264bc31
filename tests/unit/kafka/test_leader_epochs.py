"""Positions compared by leader epochs: what is asked when, and what the answers mean."""

from __future__ import annotations

import time

import pytest

from sparkcohort.runtime.kafka.leader_epochs import Compared, ObservedEpochs, Question, compared, questions
from sparkcohort.runtime.protocol.partitions import TopicPartition

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("now", "asked"),
    [
        ({ZERO: 3}, {}),
        ({ZERO: 4}, {ZERO: Question(3, 4)}),
        ({ZERO: 9}, {ZERO: Question(3, 9)}),
        ({ZERO: 2}, {}),
        ({}, {}),
    ],
    ids=["the same", "the next", "a later one", "one that is behind", "nobody tells"],
)
def test_only_later_leaders_are_asked(now: dict[TopicPartition, int], asked: dict[TopicPartition, Question]) -> None:
    """A question costs a request: there is none while leaders stay."""
    assert questions({ZERO: ObservedEpochs(100, 3)}, now) == asked


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ({}, Compared({}, frozenset({ZERO}), frozenset())),
        ({ZERO: None}, Compared({}, frozenset(), frozenset({ZERO}))),
        ({ZERO: 99}, Compared({ZERO: 99}, frozenset(), frozenset())),
        ({ZERO: 0}, Compared({ZERO: 0}, frozenset(), frozenset())),
        ({ZERO: 100}, Compared({}, frozenset(), frozenset({ZERO}))),
        ({ZERO: 130}, Compared({}, frozenset(), frozenset({ZERO}))),
        ({ONE: 7}, Compared({}, frozenset({ZERO}), frozenset())),
    ],
    ids=["no answer yet", "nobody can tell", "one is lost", "all are", "none is", "more was written", "another's"],
)
def test_answers(ends: dict[TopicPartition, int | None], expected: Compared) -> None:
    """An epoch that ends before the position has been cut there."""
    assert compared({ZERO: ObservedEpochs(100, 3)}, {ZERO: Question(3, 4)}, ends) == expected


def test_many_partitions_are_compared_at_no_cost() -> None:
    """Three thousand, of which every leader has changed: some milliseconds, on a busy machine."""
    every = [TopicPartition("t", number) for number in range(3_000)]
    known, now = {tp: ObservedEpochs(100, 3) for tp in every}, dict.fromkeys(every, 4)
    took_s = []
    for _ in range(9):
        began = time.perf_counter()
        asked = questions(known, now)
        assert len(compared(known, asked, dict.fromkeys(every, 100)).sound) == 3_000
        took_s.append(time.perf_counter() - began)
    assert min(took_s) < 0.05
