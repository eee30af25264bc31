"""When an open transaction holds a partition up, and for how long."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from sparkcohort.runtime.batches import open_transactions as rules
from sparkcohort.runtime.batches.open_transactions import STANDS_MS, BothEnds, OpenTransaction, TransactionTracks
from sparkcohort.runtime.protocol.partitions import TopicPartition

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)
GAP_MS = 10_000


def heard(rounds: Iterable[dict[TopicPartition, BothEnds]]) -> tuple[TransactionTracks, int]:
    """The tracks after rounds of answers ``GAP_MS`` apart, and the time of the last."""
    tracks: TransactionTracks = {}
    for at, answers in zip(count(step=GAP_MS), rounds):
        tracks, now_ms = rules.after_round(tracks, answers, at), at
    return tracks, now_ms


def test_it_stands_where_the_stable_offset_does_not_move() -> None:
    """Known since the first answer that had it so; what waits grows; a partition beside it flows."""
    rounds = [{ONE: BothEnds(120, 150 + each), TWO: BothEnds(10 * each, 10 * each + 5)} for each in range(4)]
    tracks, now_ms = heard(rounds)
    assert rules.standing(tracks, now_ms + 500) == {ONE: OpenTransaction(33, (3 * GAP_MS + 500) / 1000)}


def test_one_answer_is_none() -> None:
    """Each transaction of a healthy producer is open for a moment, and may be met by a look; so may each of the next."""
    assert rules.standing(heard([{ONE: BothEnds(120, 150)}])[0], 2 * STANDS_MS) == {}
    assert rules.standing(*heard([{ONE: BothEnds(100 * each, 100 * each + 90)} for each in range(20)])) == {}


def test_an_idle_log_is_none() -> None:
    """The stable offset stands, and nothing is behind it; records that come then have waited since they came."""
    idle = [{ONE: BothEnds(120, 120)}] * 30
    assert rules.standing(*heard(idle)) == {}
    tracks, now_ms = heard([*idle, {ONE: BothEnds(120, 130)}, {ONE: BothEnds(120, 131)}])
    assert rules.standing(tracks, now_ms) == {ONE: OpenTransaction(11, GAP_MS / 1000)}


def test_it_is_over_when_the_stable_offset_moves() -> None:
    """To the end, or to the next transaction, which counts anew."""
    held = [{ONE: BothEnds(120, 150)}] * 3
    for last in (BothEnds(151, 151), BothEnds(151, 160)):
        tracks, now_ms = heard([*held, {ONE: last}])
        assert rules.standing(tracks, now_ms) == {}
    assert rules.standing(*heard([*held, {ONE: BothEnds(90, 90)}])) == {}  # of a topic made anew


def test_what_has_no_answer_is_not_over() -> None:
    """It stands as of the last answer, and goes on with the next."""
    held = {ONE: BothEnds(120, 150)}
    for rounds in ([held, held, {}], [held, held, {}, {}, held]):
        tracks, now_ms = heard(rounds)
        assert rules.standing(tracks, now_ms) == {ONE: OpenTransaction(30, now_ms / 1000)}
