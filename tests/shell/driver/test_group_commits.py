"""Batches that Spark's commit log has, on their way to the real group."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.run_epoch import GENERATION_BLOCK
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver import group_commits
from sparkcohort.runtime.shell.driver.group_commits import QUICK_S, GroupCommits
from sparkcohort.runtime.shell.driver.log_ends import LogEnds
from sparkcohort.runtime.shell.options.parse import parse
from tests.kit.mock import MockCluster
from tests.kit.waiting import wait_until


@pytest.fixture
def commits(mock_broker: MockCluster, topic: str) -> Iterator[GroupCommits]:
    """A query that has begun, of a topic with one partition."""
    mock_broker.create_topic(topic)
    options = parse({"kafka.bootstrap.servers": mock_broker.bootstrap, "group.id": topic, "subscribe": topic})
    log_ends = LogEnds(options)
    found = GroupCommits(options, log_ends)
    try:
        log_ends.start()
        found.open()
        found.begin(found.first.start())
        yield found
    finally:
        mock_broker.clear_failures("OffsetCommit")
        found.close()
        log_ends.close()


def refuse_commits(mock: MockCluster) -> None:
    """The group coordinator answers every commit with an error until ``clear_failures``."""
    mock.fail("OffsetCommit", KafkaError.INVALID_COMMIT_OFFSET_SIZE, times=10_000)


def last_generation(commits: GroupCommits) -> int:
    """The last one that is reserved."""
    return commits.membership.run_epoch.last_generation


def test_no_batch_waits_for_its_own_commit(commits: GroupCommits, mock_broker: MockCluster, topic: str) -> None:
    """A commit is on its way when the batch goes on; the next batch's waits for it, and so does whoever asks."""
    tp = TopicPartition(topic, 0)
    mock_broker.round_trip_ms(int(1000 * QUICK_S / 4))
    commits.commit({tp: 1}, final=False)
    assert commits.committed() == {tp: 0}
    commits.commit({tp: 2}, final=False)
    assert commits.committed() == {tp: 1}
    assert commits.flush()
    assert commits.committed() == {tp: 2}
    commits.commit({tp: 3}, final=True)
    assert commits.committed() == {tp: 3}
    mock_broker.round_trip_ms(int(1000 * QUICK_S * 4))
    commits.commit({tp: 4}, final=False)
    assert not commits.flush(), "a slow coordinator holds nothing up"
    commits.commit({tp: 5}, final=False)
    assert commits.committed() == {tp: 3}, "the slow commit is still under way"
    wait_until(lambda: commits.committed() == {tp: 5}, 10, "what came while it was under way")


def test_a_commit_that_failed_is_tried_again(
    commits: GroupCommits, mock_broker: MockCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until Kafka has it, without another batch to bring it; nobody is told that it is done before."""
    monkeypatch.setattr(group_commits, "COMMIT_S", 0.2)
    monkeypatch.setattr(group_commits, "RETRY_S", 0.1)
    tp = TopicPartition(topic, 0)
    refuse_commits(mock_broker)
    commits.commit({tp: 1}, final=False)
    wait_until(lambda: commits.totals()["failures"] >= 2, 10, "the second failure")
    assert not commits.flush(0.1)
    assert commits.totals()["pending_ms"] >= 100, "it has been due for as long as that"
    assert commits.totals()["last_commit_at"] is None
    assert commits.committed() == {tp: 0}
    mock_broker.clear_failures("OffsetCommit")
    assert commits.flush(10)
    assert commits.committed() == {tp: 1}
    totals = commits.totals()
    assert (totals["commits"], totals["durations"]["count"], totals["pending_ms"]) == (1, 1, 0)
    assert abs(totals["last_commit_at"] - time.time()) < 60


def test_generations_are_reserved_long_before_they_are_used_up(
    commits: GroupCommits, mock_broker: MockCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the background, and again while the group coordinator is away; only the last one stops the query, with words."""
    monkeypatch.setattr(group_commits, "COMMIT_S", 0.2)
    monkeypatch.setattr(group_commits, "RETRY_S", 0.1)
    monkeypatch.setattr(group_commits, "START_S", 30.0)
    tp, last = TopicPartition(topic, 0), last_generation(commits)
    used = [last - GENERATION_BLOCK // 2]
    commits.follow(lambda: used[-1])
    commits.commit({tp: 1}, final=True)
    assert last_generation(commits) == last
    refuse_commits(mock_broker)
    for generation in (last - 50, last - 1):
        began = time.monotonic()
        used.append(generation)
        commits.commit({tp: 2}, final=False)
        assert time.monotonic() - began < 15, "nothing waits for a block that is not needed yet"
    monkeypatch.setattr(group_commits, "START_S", 2.0)
    with pytest.raises(CohortError, match="all generations reserved"):
        used.append(last)
        commits.commit({tp: 3}, final=False)
    mock_broker.clear_failures("OffsetCommit")
    wait_until(lambda: last_generation(commits) == last + GENERATION_BLOCK, 10, "another block")
    commits.commit({tp: 3}, final=True)
    assert (commits.committed(), last_generation(commits)) == ({tp: 3}, last + GENERATION_BLOCK)


def test_generations_are_reserved_however_long_a_batch_takes(commits: GroupCommits) -> None:
    """A thousand rebalances within one batch, of which no trigger tells."""
    last = last_generation(commits)
    commits.follow(lambda: last - 10)
    wait_until(lambda: last_generation(commits) == last + GENERATION_BLOCK, 10, "another block")
