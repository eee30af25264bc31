"""A group and its members in one process: every message is delivered by hand, every law is checked after every step.

Used by the property tests (which draw the order of deliveries, and faults) and by the transcripts (which drain all
messages in order).  Time is a number; nothing here waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sparkcohort.runtime import group as g
from sparkcohort.runtime.group import member_machine as m
from sparkcohort.runtime.group import member_state as ms
from sparkcohort.runtime.group import records as r
from sparkcohort.runtime.group.state import Group
from sparkcohort.runtime.leader import delayed_rebalance
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.protocol.reasons import Cause, Reason
from tests.kit.group_laws import check_step, errors_of
from tests.kit.group_records import replay

SESSION_MS = 10_000
REBALANCE_MS = 6_000
HEARTBEAT_MS = 3_000
ASSIGNORS = ("cooperative-sticky", "range")


def member_config(
    name: str, topics: tuple[str, ...], instance: str | None = None, assignors: tuple[str, ...] = ASSIGNORS
) -> ms.MemberConfig:
    """The configuration of a test's member."""
    return ms.MemberConfig(
        client_id=name,
        client_host="host",
        group_instance_id=instance or name,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        topics=topics,
        assignors=assignors,
    )


@dataclass
class Node:
    """One member's process: the member, what waits to reach it, and whether it runs."""

    name: str
    member: ms.Member
    inbox: deque[ms.MemberEvent] = field(default_factory=deque)
    dead: bool = False
    frozen: bool = False
    holding: bool = False  # takes its time to give up what it is to give up
    failed: ms.Failed | None = None
    leader_state: delayed_rebalance.LeaderState = field(default_factory=delayed_rebalance.LeaderState)  # as the leader

    @property
    def running(self) -> bool:
        """Whether it handles what reaches it."""
        return not self.dead and not self.frozen and not self.ended

    @property
    def ended(self) -> bool:
        """Whether it has left or failed."""
        return self.member.state in {ms.MemberState.LEFT, ms.MemberState.FAILED}


@dataclass(frozen=True)
class InFlight:
    """A request on its way to the group."""

    node: Node
    request: p.Request


class World:
    """One group, its members, and the messages between them."""

    def __init__(self, topics: Mapping[str, int], config: g.GroupConfig | None = None) -> None:
        self.topics = dict(topics)
        self.first = self.group = self.replayed = g.new_group(config or g.GroupConfig("billing"))
        self.journal: list[r.GroupRecord] = []
        self.now_ms = 0
        self.max_delay_ms = 0
        self.nodes: list[Node] = []
        self.requests: deque[InFlight] = deque()
        self.asked: dict[int, InFlight] = {}
        self.answered: set[int] = set()
        self.commits: list[p.OffsetCommitReply] = []
        self.log: list[str] = []
        self.crash_on = ""  # the coordinator goes down in the step that writes a record of this name
        self._runs = 1
        self._correlation = 0

    # --- members ----------------------------------------------------------------------------------

    def start(self, name: str, topics: tuple[str, ...], instance: str | None = None) -> Node:
        """Start a member process; its instance id is its name, unless it is given."""
        node = Node(name, ms.Member(member_config(name, topics, instance)))
        self.nodes.append(node)
        node.inbox.append(ms.Start())
        return node

    def node(self, name: str) -> Node:
        """The newest process of that name."""
        return next(node for node in reversed(self.nodes) if node.name == name)

    def handle(self, node: Node) -> None:
        """Let a member handle the next thing that reached it."""
        self.member_step(node, node.inbox.popleft())

    def member_step(self, node: Node, event: ms.MemberEvent) -> None:
        """Let a member handle an event now."""
        node.member, actions = m.step(node.member, event, self.now_ms)
        for action in actions:
            self._do(node, action)

    def _do(self, node: Node, action: ms.MemberAction) -> None:
        match action:
            case ms.Send(request):
                self.requests.append(InFlight(node, request))
            case ms.ComputeAssignment(name, members, generation):
                this = delayed_rebalance.Round(
                    name, members, self.topics, self.group.owned, self.group.previous_assignment
                )
                assignments, node.leader_state = delayed_rebalance.lead(
                    node.leader_state, this, self.now_ms, self.max_delay_ms
                )
                node.inbox.append(ms.AssignmentComputed(assignments, generation))
            case ms.Revoke(partitions):
                self.say(f"{_id(node)} is to give up {names(partitions)}")
                if not node.holding:
                    node.inbox.append(ms.RevocationDone())
            case ms.Assigned(added):
                self.say(f"{_id(node)} may read {names(added)}")
            case ms.PartitionsLost(partitions):
                self.say(f"{node.name} has lost {names(partitions)}")
            case ms.Failed(error, message):
                node.failed = action
                self.say(f"{node.name} has failed: {error.name}, {message}")

    # --- the group --------------------------------------------------------------------------------

    def deliver(self) -> None:
        """Let the next request reach the group."""
        flight = self.requests.popleft()
        self._correlation += 1
        self.asked[self._correlation] = flight
        self.group_step(p.Received(self._correlation, flight.request))

    def group_step(self, event: p.Event) -> tuple[p.Action, ...]:
        """Step the group and check every law that holds at every step."""
        before = self.group
        decision = g.step(before, event, self.now_ms)
        if self.crash_on in {type(record).__name__ for record in decision.records}:
            self.journal += decision.records
            self._narrate(before, event, ())
            return self._restart()
        self.group = decision.group
        self.journal += decision.records
        for record in decision.records:
            self.replayed = record.apply(self.replayed)
        self._narrate(before, event, decision.actions)
        for action in decision.actions:
            self._route(action)
        check_step(before, event, decision)
        assert self.replayed == self.group, "replay of the journal so far"
        self._check_answers()
        return decision.actions

    def _restart(self) -> tuple[p.Action, ...]:
        """What the last step wrote is kept, nothing of it was sent; the next run of the coordinator goes on with it."""
        self.say(f"  the coordinator goes down: {self.crash_on} is written, nothing is sent")
        asked, self.asked = self.asked, {}
        for flight in asked.values():
            if not flight.node.dead:
                flight.node.inbox.append(ms.Unreachable(type(flight.request).__name__))
        self.crash_on = ""
        self.group = self.replayed = replay(self.first, self.journal)
        actions = self.group_step(p.Resume(1_000 * self._runs))
        self._runs += 1
        return actions

    def _route(self, action: p.Action) -> None:
        if isinstance(action, p.Answer):
            assert action.correlation not in self.answered, "a request is answered once"
            self.answered.add(action.correlation)
            flight = self.asked.pop(action.correlation)
            if isinstance(action.reply, p.OffsetCommitReply):
                self.commits.append(action.reply)
            if not flight.node.dead:
                flight.node.inbox.append(ms.Replied(action.reply, flight.request))
        elif isinstance(action, p.PushRejoin):
            for node in self.nodes:
                if node.member.member_id == action.member_id and not node.dead:
                    node.inbox.append(ms.Pushed(action.reason, action.generation))

    def _check_answers(self) -> None:
        parked = {*self.group.joins.values(), *self.group.syncs.values()}
        assert set(self.asked) == parked, "what isn't answered is parked, and nothing else is"

    # --- time and faults ----------------------------------------------------------------------------

    def drain(self, until: str = "") -> None:
        """Deliver everything, oldest first, until nothing is on its way, or the group is in that state."""
        for _ in range(10_000):
            if self.group.state == until:
                return
            if self.requests:
                self.deliver()
                continue
            node = next((n for n in self.nodes if n.running and n.inbox), None)
            if node is None:
                return
            self.handle(node)
        raise AssertionError("messages without end")

    def advance(self, by_ms: int) -> None:
        """Let time pass, handling every deadline on the way and all that follows from it."""
        end_ms = self.now_ms + by_ms
        while (due_ms := self._next_deadline()) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.tick()
            self.drain()
        self.now_ms = end_ms

    def tick(self) -> None:
        """Let everyone whose deadline has come notice."""
        group_due_ms = g.deadline(self.group)
        if group_due_ms is not None and group_due_ms <= self.now_ms:
            self.group_step(p.Tick())
            after_ms = g.deadline(self.group)
            assert after_ms is None or after_ms > self.now_ms, "a tick deals with all that is due"
        for node in self.nodes:
            due_ms = m.deadline(node.member)
            if node.running and due_ms is not None and due_ms <= self.now_ms:
                self.member_step(node, p.Tick())
        round_due_ms = self._round_due_ms()
        if round_due_ms is not None and round_due_ms <= self.now_ms:
            self.group_step(p.Trigger(delayed_rebalance.reason(self.leader_state())))

    def leader_state(self) -> delayed_rebalance.LeaderState:
        """What the leader remembers, if it runs."""
        leads = (n.leader_state for n in self.nodes if n.running and n.member.member_id == self.group.leader)
        return next(leads, delayed_rebalance.LeaderState())

    def _round_due_ms(self) -> int | None:
        return delayed_rebalance.deadline(self.leader_state()) if self.group.state is g.GroupState.STABLE else None

    def _next_deadline(self) -> int | None:
        times = [g.deadline(self.group), self._round_due_ms()]
        times += [m.deadline(n.member) for n in self.nodes if n.running]
        return min((time for time in times if time is not None), default=None)

    def kill(self, node: Node) -> None:
        """A process is gone without a word; what is on its way to it is lost."""
        node.dead = True
        node.inbox.clear()

    def change_topics(self, topics: Mapping[str, int]) -> None:
        """Topics come and go, or grow: members that want any are told which there are, then a rebalance is asked for."""
        if topics.keys() != self.topics.keys():
            for node in self.nodes:
                if node.member.config.topics and not node.dead:
                    node.inbox.append(ms.Resubscribe(tuple(sorted(topics))))
        self.topics = dict(topics)
        self.group_step(p.Trigger(Reason(Cause.TOPICS_CHANGED)))

    # --- commits ------------------------------------------------------------------------------------

    def commit(self, node: Node, tp: TopicPartition, offset: int, since: int | None = None) -> None:
        """A member commits a partition, as owned since ``since`` (None: as it knows)."""
        generation = node.member.owned.get(tp, p.NO_GENERATION) if since is None else since
        position = p.CommittedPosition(tp.topic, tp.partition, offset, generation)
        member = node.member
        instance = member.config.group_instance_id
        request = p.OffsetCommit(member.member_id, instance, member.generation, (position,))
        self.requests.append(InFlight(node, request))

    # --- settled ------------------------------------------------------------------------------------

    def settled(self) -> bool:
        """Stable, everyone synced, nothing on its way, no follow-up round due."""
        members = [n.member for n in self.nodes if n.running]
        quiet = not self.requests and not any(n.inbox for n in self.nodes if n.running)
        synced = self.group.state is g.GroupState.STABLE and not self.group.unsynced
        return quiet and synced and all(x.state is ms.MemberState.STABLE for x in members)

    def check_settled(self) -> None:
        """The laws of a settled group: I2 (but for what waits for a replacement), I3, and that members and group agree."""
        assert self.settled(), (self.group.state, [(n.name, n.member.state) for n in self.nodes if n.running])
        running = [n.member for n in self.nodes if n.running]
        assert {x.member_id for x in running} == set(self.group.members)
        for member in running:
            assert member.generation == self.group.generation
            assert dict(member.owned) == dict(g.owned(self.group, member.member_id))
        wanted = {topic for member in running for topic in member.config.topics}
        every = {TopicPartition(t, n) for t, count in self.topics.items() if t in wanted for n in range(count)}
        assert set(g.owners(self.group)) == every - self.leader_state().scheduled.partitions
        assert replay(self.first, self.journal) == self.group

    # --- words --------------------------------------------------------------------------------------

    def say(self, line: str) -> None:
        """Add a line to the story."""
        self.log.append(line)

    def _narrate(self, before: Group, event: p.Event, actions: tuple[p.Action, ...]) -> None:
        if isinstance(event, p.Received) and not isinstance(event.request, p.Heartbeat):
            self.say(_request_words(self.asked[event.correlation].node, event.request))
        for action in actions:
            if words := self._action_words(action):
                self.say(f"  {words}")
        if (before.state, before.generation) != (self.group.state, self.group.generation):
            self.say(f"  the group is {self.group.state}, generation {self.group.generation}")

    def _action_words(self, action: p.Action) -> str:
        match action:
            case p.Answer(correlation, reply):
                return _reply_words(self.asked[correlation].node, reply)
            case p.PushRejoin(member_id, reason):
                return f"{member_id} is told to rejoin: {reason}"
            case p.Removed(member_id, reason):
                return f"{member_id} is out: {reason}"
            case p.Refused(request, error, member_id, partitions):
                return f"refused: {request} of {member_id or 'nobody'}, {error.name}, {partitions}"
            case p.Rebalanced():
                return f"rebalanced in {action.ended_ms - action.started_ms} ms, because {action.reason}"


def names(
    partitions: Mapping[TopicPartition, int] | frozenset[TopicPartition] | tuple[TopicPartition, ...],
) -> str:
    """Partitions in words; with their assignment generations if known."""
    known = partitions if isinstance(partitions, Mapping) else {}
    words = [f"{tp.topic}-{tp.partition}" + (f"@{known[tp]}" if known else "") for tp in sorted(partitions)]
    return " ".join(words) or "nothing"


def _id(node: Node) -> str:
    return node.member.member_id or node.name


def _request_words(node: Node, request: p.Request) -> str:
    match request:
        case p.JoinGroup(member_id):
            holds = request.subscription.owned
            holding = f", holding {names(holds)}" if holds else ""
            return f"{member_id or node.name} joins{holding}"
        case p.SyncGroup(member_id, _, generation, assignments):
            return f"{member_id} syncs{' with the plan' if assignments else ''} (generation {generation})"
        case p.LeaveGroup(members):
            return f"{', '.join(x.member_id for x in members)} leaves"
        case p.OffsetCommit(member_id, _, _, offsets):
            words = " ".join(f"{o.topic}-{o.partition}@{o.assignment_generation}={o.offset}" for o in offsets)
            return f"{member_id} commits {words}"
        case _:
            return f"{node.name}: {type(request).__name__}"


def _reply_words(node: Node, reply: p.Reply) -> str:
    match reply:
        case p.JoinGroupReply(ErrorCode.NONE):
            part = "leads" if reply.leader == reply.member_id else f"follows {reply.leader}"
            return f"{reply.member_id} {part} in generation {reply.generation}"
        case p.SyncGroupReply(ErrorCode.NONE):
            return f"{_id(node)} is assigned {names(reply.assignment)}"
        case p.HeartbeatReply(ErrorCode.NONE) | p.LeaveGroupReply():
            return ""
        case p.OffsetCommitReply(partitions):
            return ", ".join(f"{tp.topic}-{tp.partition} {_verdict(error)}" for tp, error in partitions)
        case _:
            return f"{_id(node)} is answered {next(iter(errors_of(reply))).name}"


def _verdict(error: ErrorCode) -> str:
    return "accepted" if error is ErrorCode.NONE else error.name


def static_restart(world: World, node: Node) -> Node:
    """A static member's process is replaced by a new one with the same instance id."""
    world.kill(node)
    config = node.member.config
    again = replace(
        node, name=node.name, member=ms.Member(config), inbox=deque([ms.Start()]), dead=False, holding=False
    )
    world.nodes.append(again)
    return again
