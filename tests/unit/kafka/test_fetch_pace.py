"""How often a broker is asked, whatever it answers: the clock is an argument."""

from __future__ import annotations

import pytest

from sparkcohort.runtime.kafka.fetch_messages import Node
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient
from sparkcohort.runtime.shell.kafka.fetch.backoff import backoff
from sparkcohort.runtime.shell.kafka.fetch.broker import FetchLink, FrameReader
from sparkcohort.runtime.shell.kafka.fetch.cluster import Cluster
from sparkcohort.runtime.shell.kafka.fetch.settings import settings_of
from sparkcohort.runtime.shell.options.client_defaults import DRIVER
from sparkcohort.runtime.shell.options.connection_settings import (
    ConnectionRefused,
    TransportError,
)
from sparkcohort.runtime.shell.options.parse import parse
from tests.kit.options import LEAST


def link() -> FetchLink:
    """One that is not connected."""
    return FetchLink(1, Node("b", 9092), "me", FrameReader(1, 1))


@pytest.mark.parametrize(("error", "most"), [(TransportError("x"), 1), (ConnectionRefused("x"), 10), (None, 1)])
def test_each_failure_is_answered_by_a_longer_wait(error: Exception | None, most: float) -> None:
    """Doubled from a tenth of a second up to a bound that depends on what went wrong; never twice the same."""
    waits = [backoff(failures, error) for failures in range(1, 40)]
    assert 0.08 <= waits[0] <= 0.12
    assert all(0.8 * min(0.1 * 2**n, most) <= waits[n] <= 1.2 * min(0.1 * 2**n, most) for n in range(39))
    assert len(set(waits)) > 30
    assert 0.8 * most <= backoff(10**9, error) <= 1.2 * most


def test_an_answer_with_nothing_is_followed_at_a_brokers_pace() -> None:
    """Asked at 0, answered at once: the next request waits as long as the broker should have, within bounds."""
    for max_wait_s, due in ((0.04, 0.04), (0.0, 0.02), (5.0, 0.1)):
        of = link()
        of._asked_at = 10.0
        of.record_answer(0, 0, 10.001)
        of.keep_pace(max_wait_s)
        assert of.rest_s(10.001, 0.0) == pytest.approx(due - 0.001)
        assert of.rest_s(10.0 + due + 0.001, 0.0) == 0


def test_errors_of_a_whole_answer_come_ever_more_slowly() -> None:
    """A right one begins anew; a broker that throttles is left alone, though not for weeks."""
    of = link()
    rests = []
    for _ in range(8):
        of.record_answer(0, -1, 10.0)
        rests.append(of.rest_s(10.0, 0.0))
    assert rests[0] < 0.2 < rests[3] < rests[6] * 1.6
    assert 0.8 <= rests[-1] <= 1.2
    of.record_answer(0, 0, 10.0)
    assert (of.failures, of.rest_s(10.0, 0.0)) == (0, 0)
    of.record_answer(2_500, 0, 10.0)
    assert of.rest_s(10.0, 0.0) == 2.5
    of.record_answer(2**31 - 1, 0, 10.0)
    assert of.rest_s(10.0, 0.0) == 60


def test_metadata_that_are_refused() -> None:
    """The wait for the next question grows whether something is missing or not, until there is an answer."""
    cluster = Cluster(ClusterClient({}), float("inf"))
    now, gaps = 100.0, []
    for _ in range(12):
        assert cluster.is_due(missing=True, now=now)
        cluster.take_answer(ConnectionRefused("not you"), now)
        assert not cluster.is_due(missing=False, now=now)
        due = next(step for step in range(1, 10_000) if cluster.is_due(missing=True, now=now + step / 100))
        gaps.append(due / 100)
        now += due / 100
    assert gaps[0] < 0.2
    assert 8 <= gaps[-1] <= 12


def test_librdkafka_is_held_back() -> None:
    """Its own back-off is forgotten with every new beginning: a second is the least, whatever a user has set."""
    options = parse({**LEAST, "kafka.reconnect.backoff.ms": "50"})
    assert [warning for warning in options.warnings if "kafka.reconnect.backoff.ms has no effect" in warning]
    assert settings_of(options.kafka)["reconnect.backoff.ms"] == DRIVER["reconnect.backoff.ms"] == "1000"
