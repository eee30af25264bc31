"""The buffers of what a member owns, without a client: plans, ids of topics, errors of the past, and the budget."""

from __future__ import annotations

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError

from sparkcohort.runtime.batches.offset_runs import OffsetRuns
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.agent.buffers import Buffer, Reader
from sparkcohort.runtime.shell.agent.owned_buffers import RETRY_S, OwnedBuffers
from sparkcohort.runtime.shell.kafka.fetch.events import EndOfLog, PartitionError, Records

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
MIB = 1 << 20


@pytest.fixture
def owned() -> OwnedBuffers:
    """Two partitions, fetched from 0 by the client."""
    owned = OwnedBuffers(batch_bytes=MIB)
    owned.by_partition = {tp: Buffer(tp, 0, 0, 0) for tp in (A, B)}
    owned.budget = 64 * MIB
    assert owned.choose_targets(set(), 0.0).start == {A: 0, B: 0}
    return owned


def fetch(owned: OwnedBuffers, tp: TopicPartition, end: int, topic_id: str = "", nbytes: int = 100) -> None:
    """The client brings all records up to ``end``."""
    offsets = range(owned.by_partition[tp].position, end)
    rows = pa.record_batch({"offset": pa.array(offsets, pa.int64())})
    owned.store(Records(tp, end, rows, nbytes, OffsetRuns.from_offsets(offsets)), topic_id, rows, None, 0.0)


def plan(
    owned: OwnedBuffers, wanted: Range, start: int, number: int, topic_id: str = "", *, tells: bool = False
) -> list[str]:
    """A plan that reads this range: why it is missed, or can't be served from the start."""
    ids = {"t": topic_id} if topic_id else {}
    readers, missed = owned.begin([wanted], [start], number, ids, client_tells_ids=tells)
    return [reason for _, reason in missed] + [reason for reader in readers if (reason := owned.miss_reason(reader))]


def test_a_plan_frees_what_lies_below_its_start(owned: OwnedBuffers) -> None:
    """Asking for it is a miss then; a plan of before changes nothing."""
    for end in (100, 200):
        fetch(owned, A, end)
    assert plan(owned, Range(*A, 100, 200), 100, 2) == []
    assert (owned.by_partition[A].base, owned.by_partition[A].position) == (100, 200)
    assert plan(owned, Range(*A, 50, 200), 50, 1) == ["no longer buffered"]
    assert (owned.by_partition[A].base, owned.by_partition[A].position) == (100, 200)


@pytest.mark.parametrize("start", [50, 300])
def test_a_plan_that_starts_elsewhere_is_followed(owned: OwnedBuffers, start: int) -> None:
    """Below the last plan's start the topic was recreated; ahead of what is fetched others have read in between."""
    fetch(owned, A, 200)
    plan(owned, Range(*A, 100, 200), 100, 1)
    assert plan(owned, Range(*A, start, start + 9), start, 2) == []
    targets = owned.choose_targets({A, B}, 0.0)
    assert (targets.stop, targets.start) == ({A}, {A: start})


def test_records_of_a_client_without_ids_are_confirmed(owned: OwnedBuffers) -> None:
    """What came before the plan's id was known is fetched again; what no broker vouches for, or another topic's, is not taken."""
    fetch(owned, A, 100)
    plan(owned, Range(*A, 0, 100), 0, 1, "id-1")
    buffer = owned.by_partition[A]
    assert (buffer.position, buffer.live) == (0, False)
    assert owned.choose_targets({B}, 0.0).start == {A: 0}
    fetch(owned, A, 100)
    assert (buffer.position, buffer.live, buffer.retry_at) == (0, False, RETRY_S)
    owned.choose_targets({B}, RETRY_S)
    fetch(owned, A, 100, "id-1")
    assert (buffer.position, buffer.topic_id) == (100, "id-1")
    fetch(owned, A, 200, "id-2")
    assert (buffer.position, buffer.live, buffer.topic_id) == (0, False, "id-2")
    assert plan(owned, Range(*A, 0, 100), 0, 1, "id-1") == ["of another topic of that name"]


def test_an_error_of_where_fetching_stood_before_is_of_the_past(owned: OwnedBuffers) -> None:
    """It was on its way when a plan moved the partition elsewhere: it says nothing of the place where fetching is now."""
    fetch(owned, A, 200)
    buffer = owned.by_partition[A]
    buffer.move(5)
    buffer.live = True
    owned.store(PartitionError(A, KafkaError(KafkaError.OFFSET_OUT_OF_RANGE), 200), "", None, None, 0.0)
    assert (buffer.error, buffer.live) == ("", True)
    owned.store(PartitionError(A, KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), 5), "", None, None, 0.0)
    assert (bool(buffer.error), buffer.live) == (True, False)
    assert plan(owned, Range(*A, 5, 9), 5, 1) == [buffer.error]
    assert A not in owned.choose_targets({B}, RETRY_S / 2).start
    assert A in owned.choose_targets({B}, RETRY_S).start


def test_a_reader_comes_as_far_as_its_buffer(owned: OwnedBuffers) -> None:
    """The rest of its range comes with a later step, from there on: nothing is passed over."""
    readers, _ = owned.begin([Range(*A, 50, 300)], [0], 1, {}, client_tells_ids=True)
    for start, end in ((50, 200), (200, 300)):
        fetch(owned, A, end)
        step = owned.next_step(readers, [])
        assert step.batch is not None
        assert step.batch.column("offset").to_pylist() == list(range(start, end))
        assert (list(step.positions), bool(readers)) == ([(0, end)], end < 300)


def test_a_gap_moves_the_position(owned: OwnedBuffers) -> None:
    """The end of the log lies behind control records, which are no rows."""
    fetch(owned, A, 100)
    owned.store(EndOfLog(A, 101), "", None, None, 0.0)
    readers, _ = owned.begin([Range(*A, 99, 101)], [0], 1, {}, client_tells_ids=True)
    step = owned.next_step(readers, [])
    assert (list(step.positions), step.batch.num_rows if step.batch else 0, readers) == ([(0, 101)], 1, [])


def test_nothing_is_fetched_beyond_the_budget_but_what_a_task_waits_for(owned: OwnedBuffers) -> None:
    """For a task that waits the end of another buffer is given up; what was handed out goes first."""
    owned.budget = 4 * MIB
    for end in (100, 200, 300, 400):
        fetch(owned, A, end, nbytes=MIB)
    assert owned.choose_targets({A, B}, 0.0).is_paused
    reader = Reader(0, owned.by_partition[B], 0, 9)
    owned.by_partition[B].readers.append(reader)
    reader.begin_wait(0.0)
    targets = owned.choose_targets({A, B}, 0.0)
    assert not targets.is_paused and targets.stop == {A}
    assert owned.by_partition[A].position < 400
    readers, _ = owned.begin([Range(*A, 0, 100)], [0], 1, {}, client_tells_ids=True)
    owned.next_step(readers, [])
    assert owned.by_partition[A].base == 0
    reader.end_wait(2.0)
    assert owned.take_waits([], 2.0) == {B: (0, 2000.0)}
