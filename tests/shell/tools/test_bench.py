"""The benches check themselves, in a process of their own: no test imports them (``TID251`` in pyproject.toml)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def run(*arguments: str) -> str:
    """What ``tools/bench`` prints; it has to succeed."""
    command = [sys.executable, "-P", "tools/bench", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.thorough("the benches' own checks")
def test_the_benches_count_compare_and_print_right() -> None:
    """Their own checks pass, those of each bench."""
    assert " passed" in run("check", "-p", "no:cacheprovider")
