"""A member on its own, driven event by event."""

from __future__ import annotations

from collections.abc import Mapping

from sparkcohort.runtime.member import machine as m
from sparkcohort.runtime.member.machine import MemberState
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.partitions import TopicPartition

CONFIG = m.MemberConfig("a", "host", "a", 10_000, 3_000, 60_000, ("t",), ("cooperative-sticky", "range"), rack="r1")


def tps(*numbers: int) -> frozenset[TopicPartition]:
    """Partitions of topic t."""
    return frozenset(TopicPartition("t", n) for n in numbers)


def joined(generation: int, leader: str = "d-1", error: ErrorCode = ErrorCode.NONE) -> m.Replied:
    """The answer to a join of a-1."""
    return m.Replied(p.JoinGroupReply(error, generation, "range", leader, "a-1"))


def synced(*numbers: int, error: ErrorCode = ErrorCode.NONE) -> m.Replied:
    """The answer to a sync: these partitions."""
    return m.Replied(p.SyncGroupReply(error, tuple(sorted(tps(*numbers)))))


def beaten(error: ErrorCode = ErrorCode.NONE) -> m.Replied:
    """The answer to a heartbeat."""
    return m.Replied(p.HeartbeatReply(error))


class Stage:
    """A member on its own, with time by hand."""

    def __init__(self, config: m.MemberConfig = CONFIG) -> None:
        self.member = m.new_member(config)
        self.now_ms = 0

    def __call__(self, *events: m.MemberEvent) -> tuple[m.MemberAction, ...]:
        """Step through the events; the actions of the last."""
        actions: tuple[m.MemberAction, ...] = ()
        for event in events:
            self.member, actions = m.step(self.member, event, self.now_ms)
        return actions

    def at(self, now_ms: int, *events: m.MemberEvent) -> tuple[m.MemberAction, ...]:
        """Likewise, at another time."""
        self.now_ms = now_ms
        return self(*events)


def sent(actions: tuple[m.MemberAction, ...]) -> p.Request:
    """The one request among the actions."""
    (request,) = (action.request for action in actions if isinstance(action, m.Send))
    return request


def sent_join(actions: tuple[m.MemberAction, ...]) -> p.JoinGroup:
    """The one request among the actions, a join."""
    request = sent(actions)
    assert isinstance(request, p.JoinGroup)
    return request


def stage(state: MemberState, config: m.MemberConfig = CONFIG) -> Stage:
    """A member in that state; from Stable on it owns t-0 and t-1 since generation 1, and t-2 since 2 unless revoked."""
    at = Stage(config)
    path: Mapping[MemberState, tuple[m.MemberEvent, ...]] = {
        MemberState.UNJOINED: (),
        MemberState.JOINING: (m.Start(),),
        MemberState.COMPUTING: (m.Start(), joined(1, "a-1")),
        MemberState.SYNCING: (m.Start(), joined(1)),
        MemberState.STABLE: (m.Start(), joined(1), synced(0, 1), m.Pushed("x"), joined(2), synced(0, 1, 2)),
        MemberState.REVOKING: (m.Start(), joined(1), synced(0, 1), m.Pushed("x"), joined(2), synced(0)),
        MemberState.STOPPING: (m.Start(), joined(1), synced(0, 1), m.Stop("x")),
        MemberState.LEFT: (m.Start(), joined(1), synced(0, 1), m.Stop("x"), m.RevocationDone()),
        MemberState.FAILED: (m.Start(), joined(1, error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)),
    }
    at(*path[state])
    assert at.member.state is state
    return at
