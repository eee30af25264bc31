"""What the command tells of a real coordinator's past: its rebalances, its members' stories; and the same in Python."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest

from sparkcohort.assignors.cooperative_sticky import CooperativeStickyAssignor
from sparkcohort.cli import rebalance_views
from sparkcohort.runtime.group import summary
from sparkcohort.runtime.protocol.messages import (
    JoinGroup,
    JoinGroupReply,
    LeaveGroup,
    LeavingMember,
    ProcessInfo,
    Subscription,
)
from sparkcohort.runtime.shell.coordinator.service import Service
from sparkcohort.runtime.shell.driver import status
from sparkcohort.runtime.shell.driver.metric_values import values
from sparkcohort.runtime.shell.rpc import connection_file
from sparkcohort.runtime.shell.rpc.endpoint import Run
from sparkcohort.runtime.shell.rpc.flight import GroupServer
from tests.kit.command import cohort
from tests.kit.status import a_status
from tests.kit.waiting import wait_until
from tests.shell.coordinator.test_coordinator import PARTITIONS, World, both_join

WANTS = Subscription(("t",), process=ProcessInfo("c"))


def failing(world: World) -> str:
    """A member c joins, with whom the assignor can't work, and leaves; its id."""
    said: dict[str, Any] = {"session_timeout_ms": 60_000, "rebalance_timeout_ms": 2_000, "subscription": WANTS}

    def fail(_self: object, _topics: object, members: dict[str, object], _racks: object) -> None:
        raise ValueError(f"member {next(name for name in members if name.startswith('c-'))} is one too many")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CooperativeStickyAssignor, "assign", fail)
        reply = world.call(JoinGroup("", "c", "c", "h", protocols=("cooperative-sticky",), **said))
        assert isinstance(reply, JoinGroupReply)
        member_id = reply.member_id
        wait_until(lambda: world.coordinator.leadership.runner.failures, 10, "the assignor to fail")
    world.call(LeaveGroup((LeavingMember(member_id, "c", "done"),)))
    return member_id


def status_of(world: World) -> dict[str, Any]:
    """The status of the run, without a Kafka."""
    announced = dict.fromkeys(PARTITIONS, 0)
    return status.build(
        world.coordinator,
        world.plans,
        status.LogView({}, announced, None),
        instance_id="cohort-0a1b2c3d",
        driver=status.DriverFigures(a_status()["commits"]),
    )


@contextmanager
def a_port(world: World) -> Iterator[int]:
    """A port of the coordinator that knows its status."""
    service = Service(world.coordinator, world.plans, failure=lambda: None, status=lambda: status_of(world))
    server = GroupServer(world.authority, service.handlers(), service.subscribe, service.unsubscribe)
    yield server.port
    server.stop(5)


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, str]]:
    """A group of a that b joined and left again, whose assignor then failed once; and the id that b had."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COHORT_HOME", str(home))
        world = World()
        a, b = both_join(world)
        b.freeze()
        world.call(LeaveGroup((LeavingMember(b.member_id, b.name, "done"),)))
        wait_until(lambda: len(a.owned) == 4, 10, "a to have everything again")
        failing(world)
        failed = world.coordinator.group.generation
        wait_until(lambda: world.coordinator.group.generation > failed and len(a.owned) == 4, 10, "c to be gone")
        wait_until(lambda: world.coordinator.group.state == "Stable", 10, "the group to be stable")
        with a_port(world) as port:
            path = connection_file.write("g", "cohort-0a1b2c3d", Run("r1", None, port, world.authority.client))
            assert path is not None
            yield world, b.member_id
            path.unlink()
        world.close()


def told(*arguments: str) -> list[dict[str, Any]]:
    """The command's JSON."""
    said = cohort(*arguments, "--output", "json")
    assert (said.returncode, said.stderr) == (0, "")
    rows: list[dict[str, Any]] = json.loads(said.stdout)
    return rows


def test_moved_means_one_thing(life: tuple[World, str]) -> None:
    """The list, each rebalance on its own, the metric and the lines of the driver's log count the same partitions."""
    world, _ = life
    listed = {row["generation"]: row["moved"] for row in told("rebalances", "--group", "g")}
    counted = values(status_of(world))["cohort_partitions_moved_total"]
    assert counted == [((), sum(listed.values()))]
    assert sum(listed.values()) > 0
    for entry in world.coordinator.history.entries():
        line = summary.line(entry.done, entry.routes, entry.giving_up, str)
        said = re.search(r"\): moved (\d+) partition", line)
        assert int(said[1] if said else 0) == listed[entry.done.generation] == len(entry.moved)


def test_rebalances_are_listed_newest_last(life: tuple[World, str]) -> None:
    """Each with when, why, how long, how much moved, and how it ended."""
    rows = told("rebalances", "--group", "g")
    assert [row["generation"] for row in rows] == list(range(1001, 1001 + len(rows)))
    assert [datetime.fromisoformat(row["time"]).tzinfo is not None for row in rows] == [True] * len(rows)
    by_reason = {row["reason"]: row for row in rows}
    came = by_reason["executor-b joined"]
    assert (came["result"], came["members"], came["moved"], came["revoked"]) == ("follow-up round due", 2, 0, 2)
    left = by_reason["executor-b left"]
    assert (left["result"], left["members"], left["moved"]) == ("ok", 1, 2)
    (failed,) = (row for row in rows if row["result"].startswith("failed: "))
    assert failed["result"].startswith("failed: assignor cooperative-sticky raised ValueError: member executor-c")
    assert failed["moved"] == 0
    text = cohort("rebalances", "--last", "2").stdout.splitlines()
    assert (text[0].split(), len(text)) == (list(rebalance_views.REBALANCES), 3)


def test_one_rebalance_is_shown_member_by_member(life: tuple[World, str]) -> None:
    """Who had what before and after, in a table and in JSON; by generation and from the end."""
    _, gone = life
    generation = next(row["generation"] for row in told("rebalances") if row["reason"] == "executor-b left")
    (shown,) = told("rebalances", "--show", str(generation))
    had = {row["client_id"]: row for row in shown["assignments"]}
    assert (len(had["executor-a"]["kept"]), len(had["executor-a"]["gained"])) == (2, 2)
    assert {tp["to"] for tp in had["executor-b"]["lost"]} == {"executor-a"}
    assert (had["executor-b"]["member_id"], had["executor-b"]["present"]) == (gone, False)
    failed = next(row["generation"] for row in told("rebalances") if row["result"].startswith("failed: "))
    assert f"to generation {failed}: failed: assignor" in cohort("rebalances", "--show", str(failed)).stdout
    last = cohort("rebalances", "--show", "-1").stdout
    assert (" left\n" in last, "executor-a" in last) == (True, True)


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["rebalances", "--show", "7"], 1, "known are generations 1001-"),
        (["rebalances", "--show", "7", "--output", "json"], 1, "no rebalance 7"),
        (["rebalances", "--show", "1", "--last", "2"], 2, "exclude each other"),
        (["rebalances", "--last", "0"], 2, "--last"),
        (["story", "executor-9"], 1, "executor-b"),
        (["story"], 2, "MEMBER"),
    ],
)
def test_mistakes_are_one_line(life: tuple[World, str], arguments: list[str], status: int, words: str) -> None:
    """And it says what there is instead."""
    said = cohort(*arguments)
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (status, "", 1)
    assert words in said.stderr


def test_the_story_of_a_member_that_is_gone(life: tuple[World, str]) -> None:
    """By its client id or its member id, with the time of each line."""
    _, gone = life
    lines = told("story", "executor-b")
    assert {line["member_id"] for line in lines} == {gone}
    whats = [line["what"] for line in lines]
    assert whats[:2] == ["became a member, from h", "joined"]
    assert whats[-1].endswith("it left: done")
    assert cohort("story", gone, "--group", "g").stdout.splitlines()[0] == f"{gone} (executor-b on h)"
