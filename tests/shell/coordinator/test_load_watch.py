"""Loads over the wire: members report, the coordinator sees an imbalance last, and a round moves what is too much."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from sparkcohort.assignors import ASSIGNORS, Load
from sparkcohort.cli import views
from sparkcohort.runtime.leader import load_report
from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.coordinator import reports
from sparkcohort.runtime.shell.driver import status
from sparkcohort.runtime.shell.driver.metric_values import values
from sparkcohort.runtime.shell.rpc.flight import CoordinatorRefused
from tests.kit import agents
from tests.kit.mock import MockCluster
from tests.kit.rebalances import rebalances_of
from tests.kit.status import a_status
from tests.kit.waiting import wait_until
from tests.shell.coordinator.test_coordinator import PARTITIONS, Member, World, both_join

AFTER_MS = 1_000


@pytest.fixture
def world() -> Iterator[World]:
    """A group that offers load-balanced, in which an imbalance has lasted after a second."""
    running = World(own=ASSIGNORS["load-balanced"], balance_after_ms=AFTER_MS)
    yield running
    running.close()


def report(world: World, member_id: str, loads: Mapping[TopicPartition, Load]) -> None:
    """One member's report."""
    assert json.loads(world.link.call("PartitionLoads", calls.encode(load_report.report(member_id, loads)), 5)) == {}


def report_owned(world: World, members: tuple[Member, ...], hot: set[TopicPartition]) -> None:
    """What each member owns now, of which some is hot."""
    for member in members:
        report(world, member.member_id, {tp: Load(500.0 if tp in hot else 1.0, 0.0, 0) for tp in member.owned})


def members_row(world: World, name: str) -> list[str]:
    """A member as ``cohort describe --members --verbose`` shows it."""
    found = described(world)
    view = views.members(found, verbose=True)
    place = [row["executor"] for row in found["members"]].index(name)
    return [str(cell) for cell in view.rows[place]]


def described(world: World) -> dict[str, Any]:
    """The status of the run."""
    return status.build(
        world.coordinator,
        world.plans,
        status.LogView({}, {}, None),
        instance_id="i",
        driver=status.DriverFigures(a_status()["commits"]),
    )


def test_what_carries_too_much_for_a_second_gives_some_away_and_then_all_is_still(world: World) -> None:
    """Two hot partitions of one member: one moves, in a rebalance that says why; the same loads move nothing again."""
    a, b = both_join(world)
    hot, rounds = set(a.owned), len(rebalances_of(world.coordinator))

    def shared() -> bool:
        report_owned(world, (a, b), hot)
        return bool(hot & set(b.owned)) and len(world.coordinator.owners()) == 4

    wait_until(shared, 10, "one of the hot partitions to move", every_s=0.1)

    first = rebalances_of(world.coordinator)[rounds]
    assert str(first.reason).startswith(f"load: {a.member_id} carried 1.9 x the mean for 1 s; 1 partition")
    (line,) = [line for line in reports.rebalances(world.coordinator.history, 9) if line["reason"].startswith("load")]
    assert line["reason"].startswith("load: executor-a carried 1.9 x the mean")
    assert world.coordinator.history.rebalance_totals.as_value()["by_reason"]["load_imbalance"]["count"] == 1
    wait_until(lambda: a.generation == b.generation, 5, "both to be in one generation")
    assert hot <= set(a.owned) | set(b.owned)
    report_owned(world, (a, b), hot)
    balancing = world.coordinator.leadership.balancing
    assert balancing is not None and balancing.due() is None


def test_loads_are_seen(world: World) -> None:
    """Each member's figures and share: in the description, in the metrics; nothing before anybody has reported."""
    a, b = both_join(world)
    assert members_row(world, "a")[11:15] == ["None"] * 4
    report(world, a.member_id, dict.fromkeys(a.owned, Load(100.0, 5e4, 7)))
    report(world, b.member_id, dict.fromkeys(b.owned, Load(300.0, 15e4, 21)))

    assert members_row(world, "a")[11:15] == ["28%", "200", "100000", "14"]
    samples = values(described(world))
    assert [value for _, value in samples["cohort_member_load_bytes"]] == [100_000, 300_000]
    assert sum(value for _, value in samples["cohort_member_load_share"]) == pytest.approx(1, abs=1e-3)


def test_what_a_member_makes_up_harms_nobody_else(world: World) -> None:
    """Garbage is refused, a stranger's report counted; of others' partitions nobody is believed."""
    a, _ = both_join(world)
    report(world, a.member_id, dict.fromkeys(PARTITIONS, Load(100.0)))
    for body in (
        b"",
        b"\xff",
        b"{}",
        b'{"member":"m","loads":{"t":[[0,-1,0,0]]}}',
        b'{"member":"m","loads":{"t":[[0,1e16,0,0]]}}',
    ):
        with pytest.raises(CoordinatorRefused, match="not a PartitionLoads"):
            world.link.call("PartitionLoads", body, 5)
    report(world, "stranger", dict.fromkeys(PARTITIONS, Load(9e9)))

    assert members_row(world, "a")[12] == "200"
    assert members_row(world, "b")[12] == "0"
    assert world.coordinator.counters["Loads", "UNKNOWN_MEMBER_ID"] == 1


def test_an_agent_reports_what_came_of_its_partitions(mock_broker: MockCluster) -> None:
    """What tasks took, in records and bytes, and what the log has left."""
    world = agents.World(mock_broker, ("load-balanced",), AFTER_MS)
    try:
        executor, _ = world.start("1")
        wait_until(world.settled(), 10, "the agent to own the partitions")
        member = world.member(executor)
        assert member is not None

        def seen() -> dict[str, float]:
            balancing = world.coordinator.leadership.balancing
            assert balancing is not None
            owned = {member.member_id: world.owned(member.member_id)}
            return balancing.loads_by_member(owned).get(member.member_id, {})

        idle = wait_until(seen, 10, "the agent to report")
        wanted = Range(agents.TOPIC, 1, 10, 90)
        wait_until(lambda: agents.pulled(world, executor, wanted), 20, "the agent to have fetched its positions")
        wait_until(lambda: seen()["records_per_second"] and seen()["backlog"], 10, "its loads to be told")
        told = seen()
    finally:
        world.close()
    assert idle["records_per_second"] == 0
    assert told["backlog"] == agents.RECORDS - 90 - 10 - 10
    assert 20 < told["bytes_per_second"] / told["records_per_second"] < 500
    assert told["share"] == 1
