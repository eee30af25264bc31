"""Two drivers that hand a group over through a real broker (deaths at any step: tests/simulator/handover.py)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from sparkcohort.runtime.kafka import handover as machine
from tests.kit.broker import Broker
from tests.kit.calls import ALL, bare, called
from tests.kit.produce import produce
from tests.kit.waiting import wait_until

NEXT = {"startingOffsets": "committed", "handover": "graceful"}


def test_the_next_driver_begins_where_the_one_before_has_ended(
    broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In the middle of a batch nothing stops; then the old one ends on purpose, and nobody is fenced."""
    caplog.set_level("INFO")
    broker.admin.create_topic(topic)
    produce(broker.bootstrap, topic, 20)
    with called(broker, topic) as old, called(broker, topic, **NEXT) as new, ThreadPoolExecutor(1) as beside:
        start = old("initialOffset")
        end = old("latestOffset", start, ReadMaxRows(10))
        session = old.reader._session
        assert session is not None
        begins = beside.submit(new, "initialOffset")
        wait_until(lambda: session.handover.requested, 30, "the request")
        assert old.ranges(start, end) == {0: (0, 10)}
        with pytest.raises(Exception, match=f"^HANDED_OVER: group {topic} .*The query has ended on purpose"):
            old("latestOffset", end, ALL)
        begin = begins.result(30)
        assert new.ranges(begin, new("latestOffset", begin, ALL)) == {0: (10, 20)}
    assert "the driver before has committed its last batch and stopped" in caplog.text
    assert "ends that one" not in caplog.text


def test_a_driver_that_has_died_is_not_waited_for(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a sign for long the next one starts, as without a hand-over."""
    monkeypatch.setattr(machine, "SIGN_MS", 1_000)
    broker.admin.create_topic(topic)
    produce(broker.bootstrap, topic, 20)
    with called(broker, topic) as old:
        old("latestOffset", old("initialOffset"), ALL)
    with called(broker, topic, **NEXT) as new:
        assert bare(new("initialOffset")) == {topic: {"0": 0}}
    assert "the driver before gives no sign" in caplog.text
