"""``cohort simulate`` of groups that live: what it foretells is what happens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkcohort.runtime.shell.rpc import connection_file
from sparkcohort.runtime.shell.rpc.endpoint import Run
from tests.kit.command import cohort
from tests.kit.waiting import wait_until
from tests.shell.cli.test_rebalances import a_port
from tests.shell.coordinator.test_coordinator import World, both_join, joined


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
    assert {m: len(mine) for m, mine in seen["before"].items()} == {"executor-a": 2, "executor-b": 2}
    c = joined(world, "c", 1)
    wait_until(lambda: a.generation == b.generation == c.generation, 10, "all to be in one generation")
    happened = {f"executor-{name}": sorted(map(list, member.owned)) for name, member in (("a", a), ("b", b))}
    assert {**happened, "new-1": sorted(map(list, c.owned))} == seen["settled"]


def test_a_member_is_named_as_people_name_it(world: World) -> None:
    """By its executor, in the change and in the table, which in a pipe is plain text."""
    both_join(world)
    said = cohort("simulate", "--group", "g", "--members", "-executor-a")
    assert (said.returncode, said.stderr) == (0, "")
    assert "executor-a (gone)" in said.stdout
    assert "\x1b" not in said.stdout
    unknown = cohort("simulate", "--group", "g", "--members", "-executor-z")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "there is no member 'executor-z'; did you mean executor-" in unknown.stderr
