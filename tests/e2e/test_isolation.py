"""A leader that is slow: its partition waits, the others don't, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.application import Application, Status
from tests.kit.broker import Cluster
from tests.kit.produce import Steady
from tests.kit.prometheus import alerting
from tests.kit.streams import options

SLOW = 3  # the partition on the second broker
BYTES_PER_SECOND = 12_000  # of about 25,000 that are written to it


def late(status: Status) -> set[int]:
    """The partitions that are shown as late."""
    return {row["partition"] for row in status["partitions"] if row["late"]}


def figures(status: Status, name: str) -> dict[int, int]:
    """Lags or offsets by partition."""
    return {row["partition"]: row[name] or 0 for row in status["partitions"]}


def _lags_alone(status: Status) -> bool:
    lags = figures(status, "lag")
    return bool(lags[SLOW] > 1_500 and all(lag < lags[SLOW] / 2 for number, lag in lags.items() if number != SLOW))


@pytest.mark.thorough("minutes of a leader that is slow")
@pytest.mark.timeout(600)
def test_a_slow_leader_holds_nobody_else_up(
    application: Application, pair: Cluster, topic: str, port: int, tmp_path: Path
) -> None:
    """Told as late, read as far as fetched, while the others are read to their ends; caught up when it's fast again."""
    pair.admin.create_topic(topic, assignment=[1, 1, 1, 2])
    query = application.start(topic, options(pair, topic, metrics__port=port))
    with alerting(tmp_path, port) as server, Steady(pair.bootstrap, topic, partitions=4, rate=800):
        query.wait_for_members(3)
        query.next_batches(3)
        pair.relays[2].rate(BYTES_PER_SECOND)
        query.wait_for_status(lambda status: late(status) == {SLOW}, "the slow partition to be late")
        query.next_batches(5)
        status = query.wait_for_status(_lags_alone, "a lag of the slow one, and half of it at most of any other")
        assert late(status) == {SLOW}
        server.wait_for_alert("CohortPartitionLate")
        stood = figures(status, "current_offset")
        query.wait_for_status(
            lambda now: all(at > stood[number] for number, at in figures(now, "current_offset").items()),
            "all to advance",
        )
        pair.relays[2].rate(None)
        query.wait_for_status(lambda now: late(now) == set(), "nobody to be late")
    query.assert_exact(pair)
