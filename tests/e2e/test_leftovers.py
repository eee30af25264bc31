"""What stays behind when queries end: nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
import pytest

from tests.kit import processes
from tests.kit.application import Application, Query, settled
from tests.kit.broker import Broker
from tests.kit.produce import produce
from tests.kit.tier import of_tier
from tests.kit.waiting import wait_for_none, wait_until

ROUNDS, SHORT = 2, of_tier(quick=1, thorough=4)
LIMIT_S = 240
SESSION_MS = 6_000
SHARED_MEMORY = Path("/dev/shm")


@dataclass
class Run:
    """What one coordinator run occupies while it lives."""

    run_id: str
    port: int
    file: Path
    processes: list[psutil.Process]


@pytest.mark.thorough("two groups, twice")
@pytest.mark.timeout(900)
def test_two_groups_started_and_stopped_twice(application: Application, broker: Broker, topic: str) -> None:
    """No runner, port or file outlives its query, no agent, socket or shared memory by more than a session; the next start finds all clean."""
    topics = [f"{topic}-a", f"{topic}-b"]
    shared_before = set(SHARED_MEMORY.iterdir())
    for name in topics:
        broker.admin.create_topic(name, 3)
    for number in range(ROUNDS):
        for name in topics:
            produce(broker.bootstrap, name, 3_000, partitions=3, first=1_000 * number)
        queries = [_started(application, broker, name) for name in topics]
        runs = [_run(application, query) for query in queries]
        assert len({run.run_id for run in runs} | {str(run.port) for run in runs}) == 4
        assert {run.port for run in runs} <= _ports(application)
        for query in queries:
            query.stop()
        for run in runs:
            wait_for_none(lambda: _left(run), LIMIT_S, f"the end of all that run {run.run_id} has")  # noqa: B023
        assert not _ports(application) & {run.port for run in runs}
    assert set(SHARED_MEMORY.iterdir()) <= shared_before
    for name in topics:
        committed = {number: offset for (of, number), offset in broker.admin.committed(name).items() if of == name}
        assert committed == dict.fromkeys(range(3), 1_000 * ROUNDS)


@pytest.mark.timeout(900)
def test_short_queries_leave_nothing(application: Application, broker: Broker, topic: str) -> None:
    """Each ends by itself: when its runner is gone, so are its file, lock, port and agents, and the next one takes over."""
    broker.admin.create_topic(topic, 3)
    others = application.driver.agents()  # of queries of other tests, whose sessions are long
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "group.id": topic}
    for number in range(SHORT):
        produce(broker.bootstrap, topic, 300, partitions=3, first=100 * number)
        # The same query again and again, as a scheduler starts it; its gate is closed until it has been looked at.
        query = application.start(topic, options, trigger={"availableNow": True}, gate=-1)
        query.wait_for("begin", number)
        found = query.wait(query.live, LIMIT_S, "its coordinator")
        run = Run(found.run.run_id, found.run.port, application.directory / "home" / f"{found.run.run_id}.json", [])
        runner = psutil.Process(found.pid)
        assert run.file.exists()
        assert len(_locks(application)) == 1
        query.allow(number)
        assert query.end() is None
        wait_until(lambda: not _alive(runner), LIMIT_S, "the runner to be gone", every_s=0.01)  # noqa: B023
        assert not run.file.exists()
        assert run.port not in _ports(application)
        assert _locks(application) == []
        agents = partial(_agents_besides, application, others)
        wait_for_none(lambda: [*agents(), *_left(run)], LIMIT_S, "its agents to be gone")  # noqa: B023


def _agents_besides(application: Application, others: list[psutil.Process]) -> list[psutil.Process]:
    """The agents that were not there before."""
    return [agent for agent in application.driver.agents() if agent not in others]


def _started(application: Application, broker: Broker, topic: str) -> Query:
    """A query that reads; the next one of the application starts beside it."""
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "group.id": topic}
    query = application.start(topic, {**options, "session.timeout.ms": SESSION_MS})
    query.wait_for("batch", 0)
    return query


def _run(application: Application, query: Query) -> Run:
    """Wait until the group has read everything and every agent there is owns its share; then see what is there."""
    query.wait_for_no_lag()
    found = query.live()
    assert found is not None
    run_id = found.run.run_id

    agents = application.driver.agents  # one an executor, for all queries
    query.wait_for_status(lambda status: agents() and settled(status, len(agents())), "all agents in the group")
    assert any(run_id in name for name in processes.sockets())
    file = application.directory / "home" / f"{run_id}.json"
    assert file.stat().st_mode & 0o777 == 0o600
    return Run(run_id, found.run.port, file, [psutil.Process(found.pid), *agents()])


def _left(run: Run) -> list[str]:
    """What is left of a run, in words."""
    found = [f"pid {process.pid}: {processes.command(process)}" for process in run.processes if _alive(process)]
    found += [f"socket {name}" for name in processes.sockets() if run.run_id in name]
    return found + [f"file {run.file}"] * run.file.exists()


def _locks(application: Application) -> list[str]:
    """The locks of instance ids that this application's readers hold; other applications of this machine have theirs."""
    ours = tuple(f"@cohort-reader-{process.pid}-" for process in application.driver.processes())
    return [name for name in processes.sockets() if name.startswith(ours)]


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _ports(application: Application) -> set[int]:
    """The TCP ports on which the application's processes listen."""
    inodes = {inode for process in application.driver.processes() for inode in _socket_inodes(process.pid)}
    rows = [line.split() for file in ("tcp", "tcp6") for line in Path("/proc/net", file).read_text().splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and row[9] in inodes}


def _socket_inodes(pid: int) -> set[str]:
    try:
        targets = [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:  # it has ended
        return set()
    return {target[len("socket:[") : -1] for target in targets if target.startswith("socket:[")}
