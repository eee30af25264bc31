"""Many members in few processes: the product's member machine and its Flight link, each member with its own of both.

A member has its own TLS connection, its own event stream and the calls of a real agent; what a thread of it does not do
is fetch.  Flight's Python client has no asynchronous calls: many are under way because many threads wait.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from sparkcohort.runtime.member import machine
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.codec import decode, encode
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.shell.rpc.flight import CoordinatorRefused, CoordinatorUnreachable, Link
from tools.bench.group.server import ASSIGNORS, HOST, SPAWN, START_S, Address, Setting

CALL_S = 5.0
JOIN_S = 120.0
MORE_CONNECTIONS = 2
"""Connections of a process that heartbeats as fast as it can; each has one call under way.  Eight in all keep a server of two
cores busy; with sixteen its threads wait for each other as well."""


@dataclass(frozen=True)
class Settled:
    """Members of one process that are stable in a generation, and when the last of them became so (epoch s)."""

    members: int
    owned: int
    at: float
    failures: tuple[str, ...]


class Member:
    """One member: a thread that steps its machine and makes its calls, and one that listens."""

    def __init__(self, number: int, address: Address, setting: Setting) -> None:
        name = f"executor-{number}"
        said = {"executor": str(number), "host": HOST, "cores": 1, "pid": 0, "address": name}
        config = machine.MemberConfig(
            client_id=name,
            client_host=HOST,
            group_instance_id=None,
            session_timeout_ms=setting.session_ms,
            heartbeat_interval_ms=setting.heartbeat_ms,
            rebalance_timeout_ms=setting.rebalance_ms,
            topics=tuple(setting.topics),
            assignors=ASSIGNORS,
            user_data=json.dumps(said, separators=(",", ":")).encode(),
        )
        self.member = machine.new_member(config)
        self.stable_at = 0.0
        self.failure = ""
        self.subscribed = threading.Event()
        self._name = name
        self._link = Link(HOST, address.port, address.credentials)
        self._inbox: queue.SimpleQueue[machine.MemberEvent] = queue.SimpleQueue()

    def connect(self) -> None:
        """Open the event stream."""
        threading.Thread(target=self._listen, daemon=True).start()

    def join(self) -> None:
        """Join, and go on as a member."""
        self._inbox.put(machine.Start())
        threading.Thread(target=self._run, daemon=True).start()

    def _listen(self) -> None:
        with contextlib.suppress(CoordinatorUnreachable):
            for event in self._link.events(self._name.encode()):
                self.subscribed.set()
                said = json.loads(event) if event else {}
                if said.get("event") == "rejoin":
                    self._inbox.put(machine.Pushed(said["reason"], said["generation"]))

    def _run(self) -> None:
        while not self.failure:
            due = machine.deadline(self.member)
            wait_s = None if due is None else max(due - _now_ms(), 0) / 1000
            event: machine.MemberEvent
            try:
                event = self._inbox.get(timeout=wait_s)
            except queue.Empty:
                event = p.Tick()
            self._step(event)

    def _step(self, event: machine.MemberEvent) -> None:
        was = self.member.state
        self.member, actions = machine.step(self.member, event, _now_ms())
        if self.member.state is machine.MemberState.STABLE and was is not machine.MemberState.STABLE:
            self.stable_at = time.time()
        for action in actions:
            match action:
                case machine.Send(request):
                    self._call(request)
                case machine.Revoke():
                    self._inbox.put(machine.RevocationDone())
                case machine.Failed():
                    self.failure = str(action)

    def _call(self, request: p.Request) -> None:
        kind = type(request).__name__
        try:
            reply: Any = decode(self._link.call(kind, encode(request), JOIN_S))
        except (CoordinatorUnreachable, CoordinatorRefused) as error:
            self.failure = str(error)
        else:
            self._inbox.put(machine.Replied(reply, request))


class Clients:
    """One process of members, as seen from the bench."""

    def __init__(self, numbers: Sequence[int], address: Address, setting: Setting) -> None:
        self._pipe, theirs = SPAWN.Pipe()
        arguments = (tuple(numbers), address, setting, theirs)
        self._process = SPAWN.Process(target=_run, args=arguments, name="bench-members", daemon=True)
        self._process.start()
        theirs.close()

    def tell(self, what: str, value: float = 0) -> None:
        """Ask for something without waiting."""
        self._pipe.send((what, value))

    def answer(self, timeout_s: float = START_S) -> Any:
        """The next answer; raises TimeoutError."""
        if not self._pipe.poll(timeout_s):
            raise TimeoutError(f"a process of members did not answer within {timeout_s:g} s")
        return self._pipe.recv()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _run(numbers: Sequence[int], address: Address, setting: Setting, pipe: Connection) -> None:
    """The process's whole life: it does what it is told until the parent is gone."""
    members = [Member(number, address, setting) for number in numbers]
    while True:
        try:
            what, value = pipe.recv()
        except EOFError:
            return
        match what:
            case "connect":
                for each in members:
                    each.connect()
                pipe.send(all(each.subscribed.wait(START_S) for each in members))
            case "join":
                for each in members:
                    each.join()
            case "settled":
                pipe.send(_settled(members, int(value)))
            case "heartbeat":
                pipe.send(_heartbeat(members, address, value))


def _settled(members: Sequence[Member], generation: int) -> Settled:
    stable = [
        each
        for each in members
        if each.member.state is machine.MemberState.STABLE and each.member.generation == generation
    ]
    return Settled(
        members=len(stable),
        owned=sum(len(each.member.owned) for each in stable),
        at=max((each.stable_at for each in stable), default=0.0),
        failures=tuple(each.failure for each in members if each.failure),
    )


def _heartbeat(members: Sequence[Member], address: Address, seconds: float) -> tuple[int, int]:
    """Heartbeats of all members in turn, as fast as they are answered: how many were accepted, and how many not."""
    counts: list[tuple[int, int]] = []
    shares = [members[start::MORE_CONNECTIONS] for start in range(MORE_CONNECTIONS)]
    threads = [
        threading.Thread(target=lambda share=share: counts.append(_hammer(share, address, seconds)))
        for share in shares
        if share
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(good for good, _ in counts), sum(bad for _, bad in counts)


def _hammer(members: Sequence[Member], address: Address, seconds: float) -> tuple[int, int]:
    link = Link(HOST, address.port, address.credentials)
    machines = [each.member for each in members]
    bodies = [encode(p.Heartbeat(each.member_id, None, each.generation)) for each in machines]
    accepted = encode(p.HeartbeatReply(ErrorCode.NONE))
    good = asked = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        good += link.call("Heartbeat", bodies[asked % len(bodies)], CALL_S) == accepted
        asked += 1
    return good, asked - good


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
