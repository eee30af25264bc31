"""What an agent's process and a worker import: they start on every executor, and don't wait for what they don't need."""

from __future__ import annotations

import subprocess
import sys

import pytest

UNNEEDED = ("pandas", "pyspark", "click", "prometheus_client", "cryptography", "pyarrow.compute")


@pytest.mark.parametrize("module", UNNEEDED)
def test_an_agent_needs_none_of(module: str, imported: frozenset[str]) -> None:
    """Pandas alone takes longer than all that an agent does before its first record."""
    assert module not in imported


@pytest.fixture(scope="module")
def imported() -> frozenset[str]:
    """The modules that a process has after importing the agent's."""
    code = "import sys, sparkcohort.runtime.shell.agent.agent; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return frozenset(run.stdout.split())


PLANNED = """
import sys
from sparkcohort.assignors import MemberSubscription
from sparkcohort.runtime.leader import assignment as leader
from sparkcohort.runtime.leader.delayed_rebalance import Round
topics = {f"t{number}": 3 for number in range(20)}
wanting = {f"m{kind}": MemberSubscription(tuple(t for at, t in enumerate(topics) if at % 7 != kind)) for kind in range(5)}
before = set(sys.modules)
for name in ("range", "roundrobin", "sticky", "cooperative-sticky", "load-balanced"):
    for members in (wanting, dict.fromkeys(wanting, MemberSubscription(tuple(topics)))):
        leader.plan(Round(name, (), topics, {}, {}), members)
print(sorted(set(sys.modules) - before))
"""


def test_a_first_rebalance_imports_nothing() -> None:
    """``np.unique`` would import ``numpy.ma``, for which a whole group would wait 80 ms."""
    run = subprocess.run([sys.executable, "-P", "-c", PLANNED], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout == "[]\n"
