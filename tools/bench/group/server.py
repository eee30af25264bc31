"""The product's coordinator behind its real Flight port with mutual TLS, alone in a process of its own.

Started with multiprocessing's spawn; the parent and the server talk over a pipe, which also carries the run's
credentials, so that they touch neither a disk nor a command line.
"""

from __future__ import annotations

import gc
import multiprocessing as mp
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

import psutil

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.coordinator.coordinator import Coordinator
from sparkcohort.runtime.shell.coordinator.group_settings import GroupSettings
from sparkcohort.runtime.shell.coordinator.plan_registry import PlanRegistry
from sparkcohort.runtime.shell.coordinator.service import Service
from sparkcohort.runtime.shell.rpc.flight import GroupServer
from sparkcohort.runtime.shell.rpc.tls import Credentials, new_authority

SPAWN = mp.get_context("spawn")
HOST = "127.0.0.1"
START_S = 60.0
ASSIGNORS = ("cooperative-sticky", "range")


@dataclass(frozen=True)
class Setting:
    """The group to serve; times in ms."""

    topics: Mapping[str, int]
    session_ms: int
    heartbeat_ms: int
    rebalance_ms: int


@dataclass(frozen=True)
class Address:
    """How to reach it."""

    port: int
    credentials: Credentials


@dataclass(frozen=True)
class ObservedEpochs:
    """What the server says of itself: the group's state and members, and the last rebalance's duration in ms."""

    state: str
    generation: int
    members: int
    owned: int
    last_rebalance_ms: int
    rebalances: int


class Server:
    """A coordinator's process, as seen from the bench."""

    def __init__(self, setting: Setting) -> None:
        self._pipe, theirs = SPAWN.Pipe()
        self._process = SPAWN.Process(target=_serve, args=(setting, theirs), name="bench-coordinator", daemon=True)
        self._process.start()
        theirs.close()
        if not self._pipe.poll(START_S):
            raise TimeoutError(f"the coordinator's process did not start within {START_S:g} s")
        self.address: Address = self._pipe.recv()
        self._watched = psutil.Process(self._process.pid)

    def seen(self) -> ObservedEpochs:
        """The group as it is now."""
        seen: ObservedEpochs = self._ask("seen")
        return seen

    def collect(self) -> None:
        """Let the server collect its garbage, before its memory is looked at."""
        self._ask("collect")

    def cpu_s(self) -> float:
        """CPU-seconds of the server's process so far: all of its threads, Python and not."""
        times = self._watched.cpu_times()
        return float(times.user + times.system)

    def memory_bytes(self) -> int:
        """Memory of the server's process that is nobody else's."""
        return int(self._watched.memory_full_info().uss)

    def _ask(self, what: str) -> Any:
        self._pipe.send(what)
        if not self._pipe.poll(START_S):
            raise TimeoutError(f"the coordinator's process did not answer within {START_S:g} s")
        return self._pipe.recv()

    def __enter__(self) -> Self:
        """It runs already."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _serve(setting: Setting, pipe: Connection) -> None:
    """Serve until the parent is gone (the process's whole life)."""
    settings = GroupSettings(
        group_id="bench",
        run_id=secrets.token_hex(8),
        first_generation=0,
        session_timeout_ms=setting.session_ms,
        heartbeat_interval_ms=setting.heartbeat_ms,
        rebalance_timeout_ms=setting.rebalance_ms,
        assignors=ASSIGNORS,
    )
    authority = new_authority()
    coordinator = Coordinator(settings, lambda: setting.topics)
    plans = PlanRegistry()
    plans.seed({TopicPartition(topic, number): 0 for topic, count in setting.topics.items() for number in range(count)})
    service = Service(coordinator, plans, failure=lambda: None, status=dict)
    coordinator.start()
    server = GroupServer(authority, service.handlers(), service.subscribe, service.unsubscribe, host=HOST)
    pipe.send(Address(server.port, authority.client))
    while True:
        try:
            asked = pipe.recv()
        except EOFError:
            return
        if asked == "collect":
            gc.collect()
        group, last = coordinator.group, coordinator.rebalances[-1] if coordinator.rebalances else None
        pipe.send(
            ObservedEpochs(
                state=group.state.value,
                generation=group.generation,
                members=len(group.members),
                owned=sum(map(len, group.owned.values())),
                last_rebalance_ms=last.ended_ms - last.started_ms if last else 0,
                rebalances=len(coordinator.rebalances),
            )
        )
