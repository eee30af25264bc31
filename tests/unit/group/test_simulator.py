"""The simulator: no seed breaks a law, a seed is a run, and each fault that is put in is found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kit.tier import of_tier
from tests.simulator.breaks import BREAKS
from tests.simulator.coordinator import CRASHES
from tests.simulator.runs import run

ROOT = Path(__file__).resolve().parents[3]
SEEDS, EVENTS = of_tier(quick=150, thorough=600), 150  # `make simulate` has more
ENOUGH = 100  # seeds within which each fault that is put in must be found


def simulate(*arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    """Run the command."""
    command = [sys.executable, "-m", "tests.simulator", *arguments]
    env = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def result(*arguments: str, hash_seed: str = "0") -> dict[str, Any]:
    """What the command says as JSON."""
    said: dict[str, Any] = json.loads(simulate(*arguments, "--output", "json", hash_seed=hash_seed).stdout)
    return said


@pytest.mark.timeout(600)
def test_no_seed_breaks_a_law() -> None:
    """All seeds, and that they meet what they are meant to meet: every fault, every case of a coordinator's failure."""
    said = result("--seeds", str(SEEDS), "--events", str(EVENTS), "--jobs", "2")
    assert said["broken"] == []
    assert said["seeds"] == SEEDS
    assert said["events"] >= SEEDS * EVENTS
    rare = {what: said["counts"].get(what, 0) for what in [*(f"crash {case}" for case in CRASHES), "unloads"]}
    assert min(rare.values()) > SEEDS // 50, rare
    often = ["rebalances", "members removed", "processes killed", "commits accepted", "commits refused"]
    often += [
        "messages dropped",
        "messages duplicated",
        "messages slowed",
        "static members fenced",
        "clean changes",
        "assignor failures",
    ]
    common = {what: said["counts"].get(what, 0) for what in often}
    assert min(common.values()) > SEEDS // 5, common


def test_a_seed_is_a_run() -> None:
    """I13: the same seed gives the same events to the letter, whatever order hashing makes; another seed others."""
    one, other = (result("--seed", "17", hash_seed=hashing) for hashing in ("1", "2"))
    assert one == other
    assert one["law"] is None
    assert one["digest"] != run(18, EVENTS)[0].digest()


@pytest.mark.parametrize("name", BREAKS)
def test_every_fault_is_found(name: str) -> None:
    """A core that is broken in one place breaks the law that is about it."""
    control = BREAKS[name]
    with control.applied():
        found = next((broken for seed in range(ENOUGH) if (broken := run(seed, EVENTS)[1])), None)
    assert found is not None, f"{control.what}: not found"
    assert found.law in control.laws
    assert run(found.seed, EVENTS)[1] is None, "the seed is fine when nothing is broken"


def test_what_is_told_of_a_broken_law() -> None:
    """Seed, law, last events, the stories of those concerned, and the command that shows it again."""
    told = simulate("--seeds", "5", "--jobs", "1", "--break", "skip-fencing")
    assert told.returncode == 1
    assert "breaks I5: " in told.stderr
    assert "The last events:" in told.stderr
    assert "The story of " in told.stderr
    command = next(line for line in told.stderr.splitlines() if line.startswith("To see it again: "))
    again = simulate(*command.partition("tests.simulator ")[2].split())
    assert again.returncode == 1
    assert "breaks I5: " in again.stdout
