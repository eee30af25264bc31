"""Batch 0 over restarts, on a real broker: it is read from where it was planned, or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from sparkcohort.runtime.kafka.run_epoch import decode
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver.kafka_membership import GroupMembership
from tests.kit.broker import Broker
from tests.kit.calls import ALL, bare, called
from tests.kit.produce import produce
from tests.kit.waiting import wait_until

UNKNOWN = "does not know where it starts"


def test_it_is_replayed_as_it_was_planned(broker: Broker, topic: str) -> None:
    """However often the driver ends, and whatever the log holds by then; then its commit takes the pin's place."""
    broker.admin.create_topic(topic, 2)
    produce(broker.bootstrap, topic, 20, partitions=2)
    with called(broker, topic, startingOffsets="latest") as call:
        start = call("initialOffset")
        produce(broker.bootstrap, topic, 20, partitions=2, first=10)
        end = call("latestOffset", start, ALL)
        assert bare(end) == {topic: {"0": 20, "1": 20}}
    for again in range(2):
        produce(broker.bootstrap, topic, 20, partitions=2, first=20 + 10 * again)
        with called(broker, topic, startingOffsets="latest") as call:
            told = call("initialOffset")
            assert call.ranges(told, end) == {0: (10, 20), 1: (10, 20)}
            assert call.ranges(told, end) == {0: (10, 20), 1: (10, 20)}  # as where a stream is united with itself
            if again:
                assert bare(call("latestOffset", end, ALL)) == {topic: {"0": 40, "1": 40}}
                # A driver that has only begun to join ends without it, and the next one commits.
                ends = {(topic, 0): 20, (topic, 1): 20}
                wait_until(lambda: broker.admin.committed(topic) == ends, 60, "the commit")  # noqa: B023
    found = {decode(text) for text in broker.admin.committed_metadata(topic).values()}
    assert {(record.pin, record.plan) for record in found} == {("", "")}


def test_what_the_fallback_leaves_out_starts_at_the_earliest(broker: Broker, topic: str) -> None:
    """A partition that neither the start nor the fallback names is read whole."""
    broker.admin.create_topic(topic, 3)
    produce(broker.bootstrap, topic, 30, partitions=3)
    start, fallback = (json.dumps({topic: {partition: offset}}) for partition, offset in (("0", 7), ("1", 4)))
    with called(broker, topic, startingOffsets=start, startingOffsets__fallback=fallback) as call:
        assert bare(call("initialOffset")) == {topic: {"0": 7, "1": 4, "2": 0}}


@pytest.mark.parametrize("before", ["nothing", "another end", "the same end", "an older version", "commits"])
def test_one_that_this_group_did_not_plan_is_refused(broker: Broker, topic: str, before: str) -> None:
    """As a checkpoint of ``format("kafka")`` has it, with the start where no Python source sees it; nothing changes."""
    broker.admin.create_topic(topic, 1)
    produce(broker.bootstrap, topic, 70)
    if before != "nothing":
        leave(broker, topic, before)
    kept = broker.admin.committed(topic), broker.admin.committed_metadata(topic)
    planned = {topic: {"0": 60}}
    for starting in ("latest", "committed", "latest"):
        with called(broker, topic, startingOffsets=starting) as call:
            start = call("initialOffset")
            with pytest.raises(Exception, match=UNKNOWN) as refused:
                call("partitions", start, planned)
        assert "checkpointLocation" in str(refused.value)
        assert (broker.admin.committed(topic), broker.admin.committed_metadata(topic)) == kept


def test_one_that_this_group_knows_in_part_is_refused(broker: Broker, topic: str) -> None:
    """Somebody has committed one of its partitions since: where that one started nobody knows."""
    broker.admin.create_topic(topic, 2)
    produce(broker.bootstrap, topic, 20, partitions=2)
    with called(broker, topic) as call:
        end = call("latestOffset", call("initialOffset"), ALL)
        session = call.reader._session
        assert session is not None
        member = session.commits.membership
        member.commit({TopicPartition(topic, 1): (5, member.run_epoch.metadata())})
    with called(broker, topic) as call:
        start = call("initialOffset")
        assert bare(start) == {topic: {"0": 0, "1": 0}}, "a pin of some speaks for none"
        with pytest.raises(Exception, match=UNKNOWN):
            call("partitions", start, end)


def leave(broker: Broker, topic: str, what: str) -> None:
    """What an earlier query has left in the group."""
    if what == "commits":
        broker.admin.commit(topic, topic, {0: 20})
        return
    if what == "the same end":  # planned on another checkpoint, from another start
        with called(broker, topic, startingOffsets=json.dumps({topic: {"0": 50}})) as call:
            assert bare(call("latestOffset", call("initialOffset"), ReadMaxRows(10))) == {topic: {"0": 60}}
        return
    with called(broker, topic, startingOffsets="latest") as call:
        call("latestOffset", call("initialOffset"), ALL)
        if what == "an older version":  # which pinned the start, and no plan
            session = call.reader._session
            assert session is not None
            member, pin = session.commits.membership, call.reader._options.initial_hash()
            member.commit({TopicPartition(topic, 0): (70, member.run_epoch.metadata(pin))})


def test_a_partition_that_came_with_the_first_batch(broker: Broker, topic: str) -> None:
    """It is planned from its beginning, and read from there after a restart."""
    broker.admin.create_topic(topic, 1)
    produce(broker.bootstrap, topic, 10)
    with called(broker, topic, startingOffsets="latest", metadata__max__age__ms="200") as call:
        start = call("initialOffset")
        broker.admin.add_partitions(topic, 2)
        produce(broker.bootstrap, topic, 20, partitions=2, first=10)
        end = start
        while "1" not in end[topic]:
            end = call("latestOffset", start, ALL)
        assert call.ranges(start, end) == {0: (10, 20), 1: (0, end[topic]["1"])}
    with called(broker, topic, startingOffsets="latest") as call:
        assert call.ranges(call("initialOffset"), end) == {0: (10, 20), 1: (0, end[topic]["1"])}


def test_nothing_of_ours_in_the_first_batch(broker: Broker, topic: str) -> None:
    """Another source of the query had something: the batch ends for us where it starts, and is known as ours."""
    broker.admin.create_topic(topic, 1)
    produce(broker.bootstrap, topic, 10)
    with called(broker, topic, startingOffsets="latest") as call:
        start = call("initialOffset")
        assert call("latestOffset", start, ALL) == start
    produce(broker.bootstrap, topic, 10, first=10)
    with called(broker, topic, startingOffsets="earliest") as call:
        assert call.ranges(call("initialOffset"), start) == {}
        end = call("latestOffset", start, ALL)
        assert bare(end) == {topic: {"0": 20}}
        assert call.ranges(start, end) == {0: (10, 20)}


def test_what_is_planned_is_committed_when_it_changes(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before Spark is told, and not once more at each of the calls in which nothing new has come."""
    commits: list[Mapping[Any, Any]] = []
    commit = GroupMembership.commit

    def noted(membership: GroupMembership, offsets: Mapping[Any, Any], *rest: Any, **named: Any) -> Any:
        commits.extend([offsets] if offsets else [])
        return commit(membership, offsets, *rest, **named)

    monkeypatch.setattr(GroupMembership, "commit", noted)
    broker.admin.create_topic(topic, 1)
    with called(broker, topic) as call:
        start = call("initialOffset")
        assert call("initialOffset") == start
        assert not broker.admin.committed(topic), "an answer alone writes nothing"
        for _ in range(20):
            assert call("latestOffset", start, ALL) == start
        assert len(commits) == 1
        produce(broker.bootstrap, topic, 10)
        end = call("latestOffset", start, ALL)
        assert len(commits) == 2
        assert call("latestOffset", end, ALL) == end
        assert len(commits) == 3
        for _ in range(20):
            call("latestOffset", end, ALL)
        assert len(commits) == 3


def test_a_start_that_has_aged_out(broker: Broker, topic: str) -> None:
    """It is where it was pinned, to be read, and failOnDataLoss decides; a batch that was planned is not cut short for it."""
    broker.admin.create_topic(topic, 2)
    produce(broker.bootstrap, topic, 40, partitions=2)
    with called(broker, topic) as call:
        end = call("latestOffset", call("initialOffset"), ALL)
    broker.admin.delete_records(topic, {1: 5})
    for planned in (end, None):
        with called(broker, topic) as call:
            told = call("initialOffset")
            assert bare(told) == {topic: {"0": 0, "1": 0}}
            assert call.ranges(told, planned or call("latestOffset", told, ALL)) == {0: (0, 20), 1: (0, 20)}


def test_runs_that_are_over_leave_nothing_in_a_process_that_goes_on(broker: Broker, topic: str) -> None:
    """No thread, no client, no descriptor, however many queries one process has begun and ended."""
    broker.admin.create_topic(topic, 1)
    produce(broker.bootstrap, topic, 10)

    def held() -> tuple[int, int]:
        with called(broker, topic) as call:
            call("latestOffset", call("initialOffset"), ALL)
        return sum(1 for _ in Path("/proc/self/task").iterdir()), sum(1 for _ in Path("/proc/self/fd").iterdir())

    lives = [held() for _ in range(6)]
    assert all(last < 2 * first for first, last in zip(lives[0], lives[-1], strict=True)), lives
