"""Which process is the executor: the JVM above, process 1 included; where there is none, one word says why."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from sparkcohort.runtime.shell.coordinator.coordinator import Coordinator
from sparkcohort.runtime.shell.coordinator.group_settings import GroupSettings
from sparkcohort.runtime.shell.coordinator.plan_registry import PlanRegistry
from sparkcohort.runtime.shell.coordinator.service import Service
from sparkcohort.runtime.shell.driver import stream_process
from sparkcohort.runtime.shell.options.parse import parse
from sparkcohort.runtime.shell.rpc import executor
from sparkcohort.runtime.shell.rpc.certificates import new_authority
from sparkcohort.runtime.shell.rpc.endpoint import Run
from sparkcohort.runtime.shell.rpc.executor import Executor, NoExecutor, find_executor
from sparkcohort.streaming import agent_start
from tests.kit.jars import QUICK, java
from tests.kit.sealed import NEED

ABOVE = Path(__file__).parents[2] / "kit" / "java" / "Above.java"
CONTAINER = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
FIND = """
import json, os, select
from sparkcohort.runtime.shell.rpc.executor import find_executor
found = find_executor()
os.pidfd_open(found.pid)
print(json.dumps([found.pid, found.executor_id, found.host, found.cores, found.address("r"), found.instance_id()]))
"""
CLASH = """
import os
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.driver import stream_process as process
process.TAKE_LOCK_S = 0.2
first = process.instance_lock("billing", "cohort-1")
try:
    process.instance_lock("billing", "cohort-1")
except CohortError as error:
    print("refused:", error)
"""


def command_of(script: str, *above: str) -> list[str]:
    """The script below a JVM with an executor's arguments, itself below ``above``."""
    said = ["--executor-id", "7", "--hostname", "worker-3", "--cores", "4"]
    return [*above, java(), *QUICK, str(ABOVE), sys.executable, "-P", "-c", script, *said]


def under_java(script: str, *above: str) -> str:
    """What a script prints there."""
    done = subprocess.run(command_of(script, *above), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{NEED}, if unshare is what failed: {done.stderr}"
    return done.stdout


@pytest.mark.parametrize("above", [[], CONTAINER], ids=["a process like any other", "process 1 of its container"])
def test_the_jvm_above_is_found(above: list[str]) -> None:
    """Whatever number it has: with its id, host and cores, and names of its own for socket and member."""
    pid, executor_id, host, cores, address, instance_id = json.loads(under_java(FIND, *above))
    assert (pid == 1) == bool(above)
    assert (executor_id, host, cores) == ("7", "worker-3", 4)
    assert address.startswith(f"cohort-r-{pid}-")
    assert instance_id.startswith("executor-7-")


def test_the_lock_of_an_instance_id_holds_below_process_1() -> None:
    """Two readers of one application on one instance id are refused there, too."""
    assert "give each its own group.id" in under_java(CLASH, *CONTAINER)


def test_what_all_containers_of_a_host_call_process_1_has_names_of_its_own() -> None:
    """On one network (a pod's, a host's) abstract sockets are common to all: two containers don't meet in them."""
    command = command_of(f"{FIND}import sys\nsys.stdout.flush()\nsys.stdin.read()", *CONTAINER)
    with ExitStack() as both:  # at one time: the number of a namespace that is gone is the next one's
        starts = (subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2))
        running = [both.enter_context(each) for each in starts]
        first, second = (json.loads(each.stdout.readline()) for each in running if each.stdout)
    assert first[0] == second[0] == 1
    assert first[4].rpartition("-")[2] != second[4].rpartition("-")[2]


def test_why_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No JVM above, no /proc, the /proc of somebody else: each is told, with what was looked at."""
    with pytest.raises(NoExecutor, match=r"no JVM among this process and those above it \(.*python"):
        find_executor()
    monkeypatch.setattr(executor, "_PROC", tmp_path)
    with pytest.raises(NoExecutor, match="self can't be read \\(No such file or directory\\)"):
        find_executor()
    (tmp_path / "self").symlink_to("4711")
    with pytest.raises(NoExecutor, match=f"another process namespace: it calls this process 4711, not {os.getpid()}"):
        find_executor()


def test_a_driver_without_a_jvm_above_is_told_so_once(caplog: pytest.LogCaptureFixture) -> None:
    """The lock can't hold there: one warning says so, and what to do."""
    stream_process.driver_jvm.cache_clear()
    with caplog.at_level(logging.WARNING, "sparkcohort.process"):
        locks = [stream_process.instance_lock("billing", "cohort-1") for _ in range(2)]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "no JVM among" in caplog.text and "give each its own" in caplog.text
    for lock in locks:
        lock.close()


def test_an_executor_without_an_agent_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """The driver's log has one warning a reason, with host and cost, however many tasks tell; no line of theirs in it."""
    coordinator = Coordinator(GroupSettings("billing", "r", 0, 2_000, 200, 5_000, ("range",)), dict)
    coordinator.start()
    claim = Service(coordinator, PlanRegistry(), failure=lambda: None, status=dict).handlers()["Claim"]
    with caplog.at_level(logging.WARNING, "sparkcohort.service"):
        for why in ["no JVM above", "no JVM above", "its agent can't be started:\nno fork", *map(str, range(50))]:
            said = {"plan": "p", "index": 0, "address": "", "alone": why, "host": "worker-3"}
            assert json.loads(claim(json.dumps(said).encode()))["error"] == "PLAN_GONE"
    coordinator.stop()
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 20
    assert "worker-3" in lines[0] and "no JVM above" in lines[0] and "nothing is fetched ahead" in lines[0]
    assert r"its agent can't be started:\nno fork" in lines[1]


def test_an_agent_that_always_ends_is_started_ever_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each start costs a second of CPU; from the third on the driver is told of it, and an answer makes up for all."""
    started: list[str] = []

    def start(address: str, *_: object) -> bool:
        started.append(address)
        return True

    monkeypatch.setattr(agent_start, "start_agent", start)
    options = parse({"kafka.bootstrap.servers": "127.0.0.1:9", "subscribe": "t", "group.id": "g"})
    here = Executor(1, 2, "3", "host", 4)
    run = Run("r", "host", 1, new_authority().client)
    for now, starts in ((0.0, 1), (0.9, 1), (1.1, 2), (3.0, 2), (3.2, 3), (7.0, 3), (7.3, 4), (15.2, 4), (15.5, 5)):
        monkeypatch.setattr(time, "monotonic", lambda now=now: now)
        why = agent_start.ensure_agent(options, run, "host", here, "nobody-listens-here")
        assert len(started) == starts
        assert bool(why) == (now >= 7)
    agent_start._starts.clear()


def test_an_executor_has_one_agent_for_all_runs() -> None:
    """Its name is the same for every task there, and another for another executor; a member's is its run's."""
    here = Executor(os.getpid(), 2, "3", "host", 4)
    assert here.agent_name() == Executor(os.getpid(), 2, "3", "host", 4).agent_name()
    assert here.agent_name() != Executor(os.getpid(), 3, "3", "host", 4).agent_name()
    assert here.agent_name() != Executor(os.getppid(), 2, "3", "host", 4).agent_name()
    assert len({here.agent_name(), here.address("r"), here.address("s")}) == 3
