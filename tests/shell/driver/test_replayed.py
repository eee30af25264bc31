"""Batches that are replayed though they can't be as planned: nothing is dropped without a word."""

from __future__ import annotations

import pytest

from sparkcohort.runtime.shell.driver.data_loss import DriverDataLoss
from sparkcohort.streaming.planner import StartBehindEnd
from tests.kit.broker import Broker
from tests.kit.calls import ALL, bare, called
from tests.kit.produce import produce

pytestmark = pytest.mark.usefixtures("impatience")


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_batch_that_goes_backwards_is_refused(broker: Broker, topic: str, fail: str) -> None:
    """Its start and its end are of two different plans, and the log does not show why: so what is to be read?"""
    broker.admin.create_topic(topic, 2)
    produce(broker.bootstrap, topic, 400, partitions=2)
    with called(broker, topic, failOnDataLoss=fail) as call:
        start, end = {topic: {"0": 70, "1": 10}}, {topic: {"0": 60, "1": 20}}
        with pytest.raises(Exception, match=f"goes backwards: {topic}-0 from 70 to 60") as refused:
            call("partitions", start, end)
        assert isinstance(refused.value.__cause__ or refused.value, StartBehindEnd)
        assert call.ranges({topic: {"0": 60, "1": 10}}, end) == {1: (10, 20)}


def test_a_log_that_was_cut_before_the_batch_was_planned(broker: Broker, topic: str) -> None:
    """Whoever planned it has accepted the loss; failOnDataLoss decides anew, and what is there of the batch is read."""
    broker.admin.create_topic(topic, 1)
    produce(broker.bootstrap, topic, 30)
    start, end = {topic: {"0": 100}}, {topic: {"0": 20}}
    with (
        called(broker, topic, failOnDataLoss="true") as call,
        pytest.raises(Exception, match="PARTITION_OFFSET_CHANGED"),
    ):
        call("partitions", start, end)
    with called(broker, topic, failOnDataLoss="false") as call:
        assert call.ranges(start, end) == {0: (0, 20)}


def test_a_loss_that_this_process_has_accepted(broker: Broker, topic: str) -> None:
    """The batch that takes it in reads nothing; the next one goes on at the log's beginning."""
    broker.admin.create_topic(topic, 1)
    produce(broker.bootstrap, topic, 30)
    broker.admin.delete_records(topic, {0: 5})
    start = {topic: {"0": 100}}
    with called(broker, topic, failOnDataLoss="false") as call:
        end = start
        while end == start:
            end = call("latestOffset", start, ALL)
        assert bare(end) == {topic: {"0": 5}}
        assert call.ranges(start, end) == {}
        following = call("latestOffset", end, ALL)
        assert call.ranges(end, following) == {0: (5, 30)}


def test_partitions_that_the_plan_leaves_out(broker: Broker, topic: str) -> None:
    """They were taken for deleted, which failOnDataLoss decides on, as Spark's source does when it plans the batch."""
    broker.admin.create_topic(topic, 2)
    produce(broker.bootstrap, topic, 40, partitions=2)
    start, end = {topic: {"0": 10, "1": 10}}, {topic: {"0": 20}}
    with (
        called(broker, topic, failOnDataLoss="true") as call,
        pytest.raises(Exception, match="PARTITIONS_DELETED") as lost,
    ):
        call("partitions", start, end)
    assert isinstance(lost.value.__cause__ or lost.value, DriverDataLoss)
    with called(broker, topic, failOnDataLoss="false") as call:
        assert call.ranges(start, end) == {0: (10, 20)}


def test_a_new_partition_that_has_aged_out_since(broker: Broker, topic: str) -> None:
    """Planned up to an end that its log now begins behind: the loss is told, and the others are read."""
    broker.admin.create_topic(topic, 2)
    produce(broker.bootstrap, topic, 40, partitions=2)
    broker.admin.delete_records(topic, {1: 18})
    start, end = {topic: {"0": 10}}, {topic: {"0": 20, "1": 15}}
    with (
        called(broker, topic, failOnDataLoss="true") as call,
        pytest.raises(Exception, match="DOES_NOT_START_FROM_OFF"),
    ):
        call("partitions", start, end)
    with called(broker, topic, failOnDataLoss="false") as call:
        assert call.ranges(start, end) == {0: (10, 20)}
