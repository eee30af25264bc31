"""When records were written that wait: a member knows it of what it has fetched, whatever columns its query reads."""

from __future__ import annotations

from sparkcohort.runtime.batches.record_ages import FirstRecord
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.agent.prefetch import Prefetcher
from sparkcohort.runtime.values.columns import KAFKA_ROW
from tests.kit.buffered import buffered
from tests.kit.mock import MockCluster
from tests.kit.produce import producer
from tests.kit.waiting import wait_until


def wait_for_records(prefetcher: Prefetcher, end: int) -> None:
    """Wait until everything owned is fetched up to ``end``."""
    wait_until(lambda: all(s.position >= end for s in buffered(prefetcher).values()), 20, "the buffers to fill")


def record_times(prefetcher: Prefetcher) -> dict[TopicPartition, list[FirstRecord]]:
    """When records were written that wait."""
    with prefetcher.owned() as owned:
        return owned.record_times()


def valued(mock: MockCluster, name: str) -> Prefetcher:
    """A prefetcher of values alone."""
    return Prefetcher(
        {"bootstrap.servers": mock.bootstrap},
        columns=tuple(each for each in KAFKA_ROW if each.name == name),
        buffer_bytes=8 << 20,
    )


def test_it_knows_when_waiting_records_were_written(mock_broker: MockCluster) -> None:
    """The first of the batch in flight and the first after it, whatever columns the query reads."""
    tp, early = TopicPartition("t", 0), 1_795_000_000_000
    mock_broker.create_topic("t", 1)
    client = producer(mock_broker.bootstrap, linger_ms=60_000)
    for number in range(100):
        client.produce("t", b"v", partition=0, timestamp=early + number)
    client.flush(30)
    prefetcher = valued(mock_broker, "value")
    try:
        prefetcher.assign({tp: 0})
        wait_for_records(prefetcher, 100)
        assert record_times(prefetcher) == {tp: [FirstRecord(0, 0, early)]}
        steps = list(prefetcher.serve([Range(*tp, 30, 70)], [30], 1))
        assert {name for step in steps if step.batch is not None for name in step.batch.schema.names} == {"value"}
        assert sorted(record_times(prefetcher)[tp]) == [
            FirstRecord(30, 30, early + 30),
            FirstRecord(70, 70, early + 70),
        ]
    finally:
        prefetcher.close()


def test_a_timestamp_that_no_row_can_hold_costs_whoever_does_not_read_it_only_the_ages(
    mock_broker: MockCluster,
) -> None:
    """Nanoseconds where milliseconds belong: the values are fetched ahead all the same."""
    tp = TopicPartition("t", 0)
    mock_broker.create_topic("t", 1)
    client = producer(mock_broker.bootstrap)
    for number in range(10):
        client.produce("t", b"%d" % number, partition=0, timestamp=1_795_000_000_000_000_000)
    client.flush(30)
    prefetcher = valued(mock_broker, "value")
    try:
        prefetcher.assign({tp: 0})
        wait_for_records(prefetcher, 10)
        assert record_times(prefetcher) == {}
    finally:
        prefetcher.close()
