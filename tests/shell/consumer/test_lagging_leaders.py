"""A range that starts behind the log's end for a moment, as a new leader's may that lags: read as far as the log goes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from sparkcohort.runtime.batches import suspected_loss
from sparkcohort.runtime.protocol.partitions import Range
from sparkcohort.runtime.shell.kafka import blocking_client
from sparkcohort.runtime.shell.kafka.fetch.range_reader import RangeReader
from tests.kit.broker import Broker
from tests.kit.produce import produce
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.usefixtures("each_source", "impatience")


@pytest.fixture
def patience(impatience: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a busy machine takes to write."""
    monkeypatch.setattr(suspected_loss, "LAG_S", 60.0)


@contextmanager
def in_doubt(broker: Broker, wanted: Range, **more: Any) -> Iterator[Future[list[int]]]:
    """The offsets of a range, read in a thread that has already been told that the log ends before it."""
    with (
        ThreadPoolExecutor(1) as thread,
        closing(RangeReader({"bootstrap.servers": broker.bootstrap}, **more)) as reader,
        patch.object(blocking_client, "log_range", wraps=blocking_client.log_range) as asked,
    ):

        def offsets() -> list[int]:
            pieces = [batch.column("offset").to_pylist() for _, _, batch in reader.read([wanted]) if batch]
            return [offset for piece in pieces for offset in piece]

        found = thread.submit(offsets)
        wait_until(lambda: asked.call_count > 1 or found.done(), 30, "a doubt")
        assert not found.done()
        yield found


@pytest.mark.usefixtures("patience")
def test_a_log_that_catches_up_by_and_by(broker: Broker, topic: str) -> None:
    """First to where the range starts, then into it, then to its end: nothing is lost, and no time-out is waited for."""
    broker.admin.create_topic(topic)
    produce(broker.bootstrap, topic, 5)
    with in_doubt(broker, Range(topic, 0, 8, 15)) as found:
        for _ in range(12):
            produce(broker.bootstrap, topic, 1)
        assert found.result(50) == list(range(8, 15))


def test_what_the_log_has_is_read_before_the_rest_is_given_up(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With failOnDataLoss=false the offsets that exist are delivered, and only the others told of as lost."""
    monkeypatch.setattr(suspected_loss, "LAG_S", 3.0)
    broker.admin.create_topic(topic)
    produce(broker.bootstrap, topic, 5)
    losses: list[str] = []
    with in_doubt(broker, Range(topic, 0, 8, 15), fail_on_data_loss=False, on_data_loss=losses.append) as found:
        produce(broker.bootstrap, topic, 7)
        assert found.result(50) == list(range(8, 12))
    assert len(losses) == 1
    assert "offset [12, 15)" in losses[0]
