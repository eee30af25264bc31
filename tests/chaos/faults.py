"""Carries a fault out, and takes it back: each kind of ``schedule.KINDS`` is a function here that yields in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from tests.chaos import firewall
from tests.chaos.clock import JUMPS_S, Clock
from tests.chaos.query import FIRST, QueryUnderTest, kill, pause, resume
from tests.chaos.schedule import SCALES, Fault
from tests.kit.broker import Cluster, Node

ROLL_S = 30.0


LOOK_S: Final = 3.0


@dataclass
class Scene:
    """What faults are made in."""

    cluster: Cluster
    query: QueryUnderTest
    scales: Iterator[int] = field(default_factory=lambda: iter(SCALES * 1000))

    def process(self, fault: Fault) -> psutil.Process | None:
        """One of the processes that a fault is for; None where there is none now."""
        return _one(self.query.parts(fault.kind.target), fault.which)

    def broker(self, fault: Fault) -> Node | None:
        """One of the brokers that run; the one that has the group's offsets for what hits the coordinator."""
        running = [node for node in self.cluster.nodes if node.running]
        if fault.kind.target == "coordinator":
            with suppress(Exception):
                # Not for long where we are cut off, too: meanwhile no fault ends that is there.
                leader = self.cluster.admin.leaders("__consumer_offsets", LOOK_S)[0]
                return next((node for node in running if node.node_id == leader), None)
        chosen: Node | None = _one(running, fault.which)
        return chosen


def at_work(scene: Scene, fault: Fault) -> AbstractContextManager[str]:
    """The fault is there inside the block; the value says whom it hit ("" for nobody: there was no such process)."""
    return contextmanager(_FAULTS[fault.kind.name])(scene, fault)


def _one(among: Sequence[Any], which: float) -> Any:
    return among[min(int(which * len(among)), len(among) - 1)] if among else None


# --- processes ------------------------------------------------------------------------------------------


def _killed(scene: Scene, fault: Fault) -> Iterator[str]:
    process = scene.process(fault)
    if process is not None:
        kill(process)
    yield _who(process)


def _frozen(scene: Scene, fault: Fault) -> Iterator[str]:
    process = scene.process(fault)
    if process is not None:
        pause(process)
    try:
        yield _who(process)
    finally:
        if process is not None:
            resume(process)


def _driver_killed(scene: Scene, _fault: Fault) -> Iterator[str]:
    scene.query.kill_driver()
    yield "all of the driver's side"


def _who(process: psutil.Process | None) -> str:
    return "" if process is None else f"pid {process.pid}"


# --- brokers --------------------------------------------------------------------------------------------


def _broker_killed(scene: Scene, fault: Fault) -> Iterator[str]:
    node = scene.broker(fault)
    if node is not None:
        node.kill()
    try:
        yield _which(node)
    finally:
        if node is not None and not node.running:
            node.launch()


def _broker_frozen(scene: Scene, fault: Fault) -> Iterator[str]:
    node = scene.broker(fault)
    if node is not None:
        node.pause()
    try:
        yield _which(node)
    finally:
        if node is not None and node.running:
            node.resume()


def _rolled(scene: Scene, _fault: Fault) -> Iterator[str]:
    """A rolling restart, as an upgrade of the brokers does it."""
    for node in scene.cluster.nodes:
        node.stop(ROLL_S)
        node.start()
    yield "all brokers, one after the other"


def _leaders_moved(scene: Scene, fault: Fault) -> Iterator[str]:
    """One broker goes in order, and its leaders move; it comes back as a follower."""
    node = scene.broker(fault)
    if node is not None:
        node.stop(ROLL_S)
        node.launch()
    yield _which(node)


def _which(node: Node | None) -> str:
    return "" if node is None else f"broker {node.node_id}"


# --- the network ----------------------------------------------------------------------------------------


def _cut(ports: Callable[[Scene, Fault], Sequence[int]], *ways: str) -> Callable[[Scene, Fault], Iterator[str]]:
    def cut(scene: Scene, fault: Fault) -> Iterator[str]:
        these, directions = ports(scene, fault), ways or (firewall.REQUESTS, firewall.ANSWERS)
        firewall.cut(these, directions)
        try:
            yield f"ports {', '.join(map(str, these))}" if these else ""
        finally:
            firewall.heal(these, directions)

    return cut


def _of_broker(scene: Scene, fault: Fault) -> Sequence[int]:
    node = _one(scene.cluster.nodes, fault.which)
    return [node.port]


def _between_brokers(scene: Scene, fault: Fault) -> Sequence[int]:
    return scene.cluster.between(_one(scene.cluster.nodes, fault.which).node_id)


def _of_coordinator(scene: Scene, _fault: Fault) -> Sequence[int]:
    found = scene.query.live()
    return [] if found is None else [found.run.port]


def _of_spark(scene: Scene, _fault: Fault) -> Sequence[int]:
    return [scene.query.port]


# --- the query ------------------------------------------------------------------------------------------


def _sink_throws(scene: Scene, _fault: Fault) -> Iterator[str]:
    scene.query.fail()
    yield "the next batch"


def _stopped(scene: Scene, _fault: Fault) -> Iterator[str]:
    scene.query.stop()
    yield "the query"


def _disk_full(disk: Callable[[Scene], Path]) -> Callable[[Scene, Fault], Iterator[str]]:
    def full(scene: Scene, _fault: Fault) -> Iterator[str]:
        filler = disk(scene) / "filler"
        with suppress(OSError), filler.open("wb") as file:
            for size in (1 << 20, 1 << 12):
                with suppress(OSError):
                    while True:
                        file.write(bytes(size))
                        file.flush()
        try:
            yield _room(disk(scene))
        finally:
            filler.unlink(missing_ok=True)

    return full


def _room(folder: Path) -> str:
    return f"{psutil.disk_usage(str(folder)).free} bytes are free"


def _scaled(scene: Scene, _fault: Fault) -> Iterator[str]:
    executors = next(scene.scales)
    scene.query.scale(executors)
    yield f"to {executors}"


def _gone(scene: Scene, _fault: Fault) -> Iterator[str]:
    """As dynamic allocation has it with minExecutors=0."""
    before = scene.query.executors
    scene.query.scale(0)
    try:
        yield "no executor is left"
    finally:
        if scene.query.executors == 0:  # else they were scaled meanwhile
            scene.query.scale(before or FIRST)


# --- clocks ---------------------------------------------------------------------------------------------


def _clock_set(of: Callable[[QueryUnderTest], Clock]) -> Callable[[Scene, Fault], Iterator[str]]:
    def wrong(scene: Scene, fault: Fault) -> Iterator[str]:
        jump_s = _one(JUMPS_S, fault.which)
        of(scene.query).set(jump_s)
        try:
            yield f"{jump_s:+g} s"
        finally:
            of(scene.query).set(0)

    return wrong


_FAULTS: dict[str, Callable[[Scene, Fault], Iterator[str]]] = {
    "executor-killed": _killed,
    "executor-frozen": _frozen,
    "agent-killed": _killed,
    "agent-frozen": _frozen,
    "worker-killed": _killed,
    "worker-frozen": _frozen,
    "runner-killed": _killed,
    "runner-frozen": _frozen,
    "driver-killed": _driver_killed,
    "driver-frozen": _frozen,
    "broker-killed": _broker_killed,
    "broker-frozen": _broker_frozen,
    "coordinator-killed": _broker_killed,
    "coordinator-frozen": _broker_frozen,
    "brokers-rolled": _rolled,
    "leaders-moved": _leaders_moved,
    "cut-clients-broker": _cut(_of_broker),
    "cut-clients-broker-requests": _cut(_of_broker, firewall.REQUESTS),
    "cut-clients-broker-answers": _cut(_of_broker, firewall.ANSWERS),
    "cut-broker-brokers": _cut(_between_brokers),
    "cut-broker-brokers-answers": _cut(_between_brokers, firewall.ANSWERS),
    "cut-agents-driver": _cut(_of_coordinator),
    "cut-agents-driver-requests": _cut(_of_coordinator, firewall.REQUESTS),
    "cut-agents-driver-answers": _cut(_of_coordinator, firewall.ANSWERS),
    "cut-executors-driver": _cut(_of_spark),
    "cut-executors-driver-answers": _cut(_of_spark, firewall.ANSWERS),
    "sink-throws": _sink_throws,
    "query-stopped": _stopped,
    "checkpoint-disk-full": _disk_full(lambda scene: scene.query.checkpoint.parent),
    "journal-disk-full": _disk_full(lambda scene: scene.query.home),
    "clock-of-driver-jumps": _clock_set(lambda query: query.driver_clock),
    "clock-of-executors-jumps": _clock_set(lambda query: query.executors_clock),
    "executors-scaled": _scaled,
    "executors-gone": _gone,
}
