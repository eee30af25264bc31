"""Model check: the states that two members and three partitions can reach, each with the laws I1 to I5."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest

from sparkcohort.runtime.group import partition_ownership
from tests.model.check import Explorer
from tests.simulator.breaks import BREAKS, lower_generation


@pytest.mark.parametrize(
    ("faults", "setting"),
    [
        (0, {"slow": True}),
        (1, {"slow": True}),
        (1, {"strays": 1}),
        (1, {}),
    ],
    ids=str,
)
def test_every_fault_in_every_state_of_a_start(faults: int, setting: dict[str, Any]) -> None:
    """One or none, wherever it strikes, and every order of all that follows; with late requests."""
    explorer = Explorer(**setting)
    explorer.explore(faults)
    assert (len(explorer.worlds) > 150 + 350 * faults, len(explorer.settled) > 1, explorer.stuck()) == (True, True, [])


@pytest.mark.thorough("two faults in every state")
@pytest.mark.timeout(2400)
def test_two_faults_in_every_state() -> None:
    """Of two members, alive or dead and not yet missed (``make model``: any number of faults, to the last state)."""
    explorer = Explorer()
    explorer.explore(2)
    assert (len(explorer.worlds) > 7_000, explorer.stuck()) == (True, [])


def _ignore_claims() -> list[Any]:
    """A rejoin frees nothing: a revoked partition never gets its new owner."""
    return [patch.object(partition_ownership, "revoke_unclaimed", lambda _turn, _member: None)]


CONTROLS: dict[str, Callable[[], list[Any]]] = {
    "ignore-claims": _ignore_claims,
    "lower-generation": partial(lower_generation, 3, 2),
    "skip-fencing": BREAKS["skip-fencing"].patches,
    "give-early": BREAKS["give-early"].patches,
}


@pytest.mark.parametrize("what", CONTROLS)
def test_a_broken_group_is_found_out(what: str) -> None:
    """The check can fail, so what the states are reduced to still shows what is broken."""
    explorer = Explorer()
    with ExitStack() as broken:
        for one in CONTROLS[what]():
            broken.enter_context(one)
        with pytest.raises(AssertionError):
            explorer.explore(2)
            assert not explorer.stuck()
