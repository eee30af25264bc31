"""Every state that two members and three partitions can reach, breadth first, through the production group and members.

What can happen next in a state: a request in flight arrives (in the order of its process), a reply or a push is handled
(two channels, so either may come first), the shell finishes a revocation or an assignment, a member that the group has left
behind sends its heartbeat.  Faults, of which a run has a few: a member leaves, its process dies and another starts, a
session ends, an issued id ends, the join phase or the sync's time is up, somebody asks for a rebalance.

Time stands still; a deadline is reached by moving it to now.  Two states that differ only in numbers count as one: ids
are named by process and age, generations by rank, attempts not at all, for nothing but their order matters.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from sparkcohort.runtime import group as g
from sparkcohort.runtime import leader
from sparkcohort.runtime import member as m
from sparkcohort.runtime import protocol as p
from sparkcohort.runtime.consumer_protocol import ConsumerEmbedded, decode_subscription
from sparkcohort.runtime.errors import ErrorCode
from tests.support.group_laws import check_step
from tests.support.group_world import member_config

TOPIC, NUMBERS = "t", (0, 1, 2)
PARTITIONS = tuple(p.TopicPartition(TOPIC, number) for number in NUMBERS)
NAMES = "ab"
LISTENING = {m.MemberState.STABLE, m.MemberState.COMPUTING, m.MemberState.SYNCING}
KINDS = (p.JoinGroup, p.SyncGroup, p.Heartbeat, p.LeaveGroup)  # what a process may wait for, one of each at a time


@dataclass(frozen=True)
class Process:
    """One member's process: what waits to be handled by it, and what it has sent."""

    number: int  # all processes are numbered, so that an answer finds the one that asked
    member: m.Member
    replies: tuple[p.Reply, ...] = ()
    pushes: tuple[m.Pushed, ...] = ()
    work: tuple[m.MemberEvent, ...] = ()
    requests: tuple[p.Request, ...] = ()


@dataclass(frozen=True)
class World:
    """Everything at one moment; ``ghosts`` are the processes that died with requests in flight."""

    group: g.Group
    processes: tuple[Process, ...]
    ghosts: tuple[Process, ...] = ()
    started: int = 0
    faults: int = 0


@dataclass
class Explorer:
    """Breadth first over all worlds with at most ``faults`` faults; counts what it has seen."""

    faults: int
    seen: set[object] = field(default_factory=set)
    steps: int = 0
    settled: int = 0
    plans: dict[object, tuple[tuple[str, bytes], ...]] = field(default_factory=dict)

    def beginning(self, names: str = NAMES) -> World:
        """An empty group, and these two about to join."""
        world = World(g.new_group(g.GroupConfig("billing"), ConsumerEmbedded()), ())
        for name in names:
            world = self.start(world, name)
        return world

    def calmed(self, world: World) -> World:
        """What comes of it when everything happens in the order in which it can."""
        while (after := next(self.calm(world), None)) is not None:
            world = after
        return world

    def explore(self, world: World) -> None:
        """Visit all that can come of it; AssertionError where a law is broken."""
        frontier = deque([world])
        self.seen.add(key(world))
        while frontier:
            world = frontier.popleft()
            calm = list(self.calm(world))
            self.check(world, quiet=not calm)
            for after in [*calm, *(self.fault(world) if world.faults < self.faults else ())]:
                self.steps += 1
                mark = key(after)
                if mark not in self.seen:
                    self.seen.add(mark)
                    frontier.append(after)

    # --- what can happen -----------------------------------------------------------------------------

    def calm(self, world: World) -> Iterator[World]:
        """Everything that happens without a fault."""
        for who in (*world.processes, *world.ghosts):
            if who.requests:
                yield self.arrive(world, who)
        for who in world.processes:
            if who.replies:
                yield self.handle(world, replace(who, replies=who.replies[1:]), m.Replied(who.replies[0]))
            if who.pushes:
                yield self.handle(world, replace(who, pushes=who.pushes[1:]), who.pushes[0])
            if who.work:
                yield self.handle(world, replace(who, work=who.work[1:]), who.work[0])
            if not (who.requests or who.replies):
                yield from self.alone(world, who)

    def alone(self, world: World, who: Process) -> Iterator[World]:
        """A heartbeat of one that has something to learn from it; a join once more of one that was told to wait."""
        member, group = who.member, world.group
        behind = member.generation != group.generation or member.member_id not in group.members
        if member.retry_due_ms is not None:
            yield self.handle(world, replace(who, member=replace(member, retry_due_ms=0)), p.Tick())
            return
        learns = behind or group.state == "PreparingRebalance"
        if learns and member.heartbeat_due_ms is not None and member.state in LISTENING:
            yield self.handle(world, replace(who, member=replace(member, heartbeat_due_ms=0)), p.Tick())

    def fault(self, world: World) -> Iterator[World]:
        """Everything that may go wrong, or be wanted."""
        world = replace(world, faults=world.faults + 1)
        group = world.group
        for who in world.processes:
            if who.member.state not in {m.MemberState.LEFT, m.MemberState.FAILED}:
                yield self.handle(world, who, m.Stop("enough"))
            others = tuple(x for x in world.processes if x is not who)
            ghost = replace(who, replies=(), pushes=(), work=())
            dead = replace(world, processes=others, ghosts=(*world.ghosts, ghost) if who.requests else world.ghosts)
            yield self.start(dead, who.member.config.client_id)
        for member_id in group.sessions:
            yield self.tick(world, replace(group, sessions={**group.sessions, member_id: 0}, sessions_due_ms=0))
        for member_id in group.pending:
            yield self.tick(world, replace(group, pending={**group.pending, member_id: 0}))
        if group.rebalance is not None and group.state == "PreparingRebalance":
            yield self.tick(world, replace(group, rebalance=replace(group.rebalance, deadline_ms=0)))
        if group.sync_deadline_ms is not None:
            yield self.tick(world, replace(group, sync_deadline_ms=0))
        yield self.step(world, p.Trigger("asked to"))

    # --- how it happens ------------------------------------------------------------------------------

    def start(self, world: World, name: str) -> World:
        """A process starts."""
        who = Process(world.started, m.new_member(member_config(name, (TOPIC,))))
        started = replace(world, processes=(*world.processes, who), started=world.started + 1)
        started = replace(started, processes=tuple(sorted(started.processes, key=lambda x: x.member.config.client_id)))
        return self.handle(started, who, m.Start())

    def handle(self, world: World, who: Process, event: m.MemberEvent) -> World:
        """A member steps; what it wants done is on its way."""
        member, actions = m.step(who.member, event, 0)
        who = replace(who, member=member)
        for action in actions:
            match action:
                case m.Send(request):
                    who = replace(who, requests=(*who.requests, request))
                case m.ComputeAssignment(name, members, generation):
                    plan = m.AssignmentComputed(self.plan(world, name, members), generation)
                    who = replace(who, work=(*who.work, plan))
                case m.Revoke():
                    who = replace(who, work=(*who.work, m.Revoked()))
                case m.Failed(error, message):
                    raise AssertionError(f"{error.name}: {message}")
        processes = tuple(who if x.number == who.number else x for x in world.processes)
        return replace(world, processes=processes)

    def plan(self, world: World, name: str, members: tuple[p.JoinedMember, ...]) -> tuple[tuple[str, bytes], ...]:
        """What the assignor says, which is the same for the same question."""
        asked = (name, members, tuple((x, tuple(y.items())) for x, y in world.group.owned.items()))
        if asked not in self.plans:
            self.plans[asked] = leader.assign(name, members, {TOPIC: len(NUMBERS)}, world.group.owned)
        return self.plans[asked]

    def arrive(self, world: World, who: Process) -> World:
        """The oldest request of a process reaches the group."""
        request, rest = who.requests[0], replace(who, requests=who.requests[1:])
        processes = tuple(rest if x is who else x for x in world.processes)
        ghosts = tuple(rest if x is who else x for x in world.ghosts)
        gone = replace(world, processes=processes, ghosts=tuple(x for x in ghosts if x.requests))
        return self.step(gone, p.Received(who.number * len(KINDS) + KINDS.index(type(request)), request))

    def tick(self, world: World, due: g.Group) -> World:
        """Something in the group is due."""
        return self.step(replace(world, group=due), p.Tick())

    def step(self, world: World, event: p.Event) -> World:
        """The group steps under its laws; replies and pushes are on their way to who lives."""
        decision = g.decide(world.group, event, 0)
        check_step(world.group, event, decision)
        processes = {x.number: x for x in world.processes}
        for action in decision.actions:
            match action:
                case p.Answer(number, reply) if number // len(KINDS) in processes:
                    who = processes[number // len(KINDS)]
                    processes[who.number] = replace(who, replies=(*who.replies, reply))
                case p.PushRejoin(member_id, reason, generation):
                    for number, who in processes.items():
                        if who.member.member_id == member_id:
                            processes[number] = replace(who, pushes=(*who.pushes, m.Pushed(reason, generation)))
        return replace(world, group=decision.group, processes=tuple(processes.values()))

    # --- what has to hold ----------------------------------------------------------------------------

    def check(self, world: World, *, quiet: bool) -> None:
        """I5 by asking; where nothing is on its way and nobody is missed: I2, I3, and all know what they own."""
        self.commit_everything(world)
        group = world.group
        living = [x.member for x in world.processes if x.member.state is not m.MemberState.LEFT]
        waits = {x.member_id for x in living} != set(group.members) or bool(group.pending)
        if not quiet or waits or not living:
            return
        self.settled += 1
        assert group.state == "Stable"
        assert not group.unsynced
        assert not group.promised
        assert set(g.owners(group)) == set(PARTITIONS), "I2: every partition has an owner"
        for member in living:
            assert member.state is m.MemberState.STABLE
            assert member.generation == group.generation, "I3: everybody is at the group's generation"
            assert dict(member.owned) == dict(g.owned(group, member.member_id))

    def commit_everything(self, world: World) -> None:
        """Every process commits every partition, as owned since every generation that it may have heard of."""
        for who in world.processes:
            member = who.member
            if not member.member_id:
                continue
            known = {*member.owned.values(), *g.owned(world.group, member.member_id).values(), member.generation}
            positions = [p.CommittedPosition(*tp, 1, since) for tp in PARTITIONS for since in sorted(known)]
            commit = p.OffsetCommit(member.member_id, None, member.generation, tuple(positions))
            event = p.Received(99, commit)
            decision = g.decide(world.group, event, 0)
            check_step(world.group, event, decision)
            taken = {tp: x.assignment_generation for tp, x in _accepted(decision, commit)}
            mine = g.owned(world.group, member.member_id)
            assert taken == dict(mine), "I5: accepted is what is owned, and all of it"


def _accepted(decision: g.Decision, commit: p.OffsetCommit) -> Iterator[tuple[p.TopicPartition, p.CommittedPosition]]:
    for action in decision.actions:
        if isinstance(action, p.Answer) and isinstance(action.reply, p.OffsetCommitReply):
            for (tp, error), position in zip(action.reply.partitions, commit.offsets, strict=True):
                if error is ErrorCode.NONE:
                    yield tp, position


# --- when two worlds are the same -------------------------------------------------------------------

_decoded = cache(decode_subscription)


class Names:
    """Ids and generations of one world, by rank."""

    def __init__(self, world: World) -> None:
        group = world.group
        everybody = (*world.processes, *world.ghosts)
        ids = {*group.members, *group.pending, *(x.member.member_id for x in everybody)}
        ids |= {x for who in everybody for reply in who.replies if (x := getattr(reply, "member_id", ""))}
        ids |= {x for who in everybody for request in who.requests if (x := getattr(request, "member_id", ""))}
        order = sorted(ids - {""}, key=lambda x: (x.split("-")[0], int(x.split("-")[1])))
        letters = [x[0] for x in order]
        self._ids = {x: (x[0], letters[:at].count(x[0])) for at, x in enumerate(order)}
        numbers = {group.generation, *(n for who in everybody for n in _numbers(who))}
        numbers |= {n for owned in (group.owned, group.promised) for x in owned.values() for n in x.values()}
        numbers |= {_said(x).generation for x in group.members.values()}
        self._ranks = {number: rank for rank, number in enumerate(sorted(numbers | {-1}))}
        self._alive = {x.number: x.member.config.client_id for x in world.processes}

    def id(self, member_id: str) -> object:
        """A member's name."""
        return self._ids.get(member_id, member_id and "somebody gone")

    def rank(self, number: int | None) -> int | None:
        """A generation's place."""
        return None if number is None else self._ranks.get(number, number)

    def owned(self, owned: Any) -> tuple[Any, ...]:
        """Partitions, each with the place of its generation."""
        return tuple((tp.partition, self.rank(since)) for tp, since in sorted(owned.items()))

    def who(self, numbers: Any) -> tuple[Any, ...]:
        """Members, each with the process that waits, if it lives."""
        return tuple((self.id(x), self._alive.get(number // len(KINDS))) for x, number in numbers.items())

    def metadata(self, data: bytes) -> tuple[Any, ...]:
        """What a subscription claims, as of which generation."""
        said = _decoded(data)
        return tuple(tp.partition for tp in said.owned), self.rank(said.generation)

    def message(self, message: Any) -> tuple[Any, ...]:
        """A request or reply, without numbers and words."""
        head: tuple[Any, ...] = (type(message).__name__, getattr(message, "error", None))
        match message:
            case p.JoinGroup(member_id):
                return (*head, self.id(member_id), self.metadata(message.protocols[0].metadata))
            case p.SyncGroup(member_id, _, generation, _, name, assignments):
                given = tuple((self.id(x), data) for x, data in assignments)
                return (*head, self.id(member_id), self.rank(generation), name, given)
            case p.Heartbeat(member_id, _, generation):
                return (*head, self.id(member_id), self.rank(generation))
            case p.LeaveGroup(members):
                return (*head, tuple(self.id(x.member_id) for x in members))
            case p.JoinGroupReply(_, generation, _, name, leads, member_id, members):
                listed = tuple((self.id(x.member_id), self.metadata(x.metadata)) for x in members)
                return (*head, self.rank(generation), name, self.id(leads), self.id(member_id), listed)
            case p.SyncGroupReply():
                return (*head, message.assignment)
            case m.AssignmentComputed(assignments, generation):
                return (*head, tuple((self.id(x), data) for x, data in assignments), self.rank(generation))
        return head


def _said(member: g.GroupMember) -> Any:
    return _decoded(member.protocols[0].metadata)


def _numbers(who: Process) -> Iterable[int]:
    yield who.member.generation
    yield from who.member.owned.values()
    if who.member.rejoin_after is not None and who.member.rejoin_after < 2**31:
        yield who.member.rejoin_after
    for push in who.pushes:
        yield push.generation
    for message in (*who.replies, *who.requests, *who.work):
        yield getattr(message, "generation", -1)
        if isinstance(message, p.JoinGroup):
            yield _decoded(message.protocols[0].metadata).generation
    if who.member.heartbeat_sent is not None:
        yield who.member.heartbeat_sent[1]


def key(world: World) -> object:
    """What a world is, but for numbers."""
    n, group = Names(world), world.group
    members = tuple((n.id(x), n.metadata(y.protocols[0].metadata)) for x, y in group.members.items())
    pending = tuple(n.id(x) for x in group.pending)
    who = (members, n.id(group.leader), pending, n.who(group.joins), n.who(group.syncs))
    times = tuple((n.id(x), at) for x, at in sorted(group.sessions.items()))
    owned = tuple((n.id(x), n.owned(y)) for of in (group.owned, group.promised) for x, y in (*of.items(), ("", {})))
    given = tuple((n.id(x), data) for x, data in group.assignments.items())
    unsynced = frozenset(n.id(x) for x in group.unsynced)
    processes = tuple(_process(n, x) for x in (*world.processes, *world.ghosts))
    head = (group.state, n.rank(group.generation), group.protocol_name, world.faults)
    return (head, who, times, owned, given, unsynced, processes)


def _process(n: Names, who: Process) -> object:
    member = who.member
    sent = member.heartbeat_sent and (n.id(member.heartbeat_sent[0]), n.rank(member.heartbeat_sent[1]))
    return (
        (member.config.client_id, member.state, n.id(member.member_id), n.rank(member.generation), member.leads),
        (n.owned(member.owned), member.revoking, n.rank(member.rejoin_after), sent, member.attempts),
        (member.outstanding is not None and n.message(member.outstanding)),
        (member.heartbeat_due_ms is None, member.retry_due_ms is None),
        tuple(map(n.message, who.replies)),
        tuple(n.rank(x.generation) for x in who.pushes),
        tuple(map(n.message, who.work)),
        tuple(map(n.message, who.requests)),
    )
