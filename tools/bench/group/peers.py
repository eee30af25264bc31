"""Time to stable after one member joins, leaves and is killed: ours and Kafka's protocols, in turns, on one broker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from tests.kit.broker import Broker
from tools.bench.group.agents import Agents
from tools.bench.group.consumers import Consumers, Jvm
from tools.bench.group.server import Setting
from tools.bench.group.timeline import Change, Outcome, outcome
from tools.bench.results import order

TOPIC = "peers"
REBALANCE_MS = 60_000
SETTLE_S = 90.0
WARMING = 3
CALM_S = 1.0
EVERY_S = 0.02

OURS = "cohort"
STRATEGY = "org.apache.kafka.clients.consumer."
JAVA = {
    "classic, cooperative-sticky": f"{STRATEGY}CooperativeStickyAssignor",
    "classic, range": f"{STRATEGY}RangeAssignor",
    "consumer protocol": "consumer",
}
PEERS = (OURS, *JAVA)
EVENTS = ("start", "join", "leave", "kill")


class PeerError(Exception):
    """A group did not settle."""


@dataclass(frozen=True)
class Plan:
    """How much to measure; times in ms."""

    members: int
    partitions: int
    rounds: int
    session_ms: int
    heartbeat_ms: int
    peers: tuple[str, ...] = PEERS


@dataclass(frozen=True)
class PeerRun:
    """One event of one peer."""

    peer: str
    event: str
    outcome: Outcome


class Pool(Protocol):
    """Members of one group."""

    def open(self, names: list[str]) -> None:
        """Make them ready to join."""

    def join(self, name: str) -> None:
        """Let one join."""

    def close(self, name: str) -> None:
        """Let one leave."""

    def kill(self, name: str) -> None:
        """Kill one; only the last of those opened can be."""

    def end(self) -> None:
        """End all."""


class Watch:
    """The callbacks of one group, collected."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._changes: list[Change] = []
        self._lock = threading.Lock()

    def heard(self, change: Change) -> None:
        """Take a callback down; called from any thread."""
        with self._lock:
            self._changes.append(change)

    def forget(self) -> None:
        """Begin with another group."""
        with self._lock:
            self._changes.clear()

    def settled(self, began: float, live: Sequence[str]) -> Outcome:
        """What followed the event at ``began``, once it is settled and no callback has come for a while."""
        nobody, deadline = threading.Event(), time.monotonic() + SETTLE_S
        while time.monotonic() < deadline:
            nobody.wait(EVERY_S)
            with self._lock:
                changes = [*self._changes]
            if changes and time.time() - max(change.at for change in changes) > CALM_S:
                found = outcome(changes, began, live, self._partitions)
                if found is not None:
                    return found
        raise PeerError(f"{len(live)} members did not settle within {SETTLE_S:g} s")


def measure(plan: Plan, say: Callable[[str], None]) -> list[PeerRun]:
    """All peers in turns, there and back."""
    session, beat = str(plan.session_ms), str(plan.heartbeat_ms)
    properties = {
        "group.consumer.session.timeout.ms": session,
        "group.consumer.min.session.timeout.ms": session,
        "group.consumer.heartbeat.interval.ms": beat,
        "group.consumer.min.heartbeat.interval.ms": beat,
    }
    watch = Watch(plan.partitions)
    say("starting a broker")
    with ExitStack() as stack:
        broker = stack.enter_context(Broker(heap_mb=1024, java_options=(), properties=properties))
        say(f"making a topic of {plan.partitions} partitions")
        broker.admin.create_topic(TOPIC, plan.partitions)
        jvm = partial(Jvm, broker.bootstrap, TOPIC, plan.session_ms, plan.heartbeat_ms, watch.heard)
        warm: list[Jvm] = []
        if set(plan.peers) != {OURS}:
            warm.append(jvm())
            stack.callback(warm[0].end)

        def pool(peer: str) -> Pool:
            if peer != OURS:
                return Consumers(warm[0], jvm, JAVA[peer])
            setting = Setting({TOPIC: plan.partitions}, plan.session_ms, plan.heartbeat_ms, REBALANCE_MS)
            return Agents(setting, broker.bootstrap, watch.heard)

        if warm:
            say("warming the JVM up")
            one_group(pool(next(iter(JAVA))), watch, WARMING, kill=False)
        runs: list[PeerRun] = []
        todo = order(plan.peers, plan.rounds)
        for number, peer in enumerate(todo, 1):
            watch.forget()
            found = one_group(pool(peer), watch, plan.members)
            runs += [PeerRun(peer, event, seen) for event, seen in found.items()]
            shown = ", ".join(f"{event} {seen.settled_s * 1000:.0f} ms" for event, seen in found.items())
            say(f"[{number}/{len(todo)}] {peer}: {shown}")
    return runs


def one_group(pool: Pool, watch: Watch, members: int, *, kill: bool = True) -> dict[str, Outcome]:
    """A group's life: all join, one more joins and leaves, one is killed."""
    names = [f"m{number}" for number in range(members)]
    joiner, victim = "joiner", names[-1]
    found: dict[str, Outcome] = {}

    def after(event: str, act: Callable[[], None], live: Sequence[str]) -> None:
        began = time.time()
        act()
        found[event] = watch.settled(began, live)

    def join_all() -> None:
        for name in names:
            pool.join(name)

    try:
        pool.open([joiner, *names])
        after("start", join_all, names)
        after("join", lambda: pool.join(joiner), [*names, joiner])
        after("leave", lambda: pool.close(joiner), names)
        if kill:
            after("kill", lambda: pool.kill(victim), names[:-1])
    finally:
        pool.end()
    return found
