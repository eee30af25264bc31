"""How old the first record is that no committed batch has."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.batches.record_ages import MOST_RECORDS, NO_TIMESTAMP, FirstRecord, RecordAges
from sparkcohort.runtime.protocol.partitions import TopicPartition

TP = TopicPartition("orders", 0)
NOW = 1_000_000


def known(*seen: FirstRecord) -> RecordAges:
    """With these records seen."""
    times = RecordAges()
    for each in seen:
        times.add(TP, each)
    return times


def test_between_two_records_that_were_seen() -> None:
    """It is at most as old as the earlier one."""
    times = known(FirstRecord(10, 10, NOW - 900), FirstRecord(20, 20, NOW - 100))
    assert [times.age_ms(TP, at, 30, NOW) for at in (10, 15, 20, 30)] == [900, 900, 100, 0]


def test_before_all_records_that_were_seen() -> None:
    """Nobody knows, and nothing is guessed."""
    assert known(FirstRecord(20, 20, NOW)).age_ms(TP, 10, 30, NOW) is None
    assert known().age_ms(TP, 10, 30, NOW) is None


def test_a_gap_belongs_to_the_record_behind_it() -> None:
    """Compaction and aborted transactions: the first record from 10 on is that of 17, whoever asks from where in between."""
    times = known(FirstRecord(10, 17, NOW - 50), FirstRecord(13, 17, NOW - 50))
    assert [times.age_ms(TP, at, 30, NOW) for at in (10, 12, 17)] == [50, 50, 50]


def test_times_that_are_none() -> None:
    """No timestamp is no age, one of the future is none either, and a position behind its record is nonsense."""
    assert known(FirstRecord(10, 10, NO_TIMESTAMP)).age_ms(TP, 10, 30, NOW) is None
    assert known(FirstRecord(10, 10, NOW + 60_000)).age_ms(TP, 10, 30, NOW) == 0
    assert known(FirstRecord(11, 10, NOW - 5)).age_ms(TP, 11, 30, NOW) is None


def test_a_topic_made_anew_has_other_records() -> None:
    """What was seen of the old one is forgotten, as soon as the new one's id is known."""
    times = known(FirstRecord(10, 10, NOW - 900))
    times.drop_recreated({"orders": "id-1"})
    assert times.age_ms(TP, 10, 30, NOW) == 900
    times.drop_recreated({"orders": "id-2", "bills": "id-3"})
    assert times.age_ms(TP, 10, 30, NOW) is None


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3)), max_size=30),
    st.lists(st.integers(0, 60), min_size=1, max_size=10).map(sorted),
)
def test_what_is_kept_is_enough(seen: list[tuple[int, int]], committed: list[int]) -> None:
    """Whatever is forgotten when commits move on, no age differs from that of somebody who forgets nothing."""
    full = known(*(FirstRecord(at, at + gap, NOW - 1_000 + at) for at, gap in seen[-MOST_RECORDS:]))
    kept = known(*(FirstRecord(at, at + gap, NOW - 1_000 + at) for at, gap in seen[-MOST_RECORDS:]))
    for at in committed:
        kept.drop_committed({TP: at}, {TP})
        assert kept.age_ms(TP, at, 99, NOW) == full.age_ms(TP, at, 99, NOW)
    kept.drop_committed({TP: committed[-1]}, set())
    assert kept.age_ms(TP, committed[-1], 99, NOW) is None
