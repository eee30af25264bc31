"""Up to a later version and back, on a real broker: the group's metadata is this version's, then a later one's, then this one's."""

from __future__ import annotations

import json

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from sparkcohort.runtime.kafka.run_epoch import FORMAT, GENERATION_BLOCK, CommitMetadata, decode
from tests.kit.broker import Broker
from tests.kit.calls import ALL, bare, called
from tests.kit.produce import produce
from tests.kit.waiting import wait_until


def newest(broker: Broker, group: str) -> CommitMetadata:
    """The record of the group's last run."""
    return max(decode(text) for text in broker.admin.committed_metadata(group).values())


def a_later_version_runs(broker: Broker, group: str, offsets: dict[int, int]) -> None:
    """What it leaves: these offsets, as its next run and block of generations, in a format with more in it."""
    before = newest(broker, group)
    value = json.loads(next(iter(broker.admin.committed_metadata(group).values())))
    value |= {"cohort": FORMAT + 1, "run": before.run + 1, "gen": before.generation + GENERATION_BLOCK, "id": "later"}
    text = json.dumps({"epochs": {"0": [1, 2]}, **value, "lease": None})
    wait_until(lambda: broker.admin.group_state(group) == "EMPTY", 30, "the end of the session")
    broker.admin.commit(group, group, offsets, text)


def test_up_and_back(broker: Broker, topic: str) -> None:
    """Where the later one ended this one goes on, as a later run with higher generations; nothing of its text is an error."""
    broker.admin.create_topic(topic, 2)
    produce(broker.bootstrap, topic, 40, partitions=2)
    short = {"session__timeout__ms": "2000", "heartbeat__interval__ms": "300"}
    with called(broker, topic, **short) as call:
        end = call("latestOffset", call("initialOffset"), ReadMaxRows(20))
        call("latestOffset", end, ReadMaxRows(0))
        wait_until(lambda: sum(broker.admin.committed(topic).values()) == 20, 30, "the commit")
    ours = newest(broker, topic)
    a_later_version_runs(broker, topic, {0: 15, 1: 15})
    with called(broker, topic, startingOffsets="committed", **short) as call:
        start = call("initialOffset")
        assert bare(start) == {topic: {"0": 15, "1": 15}}
        end = call("latestOffset", start, ALL)
        assert call.ranges(start, end) == {0: (15, 20), 1: (15, 20)}
        call("latestOffset", end, ALL)
        wait_until(lambda: sum(broker.admin.committed(topic).values()) == 40, 30, "the commit")
    back = newest(broker, topic)
    assert back.run == ours.run + 2
    assert back.generation >= ours.generation + 2 * GENERATION_BLOCK
    assert json.loads(next(iter(broker.admin.committed_metadata(topic).values())))["cohort"] == FORMAT


@pytest.mark.parametrize("by", ["this version", "a later version"])
def test_a_first_batch_that_was_planned_by(broker: Broker, topic: str, by: str) -> None:
    """It is replayed by this one from where it was planned, though the log has grown and startingOffsets says latest."""
    broker.admin.create_topic(topic, 1)
    produce(broker.bootstrap, topic, 10)
    short = {"session__timeout__ms": "2000", "heartbeat__interval__ms": "300"}
    with called(broker, topic, startingOffsets="latest", **short) as call:
        start = call("initialOffset")
        produce(broker.bootstrap, topic, 10, first=10)
        end = call("latestOffset", start, ALL)
    if by == "a later version":
        a_later_version_runs(broker, topic, {0: 10})
    produce(broker.bootstrap, topic, 10, first=20)
    with called(broker, topic, startingOffsets="latest", **short) as call:
        assert call.ranges(call("initialOffset"), end) == {0: (10, 20)}
