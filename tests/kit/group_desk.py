"""A group at a desk: requests in, answers by correlation out, time by hand; at every step the laws and replay are checked.

``t0,t1`` names partitions 0 and 1 of topic t.  A member's instance id is the beginning of its id, unless it is given.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sparkcohort.runtime import group as g
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.partitions import TopicPartition
from tests.kit.group_laws import check_step

SESSION_MS = 500
REBALANCE_MS = 500


def tp(name: str) -> TopicPartition:
    """``t0``: partition 0 of topic t."""
    return TopicPartition(name[0], int(name[1:]))


def tps(names: str) -> tuple[TopicPartition, ...]:
    """Of names split by commas."""
    return tuple(tp(name) for name in names.split(",") if name)


def subscription(meta: str = "", claims: str = "") -> p.Subscription:
    """A subscription; ``meta`` is a topic."""
    return p.Subscription((meta,), tps(claims))


def _instance(member_id: str, instance: str | None, client: str = "") -> str:
    return instance if instance is not None else member_id.partition("-")[0] or client


def join(
    member_id: str = "", client: str = "a", instance: str | None = None, claims: str = "", **other: object
) -> p.JoinGroup:
    """A join; ``meta`` changes the subscription, ``protocols`` the names offered, best first."""
    fields: dict[str, object] = {
        "subscription": subscription(str(other.pop("meta", "")), claims),
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": REBALANCE_MS,
        "protocols": ("coop",),
        **other,
    }
    return p.JoinGroup(member_id, _instance(member_id, instance, client), client, "host", **fields)  # type: ignore[arg-type]


def sync(
    member_id: str, generation: int, plan: dict[str, str] | None = None, instance: str | None = None
) -> p.SyncGroup:
    """A sync, the leader's with its plan."""
    assignments = tuple((m, tps(names)) for m, names in (plan or {}).items())
    return p.SyncGroup(member_id, _instance(member_id, instance), generation, assignments)


def beat(member_id: str, generation: int, instance: str | None = None) -> p.Heartbeat:
    """A heartbeat."""
    return p.Heartbeat(member_id, _instance(member_id, instance), generation)


def leave(*member_ids: str) -> p.LeaveGroup:
    """A leave of these members."""
    return p.LeaveGroup(tuple(p.LeavingMember(member_id, _instance(member_id, None)) for member_id in member_ids))


def commit(member_id: str, generation: int, *positions: str, instance: str | None = None) -> p.OffsetCommit:
    """A commit; ``t0@3=17``: of partition t-0, owned since generation 3, offset 17."""
    offsets = []
    for position in positions:
        name, since, offset = position.replace("@", "=").split("=")
        offsets.append(p.CommittedPosition(*tp(name), int(offset), int(since)))
    return p.OffsetCommit(member_id, _instance(member_id, instance), generation, tuple(offsets))


@dataclass
class Desk:
    """One group, and what it has answered."""

    config: g.GroupConfig = field(default_factory=lambda: g.GroupConfig("billing"))
    now_ms: int = 0
    group: g.Group = field(init=False)
    replies: dict[int, p.Reply] = field(default_factory=dict)
    actions: tuple[p.Action, ...] = ()
    asked: int = 0

    def __post_init__(self) -> None:
        """Begin with an empty group and its journal."""
        self.group = self._replayed = g.new_group(self.config)

    def step(self, event: p.Event) -> tuple[p.Action, ...]:
        """Step the group; the laws and replay are checked."""
        before = self.group
        decision = g.step(before, event, self.now_ms)
        self.group, self.actions = decision.group, decision.actions
        check_step(before, event, decision)
        for record in decision.records:
            self._replayed = record.apply(self._replayed)
        assert self._replayed == self.group
        for action in self.actions:
            if isinstance(action, p.Answer):
                assert action.correlation not in self.replies, "answered once"
                self.replies[action.correlation] = action.reply
        return self.actions

    def ask(self, request: p.Request) -> int:
        """Send a request; its correlation."""
        self.asked += 1
        self.step(p.Received(self.asked, request))
        return self.asked

    def tell(self, request: p.Request) -> p.Reply:
        """Send a request that is answered at once; its reply."""
        return self.replies[self.ask(request)]

    def error(self, request: p.Request) -> str:
        """Send a request that is answered at once; the name of its (first) error."""
        reply = self.tell(request)
        if isinstance(reply, p.OffsetCommitReply):
            return reply.partitions[0][1].name
        if isinstance(reply, p.LeaveGroupReply) and reply.members:
            return reply.members[0][1].name
        return reply.error.name

    def joined(self, correlation: int) -> p.JoinGroupReply:
        """The answer to a join."""
        reply = self.replies[correlation]
        assert isinstance(reply, p.JoinGroupReply)
        return reply

    def synced(self, correlation: int) -> p.SyncGroupReply:
        """The answer to a sync."""
        reply = self.replies[correlation]
        assert isinstance(reply, p.SyncGroupReply)
        return reply

    def pass_to(self, at_ms: int) -> None:
        """Let time pass, stepping at every deadline on the way."""
        while (due_ms := g.deadline(self.group)) is not None and due_ms <= at_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.step(p.Tick())
        self.now_ms = at_ms

    def keep(self, *member_ids: str) -> None:
        """Heartbeats of these members, whatever is answered."""
        for member_id in member_ids:
            self.ask(beat(member_id, self.group.generation))

    def enter(self, client: str, **other: object) -> int:
        """A newcomer's join."""
        return self.ask(join("", client, **other))  # type: ignore[arg-type]

    def members(self) -> tuple[str, ...]:
        """The ids of all members."""
        return tuple(self.group.members)

    def pushed(self) -> tuple[str, ...]:
        """Who was told to rejoin in the last step."""
        return tuple(a.member_id for a in self.actions if isinstance(a, p.PushRejoin))

    def removed(self) -> tuple[str, ...]:
        """Who was put out in the last step."""
        return tuple(a.member_id for a in self.actions if isinstance(a, p.Removed))


def preparing(**config: object) -> Desk:
    """In the join phase: a-1 leads and has not rejoined, i-2 (instance i) and b-3 wait in their joins."""
    desk = completing(**config)
    desk.ask(sync("a-1", 2, {"a-1": "t0", "i-2": "t1", "b-3": "t2"}))
    desk.ask(sync("i-2", 2, instance="i"))
    desk.ask(sync("b-3", 2))
    desk.ask(join("i-2", "s", "i", meta="new", claims="t1"))
    desk.ask(join("b-3", "b", claims="t2"))
    return desk


def completing(**config: object) -> Desk:
    """Generation 2 began: a-1 leads, i-2 (instance i) and b-3 follow; nobody has synced."""
    desk = Desk(g.GroupConfig("billing", **config))  # type: ignore[arg-type]
    desk.enter("a")
    desk.ask(join("", "s", "i"))
    desk.enter("b")
    desk.ask(join("a-1", "a"))
    assert desk.group.state is g.GroupState.COMPLETING_REBALANCE
    return desk


def stable(**config: object) -> Desk:
    """Generation 2 is in force: a-1 leads and owns t0, i-2 (instance i) owns t1, b-3 owns t2."""
    desk = completing(**config)
    desk.ask(sync("a-1", 2, {"a-1": "t0", "i-2": "t1", "b-3": "t2"}))
    desk.ask(sync("i-2", 2, instance="i"))
    desk.ask(sync("b-3", 2))
    assert desk.group.state is g.GroupState.STABLE
    return desk


def emptied(**config: object) -> Desk:
    """Empty again, in generation 3."""
    desk = stable(**config)
    desk.ask(leave("a-1", "i-2", "b-3"))
    assert desk.group.state is g.GroupState.EMPTY
    return desk


def dead(**config: object) -> Desk:
    """Given up in generation 2."""
    desk = stable(**config)
    desk.step(p.Unload("shutting down"))
    return desk


DESKS = {
    "Empty": emptied,
    "PreparingRebalance": preparing,
    "CompletingRebalance": completing,
    "Stable": stable,
    "Dead": dead,
}
