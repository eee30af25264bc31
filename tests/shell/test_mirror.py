"""Batches that Spark's commit log has, on their way to the real group."""

from __future__ import annotations

from sparkcohort.runtime.protocol import TopicPartition
from sparkcohort.runtime.shell.log_ends import LogEnds
from sparkcohort.runtime.shell.mirror import QUICK_S, Mirror
from sparkcohort.runtime.shell.options import parse
from tests.support.mock import MockCluster
from tests.support.waiting import wait_until


def test_no_batch_waits_for_its_own_commit(mock_broker: MockCluster, topic: str) -> None:
    """A commit is on its way when the batch goes on; the next batch's waits for it, and so does whoever asks."""
    mock_broker.create_topic(topic)
    options = parse({"kafka.bootstrap.servers": mock_broker.bootstrap, "group.id": topic, "subscribe": topic})
    log_ends, tp = LogEnds(options), TopicPartition(topic, 0)
    mirror = Mirror(options, log_ends)
    try:
        log_ends.start()
        mirror.open()
        mirror.begin(mirror.initial())
        mock_broker.round_trip_ms(int(1000 * QUICK_S / 4))
        mirror.commit({tp: 1}, generation=0, final=False)
        assert mirror.committed() == {tp: 0}
        mirror.commit({tp: 2}, generation=0, final=False)
        assert mirror.committed() == {tp: 1}
        assert mirror.settle()
        assert mirror.committed() == {tp: 2}
        mirror.commit({tp: 3}, generation=0, final=True)
        assert mirror.committed() == {tp: 3}
        mock_broker.round_trip_ms(int(1000 * QUICK_S * 4))
        mirror.commit({tp: 4}, generation=0, final=False)
        assert not mirror.settle(), "a slow coordinator holds nothing up"
        wait_until(lambda: mirror.committed() == {tp: 4}, 10, "the slow commit")
    finally:
        mirror.close()
        log_ends.close()
