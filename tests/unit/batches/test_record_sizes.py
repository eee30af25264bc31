"""How large records are: by partition and by topic."""

from __future__ import annotations

from sparkcohort.runtime.batches.record_sizes import RECORD_BYTES, TYPICAL_BYTES, ObservedSize, Sizes, add_range
from sparkcohort.runtime.protocol.partitions import TopicPartition

A, B, C = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def test_a_change_of_sizes_is_known_after_a_batch_or_two() -> None:
    """The mean follows; a batch of a few odd records after a large one hardly moves it; all offsets are remembered."""
    seen = add_range(None, 1_000, 100_000)
    assert Sizes({A: add_range(seen, 1, 50_000)}).mean(A) == -(-100_000 // 501)
    for _ in range(3):
        seen = add_range(seen, 1_000, 1_000_000)
    mean = Sizes({A: seen}).mean(A)
    assert mean is not None
    assert 900 < mean <= 1_000
    assert Sizes({A: seen}).total(A) == 4_000
    assert Sizes().total(A) == 0


def test_what_is_unknown_is_taken_for_its_topics_and_then_for_any_record() -> None:
    """Own mean, the topic's, that of all; nothing known at all: the same for every record."""
    known = Sizes({A: ObservedSize(100, 100_000, 100), B: ObservedSize(300, 30_000, 300)})
    other = TopicPartition("t", 9)
    assert [known.mean(tp) for tp in (A, B, other, C)] == [1_000, 100, 325, None]
    weights = known.weights([A, other, C])
    assert weights == {A: 1_000 + RECORD_BYTES, other: 325 + RECORD_BYTES, C: 325 + RECORD_BYTES}
    assert set(Sizes().weights([A, C]).values()) == {TYPICAL_BYTES + RECORD_BYTES}


def test_gaps_make_an_offset_worth_less() -> None:
    """Where compaction has left nothing an offset costs no bytes."""
    assert Sizes({A: add_range(None, 1_000, 0)}).mean(A) == 0
