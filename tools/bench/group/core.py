"""The pure core alone: a group and its members as values, joined by two queues under a virtual clock.

No clock, thread or socket takes part: what is measured is the CPU time of the steps.  The group's steps, those of the
members (which run elsewhere in the product), the leader's coding and checking, and the assignor are accounted apart.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from sparkcohort.assignors import ASSIGNORS, Assignor, MemberSubscription
from sparkcohort.assignors.api import NO_RACKS, Assignment, Racks
from sparkcohort.runtime import group as groups
from sparkcohort.runtime.leader import assignment as leader
from sparkcohort.runtime.member import machine
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.consumer_protocol import ConsumerEmbedded
from sparkcohort.runtime.protocol.error_codes import ErrorCode

ASSIGNOR = "cooperative-sticky"
SESSION_MS, HEARTBEAT_MS, REBALANCE_MS = 45_000, 3_000, 300_000
TOPIC_PARTITIONS = 1_000
DRIVER = 0


class CoreError(Exception):
    """The group did not come to where it has to."""


@dataclass
class Spent:
    """CPU-seconds by who spent them; ``steps`` counts the group's."""

    group: float = 0.0
    members: float = 0.0
    leader: float = 0.0
    assignor: float = 0.0
    steps: int = 0

    @property
    def without_assignor(self) -> float:
        """All but the assignor."""
        return self.group + self.members + self.leader


class TimedAssignor:
    """An assignor that remembers how long its last run took."""

    def __init__(self, assignor: Assignor) -> None:
        self._assignor = assignor
        self.name = assignor.name
        self.cooperative = assignor.cooperative
        self.last_s = 0.0

    def assign(
        self, topics: Mapping[str, int], members: Mapping[str, MemberSubscription], racks: Racks = NO_RACKS
    ) -> Assignment:
        """As the assignor inside."""
        began = time.thread_time()
        given = self._assignor.assign(topics, members, racks)
        self.last_s = time.thread_time() - began
        return given


@contextmanager
def timed_assignor() -> Iterator[TimedAssignor]:
    """The timed one in place of the assignor that the leader finds by name."""
    plain = ASSIGNORS[ASSIGNOR]
    timed = ASSIGNORS[ASSIGNOR] = TimedAssignor(plain)
    try:
        yield timed
    finally:
        ASSIGNORS[ASSIGNOR] = plain


class World:
    """One group, its driver (member 0, which leads and subscribes to nothing) and its members."""

    def __init__(self, members: int, partitions: int, assignor: TimedAssignor) -> None:
        self.now_ms = 0
        self.spent = Spent()
        self.joined_all: Spent | None = None
        self._assignor = assignor
        each = min(TOPIC_PARTITIONS, partitions)
        self._topics = {f"topic-{number}": each for number in range(partitions // each)}
        self._expected = members
        self._joins = 0
        self._correlation = 0
        self._asked: dict[int, tuple[int, p.Request]] = {}
        self._ids: dict[str, int] = {}
        self._requests: deque[tuple[int, p.Request]] = deque()
        self._events: deque[tuple[int, machine.MemberEvent]] = deque()
        config = groups.GroupConfig("bench", member_id_salt="0123456789abcdef")
        self.group = groups.new_group(config, ConsumerEmbedded())
        self.members = [machine.new_member(self._config(number)) for number in range(members + 1)]

    def _config(self, number: int) -> machine.MemberConfig:
        driver = number == DRIVER
        name = "driver" if driver else f"executor-{number}"
        return machine.MemberConfig(
            client_id=name,
            client_host=f"10.0.{number >> 8}.{number & 255}",
            group_instance_id="driver" if driver else None,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            topics=() if driver else tuple(self._topics),
            assignors=(ASSIGNOR,),
        )

    # --- what is measured ----------------------------------------------------------------------------

    def join_all(self) -> Spent:
        """Everybody joins at once; what is spent from the arrival of the last join until all is settled."""
        self._events.append((DRIVER, machine.Start()))
        self._run()
        self._joins, self.joined_all = 0, None
        return self._all_joined()

    def _all_joined(self) -> Spent:
        self._events.extend((number, machine.Start()) for number in range(1, len(self.members)))
        self._run()
        self._check()
        if self.joined_all is None:
            raise CoreError("not everybody joined")
        return _difference(self.spent, self.joined_all)

    def join_one(self) -> Spent:
        """One more member joins."""
        self.members.append(machine.new_member(self._config(len(self.members))))
        return self._rebalance(len(self.members) - 1, machine.Start())

    def leave_one(self) -> Spent:
        """The last member leaves."""
        spent = self._rebalance(len(self.members) - 1, machine.Stop("bench"))
        self.members.pop()
        return spent

    def heartbeats(self, rounds: int) -> tuple[int, Spent]:
        """Everybody heartbeats ``rounds`` times: how many heartbeats, and what they cost each side."""
        before, count = Spent(**asdict(self.spent)), 0
        for _ in range(rounds):
            self.now_ms += HEARTBEAT_MS
            self._events.extend((number, p.Tick()) for number in range(len(self.members)))
            self._step_members()
            count += len(self._requests)
            self._step_group()
            self._step_members()
        if self._requests or count < rounds * len(self.members):
            raise CoreError(f"{count} heartbeats of {len(self.members)} members in {rounds} rounds")
        return count, _difference(self.spent, before)

    def _rebalance(self, number: int, event: machine.MemberEvent) -> Spent:
        before = Spent(**asdict(self.spent))
        self._events.append((number, event))
        self._run()
        self._check()
        return _difference(self.spent, before)

    # --- the loop ------------------------------------------------------------------------------------

    def _run(self) -> None:
        while self._events or self._requests:
            self._step_members()
            self._step_group()

    def _step_members(self) -> None:
        began, elsewhere = time.thread_time(), self.spent.leader + self.spent.assignor
        while self._events:
            number, event = self._events.popleft()
            self.members[number], actions = machine.step(self.members[number], event, self.now_ms)
            for action in actions:
                match action:
                    case machine.Send(request):
                        self._requests.append((number, request))
                    case machine.Revoke():
                        self._events.append((number, machine.RevocationDone()))
                    case machine.ComputeAssignment():
                        self._events.append((number, self._lead(action)))
                    case machine.Lost() | machine.Failed():
                        raise CoreError(f"member {number}: {action}")
        elsewhere = self.spent.leader + self.spent.assignor - elsewhere
        self.spent.members += time.thread_time() - began - elsewhere

    def _lead(self, asked: machine.ComputeAssignment) -> machine.AssignmentComputed:
        began = time.thread_time()
        since = {joined.member_id: groups.owned(self.group, joined.member_id) for joined in asked.members}
        assignments = leader.assign(asked.protocol_name, asked.members, self._topics, since)
        self.spent.assignor += self._assignor.last_s
        self.spent.leader += time.thread_time() - began - self._assignor.last_s
        return machine.AssignmentComputed(assignments, asked.generation)

    def _step_group(self) -> None:
        """What the coordinator's loop does for each request: step, and look for the next deadline."""
        began = time.thread_time()
        while self._requests:
            number, request = self._requests.popleft()
            if isinstance(request, p.JoinGroup) and request.member_id:
                self._joins += 1
                if self._joins == self._expected and self.joined_all is None:
                    self.spent.group += time.thread_time() - began
                    self.joined_all, began = Spent(**asdict(self.spent)), time.thread_time()
            self._correlation += 1
            self._asked[self._correlation] = number, request
            self.group, actions, _records = groups.decide(
                self.group, p.Received(self._correlation, request), self.now_ms
            )
            self.spent.steps += 1
            due_ms = groups.deadline(self.group)
            if due_ms is not None and due_ms <= self.now_ms:
                self.group, more, _records = groups.decide(self.group, p.Tick(), self.now_ms)
                actions += more
            for action in actions:
                self._carry_out(action)
        self.spent.group += time.thread_time() - began

    def _carry_out(self, action: p.Action) -> None:
        match action:
            case p.Answer(correlation, reply):
                number, request = self._asked.pop(correlation)
                if isinstance(reply, p.JoinGroupReply) and reply.error is ErrorCode.NONE:
                    self._ids[reply.member_id] = number
                self._events.append((number, machine.Replied(reply, request)))
            case p.PushRejoin(member_id, reason, generation) if member_id in self._ids:
                self._events.append((self._ids[member_id], machine.Pushed(reason, generation)))

    def _check(self) -> None:
        """Every partition has one owner, as its member sees it and as the group does."""
        seen = [tp for each in self.members for tp in each.owned]
        known = groups.owners(self.group)
        wanted = sum(self._topics.values())
        if self.group.state is not groups.GroupState.STABLE or not len(seen) == len({*seen}) == len(known) == wanted:
            raise CoreError(f"{self.group.state}: {len(seen)} partitions owned, {len(known)} known, {wanted} wanted")


def _difference(after: Spent, before: Spent) -> Spent:
    old = asdict(before)
    return Spent(**{name: value - old[name] for name, value in asdict(after).items()})


@dataclass(frozen=True)
class CoreRun:
    """One run: CPU-seconds of each rebalance, and heartbeats with their CPU-seconds."""

    members: int
    partitions: int
    rebalances: Mapping[str, Spent]
    heartbeats: int
    heartbeat: Spent


def run(members: int, partitions: int, rounds: int) -> CoreRun:
    """All join at once, one more joins, one leaves, all heartbeat ``rounds`` times."""
    with timed_assignor() as assignor:
        world = World(members, partitions, assignor)
        rebalances = {
            "all join at once": world.join_all(),
            "one joins": world.join_one(),
            "one leaves": world.leave_one(),
        }
        count, heartbeat = world.heartbeats(rounds)
    return CoreRun(members, partitions, rebalances, count, heartbeat)


def memory(members: int, partitions: int) -> dict[str, float]:
    """Bytes per member that the group's value holds, and a member's own machine, as Python's allocator counts them."""
    with timed_assignor() as assignor:
        gc.collect()
        tracemalloc.start()
        try:
            world = World(members, partitions, assignor)
            world.join_all()
            kept = world.group, world.members
            del world
            gc.collect()
            both = tracemalloc.get_traced_memory()[0]
            group = kept[0]
            del kept
            gc.collect()
            alone = tracemalloc.get_traced_memory()[0]
            held = len(group.members)
        finally:
            tracemalloc.stop()
    return {"group": alone / held, "member": (both - alone) / held}
