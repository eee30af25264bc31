"""Run numbers, generation blocks and the pin, as they travel in commit metadata."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.kafka.run_epoch import (
    GENERATION_BLOCK,
    NO_RECORD,
    CommitMetadata,
    RunEpoch,
    decode,
    encode,
    latest,
    plan_of,
    starts_beside,
)
from sparkcohort.runtime.protocol.partitions import TopicPartition

RECORDS = st.builds(
    CommitMetadata,
    run=st.integers(0, 2**40),
    generation=st.integers(0, 2**31),
    id=st.text(max_size=20),
    pin=st.text(max_size=20),
    plan=st.text(max_size=20),
)


@given(RECORDS)
def test_a_record_comes_back_as_it_went(record: CommitMetadata) -> None:
    """Encoding and decoding are inverse, within Kafka's limit of 4,096 bytes."""
    assert decode(encode(record)) == record
    assert len(encode(record).encode()) < 4096


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "null",
        "7",
        "[]",
        "{}",
        '{"cohort":"1"}',
        '{"cohort":1,"run":"7","gen":1}',
        '{"cohort":1,"run":-1,"gen":1}',
        '{"cohort":1,"run":' + "9" * 2_000 + ',"gen":1}',
        '{"cohort":1,"run":1,"gen":9007199254740992}',
        '{"cohort":1,"run":1,"gen":1,"id":7}',
        '{"run":1,"gen":1}',
        "[" * 100000,
    ],
)
def test_metadata_of_others_says_nothing(text: str) -> None:
    """Whatever other tools put there is no record, and no error."""
    assert decode(text) == NO_RECORD


def test_a_host_is_a_short_line() -> None:
    """Of a run before there were hosts it is empty; what anybody wrote there can't steer a terminal or fill a log."""
    assert decode('{"cohort":1,"run":1,"gen":1,"id":"a"}').host == ""
    written = {"cohort": 1, "run": 1, "gen": 1, "id": "a", "host": "a\x1b[2J\n"}
    assert decode(json.dumps(written)).host.isprintable()
    assert decode(json.dumps({**written, "host": "b" * 65})) == NO_RECORD
    assert decode(encode(RunEpoch("a", "driver-7").next([]))).host == "driver-7"
    assert decode(RunEpoch("a", "driver-7").metadata()).host == "driver-7"


def test_metadata_too_large_is_refused_here() -> None:
    """Kafka would refuse the commit as a whole."""
    with pytest.raises(ValueError, match="4096"):
        encode(CommitMetadata(pin="x" * 5000))


@given(st.lists(RECORDS, max_size=6))
def test_generations_never_go_down(records: list[CommitMetadata]) -> None:
    """A new run starts above every generation that anybody has reserved, and above every run."""
    texts = [encode(record) for record in records]
    reservation = RunEpoch("a")
    reservation = reservation.observe(texts)
    record = reservation.next(texts)
    assert all(record.run > other.run for other in records)
    assert all(record.generation - GENERATION_BLOCK >= other.generation for other in records)


def test_a_run_takes_block_after_block() -> None:
    """Its number stays, its generations go on where the last block ended."""
    reservation = RunEpoch("a")
    reservation = reservation.observe([])
    first = reservation.next([])
    reservation = reservation.confirm(first)
    assert (reservation.first_generation, reservation.last_generation) == (0, 1000)
    second = reservation.next([encode(first)])
    reservation = reservation.confirm(second)
    assert (second.run, reservation.first_generation, reservation.last_generation) == (1, 1000, 2000)


def test_what_was_seen_counts_when_it_is_gone() -> None:
    """The offsets that carried an earlier run's record are deleted before this one reserves: its number is not used again."""
    reservation = RunEpoch("a")
    reservation = reservation.observe([encode(CommitMetadata(7, 7000, "z"))])
    own = reservation.next([])
    assert (own.run, own.generation) == (8, 8000)


THIRD, OWN = CommitMetadata(3, 3000, "z"), CommitMetadata(4, 4000, "a")
LATER, NAMESAKE = CommitMetadata(5, 5000, "b"), CommitMetadata(4, 4000, "b")


@pytest.mark.parametrize(
    ("own", "there", "successor"),
    [
        (OWN, [THIRD, OWN], None),
        (OWN, [OWN, LATER], LATER),
        (OWN, [NAMESAKE], NAMESAKE),  # should one number ever be given twice, it is not the same run
        (None, [THIRD], None),
        (None, [NAMESAKE], NAMESAKE),  # of two that start at once the one that reserves first wins
        (None, [OWN], None),  # Kafka took it without the run's having been told
    ],
)
def test_only_a_later_run_supersedes(
    own: CommitMetadata | None, there: list[CommitMetadata], successor: CommitMetadata | None
) -> None:
    """Its own record, older ones and foreign text do not end a run; a higher number does, before it has one any that it has not seen."""
    run = RunEpoch("a").observe([encode(THIRD)])
    run = run.confirm(own) if own else run
    assert run.find_successor(["", "{}", *map(encode, there)]) == successor


def test_the_newest_record_speaks_for_the_group() -> None:
    """Highest run, highest generation, over all partitions."""
    texts = [encode(CommitMetadata(2, 9000, "a")), encode(CommitMetadata(3, 4000, "b")), "something else"]
    assert latest(texts) == CommitMetadata(3, 9000, "b")
    assert latest([]) == NO_RECORD


def test_pinned_start() -> None:
    """The committed offsets that carry the pin are the start; another pin, or none, pins anew."""
    zero, one, two = (TopicPartition("t", number) for number in range(3))
    text = encode(CommitMetadata(1, 1000, "a", pin="abcd"))
    committed = {zero: (5, text), one: (0, text), two: (7, encode(CommitMetadata(1, 1000, "a")))}
    assert starts_beside(committed, pin="abcd") == {zero: 5, one: 0}
    assert starts_beside(committed, pin="other") == starts_beside(committed) == {}
    assert starts_beside({zero: (None, text)}, pin="abcd") == {}


ENDS = st.dictionaries(st.builds(TopicPartition, st.sampled_from("tu"), st.integers(0, 3)), st.integers(0, 3))


@given(ENDS, ENDS)
def test_a_plan_is_named_by_all_of_its_end(end: dict[TopicPartition, int], other: dict[TopicPartition, int]) -> None:
    """In whatever order; a partition more or less, another offset of one, or other topics, is another plan."""
    assert plan_of(end, {}) == plan_of(dict(reversed(end.items())), {})
    assert (plan_of(end, {}) == plan_of(other, {})) == (end == other)
    assert len({plan_of(end, {}), plan_of(end, {"t": "1"}), plan_of(end, {"t": "2"})}) == 3


def test_planned_start() -> None:
    """The committed offsets beside an end's name are where it was planned from, whatever the options were."""
    zero, one, end = TopicPartition("t", 0), TopicPartition("t", 1), {TopicPartition("t", 0): 9}
    text = encode(CommitMetadata(1, 1000, "a", pin="abcd", plan=plan_of(end, {})))
    committed = {zero: (5, text), one: (7, encode(CommitMetadata(1, 1000, "a", pin="abcd")))}
    assert starts_beside(committed, plan=plan_of(end, {})) == {zero: 5}
    assert starts_beside(committed, plan=plan_of({}, {})) == {}
