"""What the driver makes of logs that were cut and topics that were made anew, on a real broker; time is the test's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import cast

import pytest

from sparkcohort.runtime.batches.snapshot import Snapshot
from sparkcohort.runtime.batches.suspected_loss import LAG_S
from sparkcohort.runtime.kafka.leader_epochs import Question
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver.data_loss import DataLoss, DriverDataLoss, Losses
from sparkcohort.runtime.shell.driver.log_ends import LogEnds
from sparkcohort.runtime.shell.options.parse import parse
from tests.kit.broker import Broker
from tests.kit.produce import open_transaction, produce
from tests.kit.waiting import wait_until

Look = Callable[[dict[TopicPartition, int], float], Losses]


class Watched:
    """The log ends of one topic, and the decisions made of them."""

    def __init__(self, log_ends: LogEnds, *, fail: bool) -> None:
        """``fail``: failOnDataLoss."""
        self.log_ends, self.loss = log_ends, DataLoss(log_ends, fail=fail)
        self.ids = dict(log_ends.snapshot().ids)

    def find_losses(self, start: dict[TopicPartition, int], now: float) -> Losses:
        """The decision at this time, upon answers of now."""
        return self.loss.find_losses(start, self.ids, self.log_ends.refresh(2), now)


@contextmanager
def watched(
    broker: Broker, topic: str, *, fail: bool = True, options: Mapping[str, str | None] | None = None
) -> Iterator[Watched]:
    """The topic, watched; ``options`` besides."""
    said = {"kafka.bootstrap.servers": broker.bootstrap, "group.id": topic, "subscribe": topic, **(options or {})}
    given = {name: value for name, value in said.items() if value is not None}
    log_ends = LogEnds(parse({**given, "metadata.max.age.ms": "100"}))
    try:
        log_ends.start()
        yield Watched(log_ends, fail=fail)
    finally:
        log_ends.close()


def test_deleted_partitions(broker: Broker, topic: str) -> None:
    """They are a loss by another name; partitions that come are none."""
    broker.admin.create_topic(topic, 2)
    start = {TopicPartition(topic, 0): 0, TopicPartition(topic, 7): 3}
    with watched(broker, topic) as of, pytest.raises(DriverDataLoss, match=f"Partitions {topic}-7 have been deleted"):
        of.find_losses(start, 0.0)
    with watched(broker, topic, fail=False) as of:
        assert of.find_losses(start, 0.0).deleted == {TopicPartition(topic, 7)}
        assert of.find_losses({TopicPartition(topic, 0): 0}, 0.0) == Losses(ids=of.ids)


@pytest.mark.parametrize(
    "option", ["subscribe:{}", "assign:{}-0", "subscribePattern:^{}$"], ids=["subscribe", "assign", "subscribePattern"]
)
def test_what_is_no_longer_asked_for_is_called_so(broker: Broker, topic: str, option: str) -> None:
    """A topic of the checkpoint that the option leaves out, and that is there: the option is named."""
    other = f"{topic}-other"
    for each in (topic, other):
        broker.admin.create_topic(each)
    start = {TopicPartition(each, 0): 0 for each in (topic, other)}
    kind, _, value = option.format(topic).partition(":")
    given = {"subscribe": None, kind: json.dumps({topic: [0]}) if kind == "assign" else value}
    with watched(broker, topic, options=given) as of, pytest.raises(DriverDataLoss) as told:
        of.find_losses(start, 0.0)
    assert told.value.error == "KAFKA_DATA_LOSS.PARTITIONS_DELETED"
    words = f"Partitions {other}-0 have been deleted, or {option.format(topic)} no longer selects them"
    assert words in str(told.value)
    with watched(broker, topic, fail=False, options=given) as of:
        assert of.find_losses(start, 0.0).deleted == {TopicPartition(other, 0)}


def test_a_position_behind_an_open_transaction_is_no_loss(broker: Broker, topic: str) -> None:
    """An uncommitted reader has come to it: with read_committed it is held until the transaction ends."""
    broker.admin.create_topic(topic)
    produce(broker.bootstrap, topic, 5)
    client = open_transaction(broker.bootstrap, topic, 5, 10)
    tp = TopicPartition(topic, 0)
    with watched(broker, topic, options={"kafka.isolation.level": "read_committed"}) as of:
        for number in range(8):
            losses = of.find_losses({tp: 8}, number * LAG_S)
            assert (set(losses.doubted), dict(losses.reset)) == ({tp}, {})
        with pytest.raises(DriverDataLoss, match=f"{topic}-0 offset was changed from 11 to 5"):
            for number in range(8, 16):
                of.find_losses({tp: 11}, number * LAG_S)
        client.commit_transaction(30)
        wait_until(lambda: of.log_ends.refresh(2).ends[tp] == 11, 20, "the end of the transaction")
        assert of.find_losses({tp: 8}, 16 * LAG_S) == Losses(ids=of.ids)


class DeposedLeaders:
    """Log ends as they are told by leaders of any epoch; the log of epoch 3 ended at 500 where epoch 4 began."""

    def __init__(self) -> None:
        """``asked`` keeps what was asked about ends of epochs."""
        self.asked: list[int] = []

    @property
    def epoch_ends(self) -> DeposedLeaders:
        """Itself."""
        return self

    def look_up(self, asked: Mapping[TopicPartition, Question]) -> dict[TopicPartition, int]:
        """Where the epochs that are asked about ended."""
        self.asked += [each.epoch for each in asked.values()]
        return dict.fromkeys(asked, 500)

    def behind_transactions(self, _positions: object) -> frozenset[TopicPartition]:
        """None is open."""
        return frozenset()

    def doubt(self) -> None:
        """Nobody is told."""


def test_a_deposed_leader_makes_no_loss_of_what_its_successor_has() -> None:
    """It answers once more, after a thaw: its end is doubted, and the epoch that was known stays."""
    tp, leaders = TopicPartition("t", 0), DeposedLeaders()
    loss = DataLoss(cast("LogEnds", leaders), fail=True)
    for answer, (epoch, end) in enumerate([(4, 1000), (3, 500), (4, 1001), (3, 499), (4, 1002)]):
        told = Snapshot({tp: end}, {}, frozenset({tp}), {"t": "id"}, answer, answer, {tp: epoch})
        losses = loss.find_losses({tp: 1000}, {}, told, float(answer))
        assert set(losses.doubted) == ({tp} if epoch == 3 else set())
        assert loss.epochs == {tp: 4}
    assert leaders.asked == []
    told = Snapshot({tp: 1100}, {}, frozenset({tp}), {"t": "id"}, 6, 6, {tp: 5})
    with pytest.raises(DriverDataLoss, match="Under leader epoch 4 it went to 1000 at least; the leader of epoch 5"):
        loss.find_losses({tp: 1000}, {}, told, 6.0)


def test_a_shortened_log_is_a_loss_once_brokers_have_said_so() -> None:
    """For as long as a leader may lag; one that doesn't answer confirms nothing, however long ago the doubt began."""
    tp, loss = TopicPartition("t", 0), DataLoss(cast("LogEnds", DeposedLeaders()), fail=True)

    def losses(answer: int, now: float, silent: Mapping[TopicPartition, str]) -> Losses:
        told = Snapshot({tp: 40}, silent, frozenset({tp}), {"t": "id"}, answer, answer)
        return loss.find_losses({tp: 100}, {}, told, now)

    assert set(losses(1, 0.0, {}).doubted) == set(losses(2, 0.9 * LAG_S, {}).doubted) == {tp}
    assert losses(3, 3 * LAG_S, {tp: "no answer"}) == Losses(ids={"t": "id"})
    assert losses(4, 4 * LAG_S, {}).doubted and losses(5, 4.5 * LAG_S, {}).doubted
    with pytest.raises(DriverDataLoss, match="t-0 offset was changed from 100 to 40"):
        losses(6, 5 * LAG_S, {})
