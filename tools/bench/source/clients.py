"""CPU time of all client processes of a run: the driver JVM and all below it, and the re-parented member agents.

Broker, relay, producers and the bench's own process are left out.  A process that ended is in its parent's children times, but
for agents, which have no parent who would count them, and Python workers, whose daemon doesn't: Spark ends those that have been
idle for a minute.  Of these, what was last seen of each is remembered.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import psutil

AGENT = "sparkcohort.runtime.shell.agent.agent"
MARK = "COHORT_BENCH"
EVERY_S = 0.25
EXECUTORS = "executors"
ENDED = "ended"
WORKERS = "python workers"
KINDS = (
    (AGENT, AGENT),
    ("pyspark.daemon", WORKERS),
    ("pyspark.worker", WORKERS),
    ("streaming_source_runner", "stream runner"),
    ("CoarseGrainedExecutorBackend", EXECUTORS),
    ("java", "jvm"),
)


class Clients:
    """Watches client processes; agents are recognised by command line and by ``mark`` in their environment."""

    def __init__(self, mark: str, jvm: int, *, watching: bool = True) -> None:
        """``jvm``: the pid of the driver's; without ``watching`` processes are only looked for when somebody asks."""
        self._mark = f"{MARK}={mark}"
        self._jvm = psutil.Process(jvm)
        self._mine: dict[tuple[int, float], bool] = {}
        self._seen: dict[tuple[int, float], float] = {}
        self._forked: dict[tuple[int, float], float] = {}  # Python workers
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bench-clients", daemon=True) if watching else None

    def __enter__(self) -> Self:
        """Start watching."""
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop watching."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            self.agents()

    def agents(self) -> int:
        """How many of this bench's agents live now."""
        return len(self.members())

    def members(self) -> list[psutil.Process]:
        """This bench's agents that live now."""
        with self._lock:
            found = [process for process in psutil.process_iter() if self._is_mine(process)]
            for process in found:
                try:
                    self._seen[process.pid, process.create_time()] = _own(process)
                except psutil.Error:
                    continue  # ended just now: what was last seen of it stands
            return found

    def processes(self) -> dict[str, list[psutil.Process]]:
        """The processes that live now, by kind."""
        found: dict[str, list[psutil.Process]] = defaultdict(list)
        for process in (self._jvm, *_below(self._jvm)):
            found[_kind(process)].append(process)
        # An agent that is not re-parented yet is below the JVM too.
        return dict(found) | {AGENT: self.members()}

    def _is_mine(self, process: psutil.Process) -> bool:
        try:
            key = process.pid, process.create_time()
            if not self._mine.get(key):  # asked again: a process is something else before it execs
                self._mine[key] = AGENT in process.cmdline() and self._mark in _environment(process)
            return self._mine[key] and process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    def cpu(self) -> dict[str, float]:
        """CPU-seconds so far by kind of process; only differences of two answers mean something."""
        self.agents()
        used: dict[str, float] = defaultdict(float, agents=sum(self._seen.values()))
        for process in (self._jvm, *_below(self._jvm)):
            self._add(used, process)
        used[WORKERS] = sum(self._forked.values())
        return dict(used)

    def _add(self, used: dict[str, float], process: psutil.Process) -> None:
        try:
            kind, times = _kind(process), process.cpu_times()
            key = process.pid, process.create_time()
        except psutil.Error:
            return
        if kind == WORKERS:
            self._forked[key] = times.user + times.system
        elif kind != AGENT:  # one that is not re-parented yet is counted as an agent
            used[kind] += times.user + times.system
            used[ENDED if kind in {"jvm", EXECUTORS} else kind] += times.children_user + times.children_system


def between(first: Mapping[str, float], last: Mapping[str, float]) -> dict[str, float]:
    """CPU-seconds used between two answers of ``Clients.cpu``.

    What a process had used before the first answer and took with it when it ended is in both, as its own time and as
    its parent's children's: the kinds that went down are made up for by ``ended``.
    """
    used = {kind: last.get(kind, 0.0) - first.get(kind, 0.0) for kind in first.keys() | last.keys()}
    gone = sum(min(each, 0.0) for each in used.values())
    return {kind: max(each, 0.0) for kind, each in used.items()} | {ENDED: used.get(ENDED, 0.0) + gone}


def pss_mib(process: psutil.Process) -> float:
    """What a process holds (PSS), its share of shared pages included; 0 of one that is gone."""
    try:
        return float(process.memory_full_info().pss) / (1 << 20)
    except psutil.Error:
        return 0.0


def _below(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children(recursive=True))
    except psutil.Error:
        return []


def _kind(process: psutil.Process) -> str:
    try:
        line = " ".join(process.cmdline())
    except psutil.Error:
        return "other"
    return next((kind for word, kind in KINDS if word in line), "other")


def _own(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:2]))


def _environment(process: psutil.Process) -> list[str]:
    return [f"{key}={value}" for key, value in process.environ().items() if key == MARK]
