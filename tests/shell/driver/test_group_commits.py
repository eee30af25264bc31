"""Batches that Spark's commit log has, on their way to the real group."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.run_epoch import GENERATION_BLOCK
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver import group_commits as mirrors
from sparkcohort.runtime.shell.driver.group_commits import QUICK_S, GroupCommits
from sparkcohort.runtime.shell.driver.log_ends import LogEnds
from sparkcohort.runtime.shell.options.parse import parse
from tests.kit.mock import MockCluster
from tests.kit.waiting import wait_until


@pytest.fixture
def mirror(mock_broker: MockCluster, topic: str) -> Iterator[GroupCommits]:
    """A mirror that has begun, of a topic with one partition."""
    mock_broker.create_topic(topic)
    options = parse({"kafka.bootstrap.servers": mock_broker.bootstrap, "group.id": topic, "subscribe": topic})
    log_ends = LogEnds(options)
    found = GroupCommits(options, log_ends)
    try:
        log_ends.start()
        found.open()
        found.begin(found.initial())
        yield found
    finally:
        mock_broker.clear_failures("OffsetCommit")
        found.close()
        log_ends.close()


def refuse_commits(mock: MockCluster) -> None:
    """The group coordinator answers every commit with an error until ``clear_failures``."""
    mock.fail("OffsetCommit", KafkaError.INVALID_COMMIT_OFFSET_SIZE, times=10_000)


def last_generation(mirror: GroupCommits) -> int:
    """The last one that is reserved."""
    return mirror._membership.reservation.last_generation


def test_no_batch_waits_for_its_own_commit(mirror: GroupCommits, mock_broker: MockCluster, topic: str) -> None:
    """A commit is on its way when the batch goes on; the next batch's waits for it, and so does whoever asks."""
    tp = TopicPartition(topic, 0)
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
    mirror.commit({tp: 5}, generation=0, final=False)
    assert mirror.committed() == {tp: 3}, "the slow commit is still under way"
    wait_until(lambda: mirror.committed() == {tp: 5}, 10, "what came while it was under way")


def test_a_commit_that_failed_is_tried_again(
    mirror: GroupCommits, mock_broker: MockCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until Kafka has it, without another batch to bring it; nobody is told that it is done before."""
    monkeypatch.setattr(mirrors, "COMMIT_S", 0.2)
    monkeypatch.setattr(mirrors, "RETRY_S", 0.1)
    tp = TopicPartition(topic, 0)
    refuse_commits(mock_broker)
    mirror.commit({tp: 1}, generation=0, final=False)
    wait_until(lambda: mirror.counters().get("failures", 0) >= 2, 10, "the second failure")
    assert not mirror.settle(0.1)
    assert mirror.committed() == {tp: 0}
    mock_broker.clear_failures("OffsetCommit")
    assert mirror.settle(10)
    assert mirror.committed() == {tp: 1}


def test_generations_are_reserved_long_before_they_are_used_up(
    mirror: GroupCommits, mock_broker: MockCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the background, and again while the group coordinator is away; only the last one stops the query, with words."""
    monkeypatch.setattr(mirrors, "COMMIT_S", 0.2)
    monkeypatch.setattr(mirrors, "RETRY_S", 0.1)
    monkeypatch.setattr(mirrors, "START_S", 2.0)
    tp, last = TopicPartition(topic, 0), last_generation(mirror)
    mirror.commit({tp: 1}, generation=last - GENERATION_BLOCK // 2, final=True)
    assert last_generation(mirror) == last
    refuse_commits(mock_broker)
    for generation in (last - 50, last - 1):
        began = time.monotonic()
        mirror.commit({tp: 2}, generation=generation, final=False)
        assert time.monotonic() - began < 1.5, "nothing waits for a block that is not needed yet"
    with pytest.raises(CohortError, match="all generations reserved"):
        mirror.commit({tp: 3}, generation=last, final=False)
    mock_broker.clear_failures("OffsetCommit")
    wait_until(lambda: last_generation(mirror) == last + GENERATION_BLOCK, 10, "another block")
    mirror.commit({tp: 3}, generation=last, final=True)
    assert (mirror.committed(), last_generation(mirror)) == ({tp: 3}, last + GENERATION_BLOCK)


def test_generations_are_reserved_however_long_a_batch_takes(mirror: GroupCommits) -> None:
    """A thousand rebalances within one batch, of which no trigger tells."""
    last = last_generation(mirror)
    mirror.follow(lambda: last - 10)
    wait_until(lambda: last_generation(mirror) == last + GENERATION_BLOCK, 10, "another block")
