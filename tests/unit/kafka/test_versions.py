"""What one version of ours leaves in Kafka and in checkpoints, read by another: texts as they were written, and as a later one may.

``WRITTEN`` grows with each version that writes something else, and never shrinks: what was written once has to be read.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from sparkcohort.runtime.kafka.handover import HandoverAnswer, HandoverRecord, decode_handover, encode_handover
from sparkcohort.runtime.kafka.run_epoch import (
    FORMAT,
    GENERATION_BLOCK,
    CommitMetadata,
    RunEpoch,
    decode,
    encode,
    plan_of,
    starts_beside,
)
from sparkcohort.runtime.protocol.offsets_json import ids_in, read
from sparkcohort.runtime.protocol.partitions import TopicPartition

ZERO = TopicPartition("orders", 0)
WRITTEN = {
    "runs only": ('{"cohort":1,"run":7,"gen":7000,"id":"5f2c81aa"}', CommitMetadata(7, 7000, "5f2c81aa")),
    "a pinned start": (
        '{"cohort":1,"run":7,"gen":7000,"id":"5f2c81aa","pin":"ab12"}',
        CommitMetadata(7, 7000, "5f2c81aa", pin="ab12"),
    ),
    "a planned end and the topic": (
        '{"cohort":1,"run":7,"gen":7000,"id":"5f2c81aa","pin":"ab12","plan":"cd34","topic":"lj7XrdGBSHu-2_Ybcic80w"}',
        CommitMetadata(7, 7000, "5f2c81aa", "ab12", "cd34", "lj7XrdGBSHu-2_Ybcic80w"),
    ),
    "a host": (
        '{"cohort":1,"run":7,"gen":7000,"id":"5f2c81aa","topic":"lj7XrdGBSHu-2_Ybcic80w","host":"driver-7"}',
        CommitMetadata(7, 7000, "5f2c81aa", topic="lj7XrdGBSHu-2_Ybcic80w", host="driver-7"),
    ),
}
"""By what was new in it: a commit's metadata as a version of ours wrote it, and what it says."""


def later(text: str, **changes: Any) -> str:
    """The same from a later version: a higher number of the format, fields that nobody knows yet, another order."""
    value = {"shards": [1, {"a": None}], **json.loads(text), "cohort": FORMAT + 1, "since": 1.5, **changes}
    return json.dumps(value)


@pytest.mark.parametrize(("text", "record"), WRITTEN.values(), ids=list(WRITTEN))
def test_what_was_written_once_is_read(text: str, record: CommitMetadata) -> None:
    """By this version, and from a later one with fields more."""
    assert decode(text) == decode(later(text)) == record


def test_the_list_has_what_this_version_writes() -> None:
    """Each field of today's record is in some text of ``WRITTEN``: a new field is a new entry."""
    full = CommitMetadata(1, 1000, "a", "b", "c", "d", "e")
    assert json.loads(encode(full)).keys() == {name for text, _ in WRITTEN.values() for name in json.loads(text)}


def test_up_and_down_and_up_again() -> None:
    """This version, a later one, this one again: run numbers and generations only go up, whoever wrote the last record."""
    texts: list[str] = []
    seen: list[tuple[int, int]] = []
    for number in range(6):
        run = RunEpoch(f"run-{number}").observe(texts)
        record = run.next(texts)
        run = run.confirm(record)
        assert run.find_successor([*texts, run.metadata()]) is None
        texts = [later(run.metadata()) if number % 2 else run.metadata()]
        seen.append((record.run, run.first_generation))
    assert seen == [(number + 1, number * GENERATION_BLOCK) for number in range(6)]


@pytest.mark.parametrize("which", [str, later])
def test_a_driver_stops_for_a_later_run_of_any_version(which: Any) -> None:
    """A query that was upgraded, or rolled back, fences the one before it."""
    run = RunEpoch("mine").observe([])
    run = run.confirm(run.next([]))
    other = encode(CommitMetadata(2, 2000, "other", host="elsewhere"))
    assert run.find_successor([run.metadata(), which(other)]) == decode(other)


def test_a_first_batch_planned_by_one_is_replayed_by_the_other() -> None:
    """The start that was pinned and the end that was planned are found, in either direction."""
    plan = plan_of({ZERO: 9}, {})
    text = encode(CommitMetadata(1, 1000, "a", pin="ab12", plan=plan))
    for each in (text, later(text)):
        assert starts_beside({ZERO: (5, each)}, pin="ab12", plan=plan) == {ZERO: 5}


def test_a_hand_over_between_two_versions() -> None:
    """What is asked and answered is understood with fields more; an answer that nobody knows yet is none."""
    record = HandoverRecord(HandoverAnswer.PARKED, "q1", 7, "5f2c81aa", "driver-7")
    text = encode_handover(record)
    assert json.loads(text)["cohort"] == FORMAT
    assert decode_handover(later(text)) == record
    assert decode_handover(later(text, handover="postponed")) is None


def test_an_offset_of_a_checkpoint_with_names_that_nobody_knows_yet() -> None:
    """What a later version may add stands where no topic can: this one leaves it out, as Spark's own source does."""
    value = {"orders": {"0": 5}, "orders@lj7XrdGBSHu-2_Ybcic80w": {}, "@later:epochs": {}}
    assert read(value, "the checkpoint", 0) == {ZERO: 5}
    assert ids_in(value)["orders"] == "lj7XrdGBSHu-2_Ybcic80w"
