"""Hot partitions through Spark: they part by themselves, while every record is delivered once."""

from __future__ import annotations

import pytest

from tests.kit.application import Application, Status, owners
from tests.kit.broker import Broker
from tests.kit.produce import Steady
from tests.kit.streams import options

pytestmark = pytest.mark.thorough("waits until loads are measured")

PARTITIONS = 12
AFTER_MS = 5_000
HOT = 3


def _reported(status: Status) -> bool:
    """Whether three members own all there is, and each has told its load."""
    members = status["members"]
    owned = sum(len(member["owned"]) for member in members)
    return status["state"] == "Stable" and len(members) == 3 and owned == PARTITIONS and all(m["load"] for m in members)


def _apart(status: Status, hot: list[int]) -> bool:
    """Whether all partitions have an owner, and each hot one another."""
    found = owners(status)
    return status["state"] == "Stable" and len(found) == PARTITIONS and len({found[number] for number in hot}) == HOT


def _largest_share(status: Status) -> float:
    return max((float(member["load"]["share"]) for member in status["members"]), default=0.0)


@pytest.mark.timeout(900)
def test_hot_partitions_part(application: Application, broker: Broker, topic: str) -> None:
    """Nine tenths of the traffic begin to come to three partitions of one executor: in the end three have one each."""
    broker.admin.create_topic(topic, PARTITIONS)
    more = {"partition.assignment.strategy": "load-balanced", "load.balance.after.ms": AFTER_MS}
    query = application.start(topic, options(broker, topic, **more))
    with Steady(broker.bootstrap, topic, partitions=PARTITIONS, rate=240):
        before = query.wait_for_status(_reported, "three members with their loads")
        busiest = max(before["members"], key=lambda member: len(member["owned"]))
        hot = [number for _, number in busiest["owned"]][:HOT]
        with Steady(broker.bootstrap, topic, partitions=hot, rate=2_400, first=1 << 32):
            alone = query.wait_for_status(lambda status: _largest_share(status) > 0.6, "one member to carry most")
            after = query.wait_for_status(lambda status: _apart(status, hot), "the hot partitions to part")
            even = query.wait_for_status(lambda status: _largest_share(status) < 0.5, "the loads to be told anew")
    query.assert_exact(broker)

    assert len({owners(alone)[number] for number in hot}) < HOT
    because = [done for done in after["rebalances"] if done["reason"].startswith("load: ")]
    assert because
    assert all(len(done["revoked"]) <= 5 for done in because)
    assert _largest_share(even) < _largest_share(alone)
