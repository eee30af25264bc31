"""``cohort simulate`` of groups that live: what it foretells is what happens; any Kafka group; and as a process in a pipe."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from sparkcohort.runtime.shell.rpc import connection_file
from sparkcohort.runtime.shell.rpc.endpoint import Run
from tests.kit.broker import Broker
from tests.kit.command import COMMAND, cohort
from tests.kit.waiting import wait_until
from tests.shell.cli.test_rebalances import a_port
from tests.shell.coordinator.test_coordinator import World, both_join, joined

CASE = {
    "assignor": "cooperative-sticky",
    "topics": {"t": 2},
    "members": {"a": {"topics": ["t"], "owned": [["t", 0], ["t", 1]]}},
}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A coordinator with a port, and a connection file of its own."""
    monkeypatch.setenv("COHORT_HOME", str(tmp_path))
    world = World()
    with a_port(world) as port:
        path = connection_file.write("g", "cohort-0a1b2c3d", Run("r1", None, port, world.authority.client))
        assert path is not None
        yield world
    world.close()


def simulated(*arguments: str) -> Any:
    """The JSON that the command prints."""
    said = cohort("simulate", *arguments, "--output", "json")
    assert (said.returncode, said.stderr) == (0, "")
    return json.loads(said.stdout)


def test_what_it_foretells_of_a_live_group_is_what_happens(world: World) -> None:
    """Two members of two partitions each; a third comes: one partition moves, the very one."""
    a, b = both_join(world)
    seen = simulated("--group", "g", "--members", "+1")
    assert (seen["moved"], seen["fewest_moves"], seen["rounds"]) == (1, 1, 2)
    assert {m: len(mine) for m, mine in seen["before"].items()} == {a.member_id: 2, b.member_id: 2}
    c = joined(world, "c", 1)
    wait_until(lambda: a.generation == b.generation == c.generation, 10, "all to be in one generation")
    happened = {member.member_id: sorted(map(list, member.owned)) for member in (a, b)}
    assert {**happened, "new-1": sorted(map(list, c.owned))} == seen["settled"]


def test_a_member_is_named_as_people_name_it(world: World) -> None:
    """By its executor, in the change and in the table; the case that is printed can be given back."""
    a, _ = both_join(world)
    said = cohort("simulate", "--group", "g", "--members", "-executor-a")
    assert (said.returncode, said.stderr) == (0, "")
    assert "executor-a (gone)" in said.stdout
    case = json.loads(cohort("simulate", "--group", "g", "--output", "case").stdout)
    assert case["members"][a.member_id]["since"] == [["t", tp.partition, at] for tp, at in sorted(a.owned.items())]
    unknown = cohort("simulate", "--group", "g", "--members", "-executor-z")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert 'there is no member "executor-z"; did you mean "executor-' in unknown.stderr


@contextmanager
def consumers(bootstrap: str, group: str, topic: str) -> Iterator[list[Consumer]]:
    """Two members of a group that have settled on two partitions each."""
    conf: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0}
    conf |= {"partition.assignment.strategy": "cooperative-sticky", "auto.offset.reset": "earliest"}
    both = [Consumer({**conf, "client.id": name}) for name in ("left", "right")]

    def settled() -> bool:
        for each in both:
            each.poll(0.05)
        return all(len(each.assignment()) == 2 for each in both)

    try:
        for each in both:
            each.subscribe([topic])
        wait_until(settled, 30, "two partitions each")
        yield both
    finally:
        both.clear()  # not by ``close``, which at times never ends: see GroupMembership


def test_any_kafka_group(broker: Broker, topic: str, tmp_path: Path) -> None:
    """Who has what, by client id; topics with committed offsets count as wanted; replicas' racks are known."""
    broker.admin.create_topic(topic, 4)
    broker.admin.create_topic(f"{topic}-old", 2)
    broker.admin.create_topic(f"{topic}-other", 2)
    group = f"simulated-{topic}"
    broker.admin.commit(group, f"{topic}-old", {1: 7})
    config = tmp_path / "client.properties"
    config.write_text("# as Kafka's own tools have it\nsecurity.protocol=PLAINTEXT\n")
    asked = ("--group", group, "--bootstrap-server", broker.bootstrap, "--command-config", str(config))
    with consumers(broker.bootstrap, group, topic) as both:
        case = json.loads(cohort("simulate", *asked, "--output", "case").stdout)
        held = [[[tp.topic, tp.partition] for tp in sorted(each.assignment())] for each in both]
        seen = simulated(*asked, "--members", "-left", "--partitions", f"{topic}-old=0")
        table = cohort("simulate", *asked, "--members", "+1", "--compare")
    assert case["assignor"] == "cooperative-sticky"
    assert case["topics"] == {topic: 4, f"{topic}-old": 2}
    assert case["racks"] == {topic: [["rack-1"]] * 4, f"{topic}-old": [["rack-1"]] * 2}
    assert sorted(member["owned"] for member in case["members"].values()) == sorted(held)
    assert all(member["topics"] == [topic, f"{topic}-old"] for member in case["members"].values())
    assert (seen["moved"], seen["placed"], seen["spread"]) == (0, 2, 0)
    assert [len(mine) for mine in seen["settled"].values()] == [4]
    assert "Kafka doesn't tell subscriptions" in seen["notes"][0]
    assert (table.returncode, "note: Kafka doesn't tell subscriptions" in table.stderr) == (0, True)


def test_a_group_that_kafka_does_not_know(broker: Broker, topic: str) -> None:
    """One line; a group that has offsets and no members is one."""
    broker.admin.create_topic(topic, 1)
    broker.admin.commit(f"known-{topic}", topic, {0: 1})
    said = cohort("simulate", "--group", f"known{topic}", "--bootstrap-server", broker.bootstrap)
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (1, "", 1)
    assert f"Kafka knows no consumer group known{topic}" in said.stderr
    empty = cohort("simulate", "--group", f"known-{topic}", "--bootstrap-server", broker.bootstrap, "--members", "+1")
    assert empty.returncode == 0
    assert "new-1 (new)" in empty.stdout


def test_in_a_pipe() -> None:
    """As a process: a case on standard input, plain text on standard output."""
    command = [*COMMAND, "simulate", "--input", "-", "--members", "+1"]
    said = subprocess.run(command, input=json.dumps(CASE), capture_output=True, text=True, timeout=60, check=False)
    assert (said.returncode, said.stderr) == (0, "")
    assert "new-1 (new) 0       1      -    t-1     -" in said.stdout
    assert "\x1b" not in said.stdout
