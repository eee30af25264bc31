"""When records were written that wait: a member knows it of what it has fetched, whatever columns its query reads."""

from __future__ import annotations

from sparkcohort.runtime.batches.record_ages import FirstRecord
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.agent.prefetch import Prefetcher
from sparkcohort.runtime.values.columns import KAFKA_ROW
from tests.kit.buffered import buffered
from tests.kit.mock import MockCluster
from tests.kit.produce import gathering
from tests.kit.waiting import wait_until


def test_it_knows_when_waiting_records_were_written(mock_broker: MockCluster) -> None:
    """The first of the batch in flight and the first after it, whatever columns the query reads."""
    tp, early = TopicPartition("t", 0), 1_795_000_000_000
    mock_broker.create_topic("t", 1)
    client = gathering(mock_broker.bootstrap, "t")
    for number in range(100):
        client.produce("t", b"v", partition=0, timestamp=early + number)
    client.flush(30)
    value = tuple(each for each in KAFKA_ROW if each.name == "value")
    prefetcher = Prefetcher({"bootstrap.servers": mock_broker.bootstrap}, columns=value)

    def record_times() -> list[FirstRecord]:
        with prefetcher.owned() as owned:
            return sorted(owned.record_times()[tp])

    try:
        prefetcher.assign({tp: 0})
        wait_until(lambda: buffered(prefetcher)[tp].position >= 100, 20, "the buffer to fill")
        assert record_times() == [FirstRecord(0, 0, early)]
        steps = list(prefetcher.serve([Range(*tp, 30, 70)], [30], 1))
        assert {name for step in steps if step.batch is not None for name in step.batch.schema.names} == {"value"}
        assert record_times() == [
            FirstRecord(30, 30, early + 30),
            FirstRecord(70, 70, early + 70),
        ]
    finally:
        prefetcher.close()
