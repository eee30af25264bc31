"""The server alone on the scale: joins, memory and heartbeats through Flight with mutual TLS."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from tools.bench.group.clients import JOIN_S, Clients, Settled
from tools.bench.group.core import TOPIC_PARTITIONS
from tools.bench.group.server import ObservedEpochs, Server, Setting

SESSION_MS, HEARTBEAT_MS, REBALANCE_MS = 180_000, 60_000, 60_000
"""So long that no member heartbeats by itself while heartbeats are measured."""
PROCESSES = 4
CONNECT_S = 120.0
EVERY_S = 0.1
"""How often the server is asked whether all is settled; when it was is what the members say."""


class RpcError(Exception):
    """Members were refused, or the group did not come to where it has to."""


@dataclass(frozen=True)
class RpcRun:
    """One run through the RPC: times in seconds, memory in bytes a member."""

    members: int
    partitions: int
    stable_s: float
    stable_cpu_s: float
    rebalances: int
    member_bytes: float
    heartbeats: int
    refused: int
    heartbeat_wall_s: float
    heartbeat_cpu_s: float

    @property
    def per_cpu_s(self) -> float:
        """Heartbeats per second of the server's CPU."""
        return self.heartbeats / self.heartbeat_cpu_s

    @property
    def per_s(self) -> float:
        """Heartbeats per second, clients and server sharing the machine."""
        return self.heartbeats / self.heartbeat_wall_s


def run(members: int, partitions: int, heartbeat_s: float) -> RpcRun:
    """Connect all, let all join at once, then heartbeat for ``heartbeat_s`` seconds."""
    each = min(TOPIC_PARTITIONS, partitions)
    topics = {f"topic-{number}": each for number in range(partitions // each)}
    setting = Setting(topics, SESSION_MS, HEARTBEAT_MS, REBALANCE_MS)
    with Server(setting) as server, ExitStack() as stack:
        numbers = range(1, members + 1)
        clients = [
            Clients(numbers[start::PROCESSES], server.address, setting) for start in range(min(PROCESSES, members))
        ]
        for each_process in clients:
            stack.callback(each_process.close)
        empty = _memory(server)
        _all(clients, "connect", CONNECT_S)
        began, cpu = time.time(), server.cpu_s()
        for each_process in clients:
            each_process.tell("join")
        seen, settled_at = _settle(server, clients, members, partitions)
        stable_cpu_s = server.cpu_s() - cpu
        full = _memory(server)
        began_heartbeats, cpu = time.monotonic(), server.cpu_s()
        counts = _all(clients, "heartbeat", heartbeat_s + CONNECT_S, heartbeat_s)
        wall_s, heartbeat_cpu_s = time.monotonic() - began_heartbeats, server.cpu_s() - cpu
    return RpcRun(
        members=members,
        partitions=partitions,
        stable_s=settled_at - began,
        stable_cpu_s=stable_cpu_s,
        rebalances=seen.rebalances - 1,  # the driver's own, before anybody joined
        member_bytes=(full - empty) / members,
        heartbeats=sum(good for good, _ in counts),
        refused=sum(bad for _, bad in counts),
        heartbeat_wall_s=wall_s,
        heartbeat_cpu_s=heartbeat_cpu_s,
    )


def _memory(server: Server) -> int:
    server.collect()
    return server.memory_bytes()


def _all(clients: Sequence[Clients], what: str, timeout_s: float, value: float = 0) -> list[tuple[int, int]]:
    """Tell all processes, then hear all."""
    for each in clients:
        each.tell(what, value)
    answers = [each.answer(timeout_s) for each in clients]
    if not all(answers):
        raise RpcError(f"a process of members could not {what}")
    return answers


def _settle(server: Server, clients: Sequence[Clients], members: int, partitions: int) -> tuple[ObservedEpochs, float]:
    """Wait until the group and every member say that they are settled; when the last member became so (epoch s)."""
    nobody, deadline = threading.Event(), time.monotonic() + JOIN_S
    while time.monotonic() < deadline:
        nobody.wait(EVERY_S)
        seen = server.seen()
        if seen.state != "Stable" or seen.members != members + 1 or seen.owned != partitions:
            continue
        for each in clients:
            each.tell("settled", seen.generation)
        answers: list[Settled] = [each.answer() for each in clients]
        failures = [text for answer in answers for text in answer.failures]
        if failures:
            raise RpcError(f"{len(failures)} members failed: {failures[0]}")
        if sum(a.members for a in answers) == members and sum(a.owned for a in answers) == partitions:
            return seen, max(answer.at for answer in answers)
    raise RpcError(f"not settled within {JOIN_S:g} s: {server.seen()}")
