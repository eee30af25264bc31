"""Positions compared by leader epochs: what is asked when, and what the answers mean."""

from __future__ import annotations

import pytest

from sparkcohort.runtime.kafka.leader_epochs import (
    EpochComparison,
    ObservedEpochs,
    Question,
    compare_ends,
    new_questions,
)
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
    assert new_questions({ZERO: ObservedEpochs(100, 3)}, now) == asked


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ({}, EpochComparison({}, frozenset({ZERO}), frozenset())),
        ({ZERO: None}, EpochComparison({}, frozenset(), frozenset({ZERO}))),
        ({ZERO: 99}, EpochComparison({ZERO: 99}, frozenset(), frozenset())),
        ({ZERO: 0}, EpochComparison({ZERO: 0}, frozenset(), frozenset())),
        ({ZERO: 100}, EpochComparison({}, frozenset(), frozenset({ZERO}))),
        ({ZERO: 130}, EpochComparison({}, frozenset(), frozenset({ZERO}))),
        ({ONE: 7}, EpochComparison({}, frozenset({ZERO}), frozenset())),
    ],
    ids=["no answer yet", "nobody can tell", "one is lost", "all are", "none is", "more was written", "another's"],
)
def test_answers(ends: dict[TopicPartition, int | None], expected: EpochComparison) -> None:
    """An epoch that ends before the position has been cut there."""
    assert compare_ends({ZERO: ObservedEpochs(100, 3)}, {ZERO: Question(3, 4)}, ends) == expected
