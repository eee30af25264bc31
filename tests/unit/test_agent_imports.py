"""What an agent's process imports: it starts on every executor, and what it doesn't need it doesn't wait for."""

from __future__ import annotations

import subprocess
import sys

import pytest

UNNEEDED = ("pandas", "pyspark", "rich", "click", "prometheus_client", "trustme", "cryptography", "pyarrow.compute")


@pytest.mark.parametrize("module", UNNEEDED)
def test_an_agent_needs_none_of(module: str, imported: frozenset[str]) -> None:
    """Pandas alone takes longer than all that an agent does before its first record."""
    assert module not in imported


@pytest.fixture(scope="module")
def imported() -> frozenset[str]:
    """The modules that a process has after importing the agent's."""
    code = "import sys, sparkcohort.runtime.shell.agent; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return frozenset(run.stdout.split())
