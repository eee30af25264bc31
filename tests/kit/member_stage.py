"""A member on its own, driven event by event."""

from __future__ import annotations

from collections.abc import Mapping

from sparkcohort.runtime.group import member_machine as m
from sparkcohort.runtime.group import member_state as ms
from sparkcohort.runtime.group.member_state import MemberState
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.partitions import TopicPartition

CONFIG = ms.MemberConfig("a", "host", "a", 10_000, 3_000, 60_000, ("t",), ("cooperative-sticky", "range"), rack="r1")


def tps(*numbers: int) -> frozenset[TopicPartition]:
    """Partitions of topic t."""
    return frozenset(TopicPartition("t", n) for n in numbers)


def joined(generation: int, leader: str = "d-1", error: ErrorCode = ErrorCode.NONE) -> ms.Replied:
    """The answer to a join of a-1."""
    return ms.Replied(p.JoinGroupReply(error, generation, "range", leader, "a-1"))


def synced(*numbers: int, error: ErrorCode = ErrorCode.NONE) -> ms.Replied:
    """The answer to a sync: these partitions."""
    return ms.Replied(p.SyncGroupReply(error, tuple(sorted(tps(*numbers)))))


def beaten(error: ErrorCode = ErrorCode.NONE) -> ms.Replied:
    """The answer to a heartbeat."""
    return ms.Replied(p.HeartbeatReply(error))


class Stage:
    """A member on its own, with time by hand."""

    def __init__(self, config: ms.MemberConfig = CONFIG) -> None:
        self.member = ms.Member(config)
        self.now_ms = 0

    def __call__(self, *events: ms.MemberEvent) -> tuple[ms.MemberAction, ...]:
        """Step through the events; the actions of the last."""
        actions: tuple[ms.MemberAction, ...] = ()
        for event in events:
            self.member, actions = m.step(self.member, event, self.now_ms)
        return actions

    def at(self, now_ms: int, *events: ms.MemberEvent) -> tuple[ms.MemberAction, ...]:
        """Likewise, at another time."""
        self.now_ms = now_ms
        return self(*events)


def sent(actions: tuple[ms.MemberAction, ...]) -> p.Request:
    """The one request among the actions."""
    (request,) = (action.request for action in actions if isinstance(action, ms.Send))
    return request


def sent_join(actions: tuple[ms.MemberAction, ...]) -> p.JoinGroup:
    """The one request among the actions, a join."""
    request = sent(actions)
    assert isinstance(request, p.JoinGroup)
    return request


def stage(state: MemberState, config: ms.MemberConfig = CONFIG) -> Stage:
    """A member in that state; from Stable on it owns t-0 and t-1 since generation 1, and t-2 since 2 unless revoked."""
    at = Stage(config)
    path: Mapping[MemberState, tuple[ms.MemberEvent, ...]] = {
        MemberState.UNJOINED: (),
        MemberState.JOINING: (ms.Start(),),
        MemberState.COMPUTING: (ms.Start(), joined(1, "a-1")),
        MemberState.SYNCING: (ms.Start(), joined(1)),
        MemberState.STABLE: (ms.Start(), joined(1), synced(0, 1), ms.Pushed("x"), joined(2), synced(0, 1, 2)),
        MemberState.REVOKING: (ms.Start(), joined(1), synced(0, 1), ms.Pushed("x"), joined(2), synced(0)),
        MemberState.STOPPING: (ms.Start(), joined(1), synced(0, 1), ms.Stop("x")),
        MemberState.LEFT: (ms.Start(), joined(1), synced(0, 1), ms.Stop("x"), ms.RevocationDone()),
        MemberState.FAILED: (ms.Start(), joined(1, error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)),
    }
    at(*path[state])
    assert at.member.state is state
    return at
