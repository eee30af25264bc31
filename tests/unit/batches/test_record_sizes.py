"""How large records are: by partition, by topic, and as a task counts them."""

from __future__ import annotations

import doctest

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkcohort.runtime.batches import record_sizes as module
from sparkcohort.runtime.batches.record_sizes import RECORD_BYTES, TYPICAL_BYTES, ObservedSize, Sizes, after
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.consumer.arrow_rows import schema
from sparkcohort.streaming.batch_bytes import bytes_by_partition

A, B, C = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def test_a_change_of_sizes_is_known_after_a_batch_or_two() -> None:
    """The mean follows; a batch of a few odd records after a large one hardly moves it; all offsets are remembered."""
    seen = after(None, 1_000, 100_000)
    assert Sizes({A: after(seen, 1, 50_000)}).mean(A) == -(-100_000 // 501)
    for _ in range(3):
        seen = after(seen, 1_000, 1_000_000)
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
    assert Sizes({A: after(None, 1_000, 0)}).mean(A) == 0


BYTES = st.sampled_from([None, b"", b"k", b"value" * 80])
ROWS = st.tuples(BYTES, BYTES)
RUNS = st.lists(st.tuples(st.sampled_from([A, B, C]), st.lists(ROWS, min_size=1, max_size=5)), min_size=1, max_size=6)


@settings(max_examples=40)
@given(RUNS, st.integers(0, 3), st.booleans())
def test_bytes_are_those_of_each_partitions_keys_and_values(
    runs: list[tuple[TopicPartition, list[tuple[bytes | None, bytes | None]]]], cut: int, headers: bool
) -> None:
    """Exactly those, in whole batches and in parts of them; the other columns' are divided evenly, none lost."""
    rows = [(tp, key, value) for tp, some in runs for key, value in some]
    columns = {
        "key": [key for _, key, _ in rows],
        "value": [value for _, _, value in rows],
        "topic": [tp.topic for tp, _, _ in rows],
        "partition": [tp.partition for tp, _, _ in rows],
    }
    batch = pa.RecordBatch.from_pylist(
        [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)], schema(headers)
    ).slice(cut)
    rows = rows[cut:]
    if not rows:
        return
    among = sorted({tp for tp, _, _ in rows})
    found = bytes_by_partition(batch, batch.nbytes, among)
    data = {tp: sum(len(key or b"") + len(value or b"") for of, key, value in rows if of == tp) for tp in among}
    rest = batch.nbytes - sum(data.values())
    assert abs(sum(found.values()) - batch.nbytes) <= len(rows)
    for tp in among:
        share = rest * sum(of == tp for of, _, _ in rows) / len(rows)
        assert abs(found[tp] - data[tp] - share) <= len(rows)


def test_the_examples_in_the_docs_are_true() -> None:
    """Doctests."""
    assert doctest.testmod(module).failed == 0
