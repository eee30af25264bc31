"""What an agent's process and a worker import: they start on every executor, and don't wait for what they don't need."""

from __future__ import annotations

import subprocess
import sys

import pytest

UNNEEDED = ("pandas", "pyspark", "rich", "click", "prometheus_client", "cryptography", "pyarrow.compute")


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


@pytest.mark.parametrize("module", ["prometheus_client", "pyarrow.compute", "sparkcohort.runtime.shell.driver.session"])
def test_a_worker_needs_nothing_of_the_drivers(module: str, imported_by_a_worker: frozenset[str]) -> None:
    """A new executor's first task waits for these imports, and the batch for it."""
    assert module not in imported_by_a_worker


OF_THE_AGENT = (
    *(f"shell.agent.{name}" for name in ("agent", "query_member", "prefetch", "listener_runner", "task_server")),
    *("shell.rpc.acceptor", "group", "member.machine", "leader.load_report", "batches.slow_partitions"),
)


@pytest.mark.parametrize("module", OF_THE_AGENT)
def test_a_worker_needs_nothing_that_runs_in_the_agent(module: str, imported_by_a_worker: frozenset[str]) -> None:
    """It starts an agent and asks it: the member's machine, and all that serves, are the agent's own."""
    assert f"sparkcohort.runtime.{module}" not in imported_by_a_worker


@pytest.fixture(scope="module")
def imported_by_a_worker() -> frozenset[str]:
    """The modules that a Python worker has before it reads a row."""
    code = "import sys, sparkcohort.streaming.source, sparkcohort.streaming.task; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    names = frozenset(run.stdout.split())
    assert "sparkcohort.runtime.shell.agent.task_client" in names
    return names


PLANNED = """
import sys
from sparkcohort.assignors import MemberSubscription
from sparkcohort.runtime.leader import assignment as leader
topics = {f"t{number}": 3 for number in range(20)}
wanting = {f"m{kind}": MemberSubscription(tuple(t for at, t in enumerate(topics) if at % 7 != kind)) for kind in range(5)}
before = set(sys.modules)
for name in ("range", "roundrobin", "sticky", "cooperative-sticky", "load-balanced"):
    for members in (wanting, dict.fromkeys(wanting, MemberSubscription(tuple(topics)))):
        leader.plan(name, members, topics)
print(sorted(set(sys.modules) - before))
"""


def test_a_first_rebalance_imports_nothing() -> None:
    """``np.unique`` would import ``numpy.ma``, for which a whole group would wait 80 ms."""
    run = subprocess.run([sys.executable, "-P", "-c", PLANNED], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout == "[]\n"
