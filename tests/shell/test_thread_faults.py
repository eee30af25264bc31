"""Every call of every background thread fails once: all goes on, and nothing is held for good."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sparkcohort.runtime.protocol import TopicPartition
from sparkcohort.runtime.shell import mirror as mirrors
from sparkcohort.runtime.shell.log_ends import LogEnds
from sparkcohort.runtime.shell.mirror import Mirror
from sparkcohort.runtime.shell.options import SourceOptions, parse
from tests.support.broker import Broker
from tests.support.mock import MockCluster
from tests.support.produce import produce
from tests.support.thread_faults import ThreadFaults
from tests.support.waiting import wait_until

LIMIT_S = 90


def options_of(bootstrap: str, topic: str) -> SourceOptions:
    """Options under which metadata is looked at often."""
    return parse(
        {"kafka.bootstrap.servers": bootstrap, "group.id": topic, "subscribe": topic, "metadata.max.age.ms": "100"}
    )


@contextmanager
def log_ends(options: SourceOptions) -> Iterator[LogEnds]:
    """Started."""
    ends = LogEnds(options)
    try:
        ends.start()
        yield ends
    finally:
        ends.close()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("thread", ["cohort-log-ends", "cohort-metadata"])
def test_log_ends_go_on(thread: str, mock_broker: MockCluster, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends are current again, no partition is held, new partitions would be found."""
    mock_broker.create_topic(topic, 3)
    faults = ThreadFaults(monkeypatch, thread)
    with log_ends(options_of(mock_broker.bootstrap, topic)) as ends:
        wait_until(lambda: ends.refresh(0.05).partitions and faults.quiet(), LIMIT_S, "each call to have failed once")
        produce(mock_broker.bootstrap, topic, 30, partitions=3)
        wait_until(lambda: set(ends.refresh(0.2).ends.values()) == {10}, 10, "the new ends")
        assert ends.refresh(1).unreachable == {}
    assert len(faults.struck) > 8, faults.struck


@pytest.mark.timeout(240)
def test_suspects_are_asked_on(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that was silent while the thread which asks it failed in every way is found when it is back."""
    with MockCluster(2) as mock:
        mock.create_topic(topic, 2)
        for number in range(2):
            mock.set_leader(topic, number, number + 1)
        faults = ThreadFaults(monkeypatch, "cohort-suspects")
        with log_ends(options_of(mock.bootstrap, topic)) as ends:
            mock.round_trip_ms(5000, 2)
            wait_until(lambda: ends.refresh(0.3).unreachable and faults.quiet(), LIMIT_S, "each call to have failed")
            mock.round_trip_ms(0, 2)
            wait_until(lambda: not ends.refresh(0.2).unreachable, LIMIT_S, "broker 2 to answer again")
        assert len(faults.struck) > 8, faults.struck


@pytest.mark.timeout(240)
@pytest.mark.parametrize("thread", ["cohort-mirror", "cohort-kafka-group"])
def test_commits_go_on(thread: str, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The membership is one again, with another client, and what was committed last is in the group."""
    monkeypatch.setattr(mirrors, "COMMIT_S", 1.0)
    monkeypatch.setattr(mirrors, "RETRY_S", 0.05)
    broker.admin.create_topic(topic)
    options, tp, offsets = options_of(broker.bootstrap, topic), TopicPartition(topic, 0), itertools.count(1)
    with log_ends(options) as ends:
        mirror = Mirror(options, ends)
        faults = ThreadFaults(monkeypatch, thread)
        try:
            mirror.open()
            mirror.begin({tp: 0})

            def committing() -> bool:
                mirror.commit({tp: next(offsets)}, generation=0, final=False)
                return faults.quiet()

            wait_until(committing, LIMIT_S, "each call to have failed once")
            faults.armed = False
            last = next(offsets)
            mirror.commit({tp: last}, generation=0, final=True)
            assert broker.admin.committed(topic)[topic, 0] == last
            assert mirror.failure() is None
        finally:
            mirror.close()
    assert len(faults.struck) > 8, faults.struck
