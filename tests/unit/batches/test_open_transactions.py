"""When an open transaction holds a partition up, for how long, and when that is worth a warning."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from sparkcohort.runtime.batches import open_transactions as rules
from sparkcohort.runtime.batches.open_transactions import (
    QUIET_MS,
    STANDS_MS,
    BothEnds,
    OpenTransaction,
    TransactionTracks,
)
from sparkcohort.runtime.protocol.partitions import TopicPartition

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)
GAP_MS = 10_000


def told(rounds: Iterable[dict[TopicPartition, BothEnds]]) -> tuple[TransactionTracks, list[list[TopicPartition]], int]:
    """The tracks after rounds of answers ``GAP_MS`` apart, what was warned of in each, and the time of the last."""
    tracks: TransactionTracks = {}
    warned = []
    for at, answers in zip(count(step=GAP_MS), rounds):
        after, now_ms = rules.after_round(tracks, answers, at), at
        warned.append(rules.worth_warning(tracks, after, now_ms))
        tracks = after
    return tracks, warned, now_ms


def test_it_stands_where_the_stable_offset_does_not_move() -> None:
    """Known since the first answer that had it so; what waits grows; a partition beside it flows."""
    rounds = [{ONE: BothEnds(120, 150 + each), TWO: BothEnds(10 * each, 10 * each + 5)} for each in range(4)]
    tracks, warned, now_ms = told(rounds)
    assert rules.standing(tracks, now_ms + 500) == {ONE: OpenTransaction(33, (3 * GAP_MS + 500) / 1000)}
    assert warned == [[], [ONE], [], []]


def test_one_answer_is_none() -> None:
    """Each transaction of a healthy producer is open for a moment, and may be met by a look; so may each of the next."""
    assert rules.standing(told([{ONE: BothEnds(120, 150)}])[0], STANDS_MS - 1) == {}
    tracks, warned, now_ms = told([{ONE: BothEnds(100 * each, 100 * each + 90)} for each in range(20)])
    assert (rules.standing(tracks, now_ms), warned) == ({}, [[]] * 20)


def test_an_idle_log_is_none() -> None:
    """The stable offset stands, and nothing is behind it; records that come then have waited since they came."""
    idle = [{ONE: BothEnds(120, 120)}] * 30
    assert rules.standing(*told(idle)[::2]) == {}
    tracks, _, now_ms = told([*idle, {ONE: BothEnds(120, 130)}, {ONE: BothEnds(120, 131)}])
    assert rules.standing(tracks, now_ms) == {ONE: OpenTransaction(11, GAP_MS / 1000)}


def test_it_is_over_when_the_stable_offset_moves() -> None:
    """To the end, or to the next transaction, which counts anew."""
    held = [{ONE: BothEnds(120, 150)}] * 3
    for last in (BothEnds(151, 151), BothEnds(151, 160)):
        tracks, _, now_ms = told([*held, {ONE: last}])
        assert rules.standing(tracks, now_ms) == {}
    assert rules.standing(*told([*held, {ONE: BothEnds(90, 90)}])[::2]) == {}  # of a topic made anew


def test_what_has_no_answer_is_not_over() -> None:
    """Nor is it warned of again."""
    tracks, warned, now_ms = told(
        [{ONE: BothEnds(120, 150)}, {ONE: BothEnds(120, 150)}, {}, {}, {ONE: BothEnds(120, 150)}]
    )
    assert rules.standing(tracks, now_ms) == {ONE: OpenTransaction(30, 4 * GAP_MS / 1000)}
    assert warned == [[], [ONE], [], [], []]


def test_long_transactions_one_after_the_other_are_one_warning() -> None:
    """Of a producer that commits each minute, say; after a quiet time the next is news again."""
    busy = [{ONE: BothEnds(each // 6, 1_000)} for each in range(200)]
    quiet = [{ONE: BothEnds(1_000, 1_000)}] * (QUIET_MS // GAP_MS)
    again = [{ONE: BothEnds(1_000, 1_010)}] * 2
    _, warned, _ = told([*busy, *quiet, *again])
    assert [at for at, each in enumerate(warned) if each] == [1, len(warned) - 1]
