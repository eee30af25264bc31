"""A member of a group, as a pure state machine: ``step(member, event, now) -> (member, actions)``.

It joins, syncs, reconciles what it owns with what it is assigned, and rejoins when told to (Kafka:
``AbstractCoordinator`` and ``ConsumerCoordinator``).  In the cooperative way nothing is given up at a join that is still
subscribed to; an eager member gives up everything first.  Which of the two is its own setting, not its assignors': the group knows who owns what, so a
partition changes hands safely whatever the assignor.

What the table at the end can't say:

* **One join or sync is outstanding at a time**, so a reply to any other request is an old one and changes
  nothing.  Being told to rejoin while one is outstanding is remembered until its reply is here; a push for a
  generation left behind is void.
* **Revoke, assign, rejoin.**  A new assignment first takes away, then gives; when the shell has finished giving up
  (``Revoked``) the member rejoins, and only that join tells the group that the partitions are free.  Topics that are not
  subscribed to any more are given up without being told to.
* **Lost is not revoked.**  A member that the group no longer knows, or that missed a generation, owns nothing from
  that moment on: there is nobody to commit to, and the partitions may be somebody else's already.
* **Heartbeats** begin with the join's reply and run beside everything else.  A reply to one that was sent under
  another id or generation is void.
* **Unreachable** is counted from the first failure after the last reply, not from the last reply: a process that was
  frozen for longer than its session is not one whose coordinator is away.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from sparkcohort.runtime.group.state import NOTHING
from sparkcohort.runtime.member.state import (
    Assigned,
    AssignmentComputed,
    ComputeAssignment,
    Failed,
    Lost,
    Member,
    MemberAction,
    MemberConfig,
    MemberEvent,
    MemberState,
    Pushed,
    Replied,
    Resubscribe,
    Revoke,
    Revoked,
    Send,
    Start,
    Stop,
    Unreachable,
    commit,
    overtaken,
)
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.consumer_protocol import Subscription, decode_assignment, encode_subscription
from sparkcohort.runtime.protocol.copy import replace
from sparkcohort.runtime.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sparkcohort.runtime.protocol.partitions import TopicPartition

__all__ = [
    "Assigned",
    "AssignmentComputed",
    "ComputeAssignment",
    "Failed",
    "Lost",
    "Member",
    "MemberAction",
    "MemberConfig",
    "MemberEvent",
    "MemberState",
    "Pushed",
    "Replied",
    "Resubscribe",
    "Revoke",
    "Revoked",
    "Send",
    "Start",
    "Stop",
    "Unreachable",
    "commit",
    "deadline",
    "new_member",
    "step",
]

PROTOCOL_TYPE = "consumer"
_ANY_GENERATION = 2**31  # rejoin whatever generation the outstanding request ends in
_SETTLED = frozenset({MemberState.STABLE, MemberState.COMPUTING})  # nothing outstanding, nothing to finish first
_MEMBERSHIP_GONE = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})


def new_member(config: MemberConfig) -> Member:
    """A member that has not joined yet."""
    return Member(config)


def step(member: Member, event: MemberEvent, now_ms: int) -> tuple[Member, tuple[MemberAction, ...]]:
    """The member after an event at ``now_ms``, and what the shell is to do.

    Total: an event that the state has no use for changes nothing.
    """
    if isinstance(event, Replied) and overtaken(member, event.request):
        return member, ()
    turn = _Turn(member, now_ms)
    effect = TABLE[member.state].get(_what(event))
    if effect is not None:
        effect(turn, event.reply if isinstance(event, Replied) else event)
    return turn.member, tuple(turn.actions)


def deadline(member: Member) -> int | None:
    """When the next ``Tick`` is due (absolute ms); None if only an event can change the member."""
    heartbeat, retry = member.heartbeat_due_ms, member.retry_due_ms
    return heartbeat if retry is None else retry if heartbeat is None else min(heartbeat, retry)


def _what(event: MemberEvent) -> type:
    return type(event.reply) if isinstance(event, Replied) else type(event)


@dataclass(slots=True)
class _Turn:
    """One step in the making."""

    member: Member
    now_ms: int
    actions: list[MemberAction] = field(default_factory=list)

    def change(self, **fields: Any) -> None:
        self.member = replace(self.member, **fields)

    def send(self, request: p.JoinGroup | p.SyncGroup) -> None:
        """Send a join or sync, to be repeated until it is answered."""
        self.change(outstanding=request, retry_due_ms=None)
        self.actions.append(Send(request))

    def heard(self) -> None:
        """The coordinator answers: nothing needs repeating."""
        self.change(attempts=0, unreachable_since_ms=None, retry_due_ms=None)

    def lose(self) -> None:
        """Own nothing any more."""
        lost = frozenset(self.member.owned)
        self.change(owned=NOTHING, revoking=frozenset(), revoke_reason="")
        if lost:
            self.actions.append(Lost(lost))


# --- joining ------------------------------------------------------------------------------------


def _start(turn: _Turn, _event: Start) -> None:
    _join(turn, "")


def _join(turn: _Turn, reason: str) -> None:
    if unclaimed := _unclaimed(turn.member):
        due_ms = turn.now_ms if turn.member.heartbeat_due_ms is None else turn.member.heartbeat_due_ms
        turn.change(state=MemberState.REVOKING, revoking=unclaimed, revoke_reason=reason, heartbeat_due_ms=due_ms)
        turn.change(outstanding=None, retry_due_ms=None)
        turn.actions.append(Revoke(unclaimed))
        return
    joins = turn.member.joins + 1
    turn.change(state=MemberState.JOINING, joins=joins, rejoin_after=None, heartbeat_due_ms=None, heartbeat_sent=None)
    member, config = turn.member, turn.member.config
    metadata = encode_subscription(
        Subscription(
            config.topics,
            config.user_data or None,
            tuple(sorted(member.owned)),
            member.generation,
            config.rack or None,
        )
    )
    turn.send(
        p.JoinGroup(
            member.member_id,
            config.group_instance_id,
            config.client_id,
            config.client_host,
            config.session_timeout_ms,
            config.rebalance_timeout_ms,
            PROTOCOL_TYPE,
            tuple(p.Protocol(name, metadata) for name in config.assignors),
            reason,
            joins,
        )
    )


def _unclaimed(member: Member) -> frozenset[TopicPartition]:
    """What is given up before a join, so that it is all one round: of topics no longer wanted (KIP-429); eagerly, all."""
    config = member.config
    return frozenset(tp for tp in member.owned if config.eager or tp.topic not in config.topics)


def _joined(turn: _Turn, reply: p.JoinGroupReply) -> None:
    if reply.error is not ErrorCode.NONE:
        if reply.error is ErrorCode.MEMBER_ID_REQUIRED:
            turn.change(member_id=reply.member_id)
        _react(turn, reply.error, reply.message)
        return
    turn.heard()
    turn.change(
        member_id=reply.member_id,
        generation=reply.generation,
        protocol_name=reply.protocol_name or "",
        leads=reply.leader == reply.member_id,
        heartbeat_due_ms=turn.now_ms + turn.member.config.heartbeat_interval_ms,
        outstanding=None,
    )
    told = turn.member.rejoin_after
    void = told is not None and told >= reply.generation
    if void and turn.member.leads:
        _join(turn, "told to rejoin meanwhile")
    elif void:  # not before it has asked what it must give up: that would cost a round more
        _sync(turn, (), rejoin_after=told)
    elif turn.member.leads and not reply.skip_assignment:
        turn.change(state=MemberState.COMPUTING)
        turn.actions.append(ComputeAssignment(turn.member.protocol_name, reply.members, reply.generation))
    else:
        _sync(turn, ())


def _computed(turn: _Turn, event: AssignmentComputed) -> None:
    if event.generation in {p.NO_GENERATION, turn.member.generation}:
        _sync(turn, event.assignments)


def _sync(turn: _Turn, assignments: tuple[tuple[str, bytes], ...], rejoin_after: int | None = None) -> None:
    turn.change(state=MemberState.SYNCING, rejoin_after=rejoin_after)
    member = turn.member
    turn.send(
        p.SyncGroup(
            member.member_id,
            member.config.group_instance_id,
            member.generation,
            PROTOCOL_TYPE,
            member.protocol_name,
            assignments,
        )
    )


def _synced(turn: _Turn, reply: p.SyncGroupReply) -> None:
    if reply.error is not ErrorCode.NONE:
        _react(turn, reply.error, reply.message)
        return
    turn.heard()
    turn.change(outstanding=None)
    try:
        assigned = frozenset(decode_assignment(reply.assignment).partitions) if reply.assignment else frozenset()
    except ValueError as error:
        _fail(turn, ErrorCode.INVALID_REQUEST, f"the leader's assignment can't be read: {error}")
        return
    _reconcile(turn, assigned)


def _reconcile(turn: _Turn, assigned: frozenset[TopicPartition]) -> None:
    """Take away, then give; what stays keeps its assignment generation."""
    member = turn.member
    dropped = frozenset(member.owned) - assigned
    added = dict.fromkeys(sorted(assigned - member.owned.keys()), member.generation)
    state = MemberState.REVOKING if dropped else MemberState.STABLE
    turn.change(state=state, revoking=dropped, owned={**member.owned, **added})
    if dropped:
        turn.actions.append(Revoke(dropped))
    if added:
        turn.actions.append(Assigned(added))
    if not dropped and member.rejoin_after is not None:
        _join(turn, "told to rejoin meanwhile")


def _revoked(turn: _Turn, _event: Revoked) -> None:
    gone = turn.member.revoking
    turn.change(owned={tp: g for tp, g in turn.member.owned.items() if tp not in gone}, revoking=frozenset())
    reason = turn.member.revoke_reason or f"gave up {len(gone)} partition{'s' if len(gone) > 1 else ''}"
    turn.change(revoke_reason="")
    _join(turn, reason)


# --- being told to rejoin -----------------------------------------------------------------------


def _pushed(turn: _Turn, event: Pushed) -> None:
    if event.generation in {p.NO_GENERATION, turn.member.generation}:
        _join(turn, event.reason)


def _pushed_meanwhile(turn: _Turn, event: Pushed) -> None:
    """While a join or sync is outstanding: kept until its reply tells which generation that was about."""
    generation = event.generation
    if generation == p.NO_GENERATION and turn.member.state is MemberState.SYNCING:
        generation = turn.member.generation
    if generation >= max(turn.member.generation, 0):
        turn.change(rejoin_after=generation)


def _resubscribe(turn: _Turn, event: Resubscribe) -> None:
    if event.topics == turn.member.config.topics:
        return
    turn.change(config=replace(turn.member.config, topics=event.topics))
    if turn.member.state in _SETTLED:
        _join(turn, "topics changed")
    else:
        turn.change(rejoin_after=_ANY_GENERATION)


# --- heartbeats, time, silence ------------------------------------------------------------------


def _tick(turn: _Turn, _event: p.Tick) -> None:
    member, now_ms = turn.member, turn.now_ms
    if member.retry_due_ms is not None and member.retry_due_ms <= now_ms and member.outstanding is not None:
        if member.state is MemberState.JOINING:
            _join(turn, "")
        else:
            turn.send(member.outstanding)
    elif member.heartbeat_due_ms is not None and member.heartbeat_due_ms <= now_ms:
        # The next one is due when this one is answered, or after a whole session without an answer.
        turn.change(
            heartbeat_due_ms=now_ms + member.config.session_timeout_ms,
            heartbeat_sent=(member.member_id, member.generation),
        )
        turn.actions.append(Send(p.Heartbeat(member.member_id, member.config.group_instance_id, member.generation)))


def _heartbeat_answered(turn: _Turn, reply: p.HeartbeatReply) -> None:
    member = turn.member
    if member.heartbeat_sent != (member.member_id, member.generation):
        return
    turn.change(heartbeat_sent=None, heartbeat_due_ms=turn.now_ms + member.config.heartbeat_interval_ms)
    if _REACTIONS.get(reply.error) is _retry:
        _unreachable(turn, Unreachable(p.Heartbeat.__name__))
        return
    turn.change(unreachable_since_ms=None, attempts=0)
    if reply.error is ErrorCode.REBALANCE_IN_PROGRESS and member.state in _SETTLED:
        _join(turn, "a heartbeat told so")
    elif reply.error is ErrorCode.REBALANCE_IN_PROGRESS and member.state is MemberState.SYNCING:
        turn.change(rejoin_after=member.generation)
    elif reply.error not in {ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS}:
        _react(turn, reply.error, reply.message)


def _heartbeat_answered_late(turn: _Turn, reply: p.HeartbeatReply) -> None:
    """While stopping: nothing to finish with any more once the group has put this member out."""
    config = turn.member.config
    turn.change(heartbeat_sent=None, heartbeat_due_ms=turn.now_ms + config.heartbeat_interval_ms)
    if reply.error not in {ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS}:
        turn.lose()
        turn.change(state=MemberState.LEFT, heartbeat_due_ms=None)


def _commit_answered(turn: _Turn, reply: p.OffsetCommitReply) -> None:
    """A commit's reply may be about an earlier membership, so it is only a hint to ask with a heartbeat at once."""
    gone = any(error in _MEMBERSHIP_GONE for _tp, error in reply.partitions)
    if gone and turn.member.heartbeat_due_ms is not None:
        turn.change(heartbeat_due_ms=turn.now_ms)


def _unreachable(turn: _Turn, event: Unreachable) -> None:
    """Try again later, for at most a session timeout."""
    member, config, now_ms = turn.member, turn.member.config, turn.now_ms
    since_ms = now_ms if member.unreachable_since_ms is None else member.unreachable_since_ms
    if now_ms - since_ms >= config.session_timeout_ms:
        silent = f"the coordinator has not answered for {now_ms - since_ms} ms"
        _fail(turn, ErrorCode.COORDINATOR_NOT_AVAILABLE, silent)
        return
    retry_ms = now_ms + min(config.retry_backoff_ms << min(member.attempts, 16), config.retry_backoff_max_ms)
    turn.change(attempts=member.attempts + 1, unreachable_since_ms=since_ms)
    if member.outstanding is not None and event.request == type(member.outstanding).__name__:
        turn.change(retry_due_ms=retry_ms)
    elif event.request == p.Heartbeat.__name__ and member.heartbeat_due_ms is not None:
        turn.change(heartbeat_sent=None, heartbeat_due_ms=retry_ms)


# --- errors -------------------------------------------------------------------------------------


def _react(turn: _Turn, error: ErrorCode, message: str) -> None:
    _REACTIONS.get(error, _fail)(turn, error, message)


def _forget(turn: _Turn, _error: ErrorCode, message: str) -> None:
    """The group doesn't know this member: it starts anew, as another."""
    turn.heard()
    turn.lose()
    turn.change(member_id=p.UNKNOWN_MEMBER, generation=p.NO_GENERATION, leads=False)
    _join(turn, message or "unknown to the group")


def _fall_behind(turn: _Turn, _error: ErrorCode, message: str) -> None:
    """The group has moved on without this member: it keeps its id and nothing else."""
    turn.heard()
    turn.lose()
    turn.change(generation=p.NO_GENERATION, leads=False)
    _join(turn, message or "a generation was missed")


def _join_with_id(turn: _Turn, _error: ErrorCode, _message: str) -> None:
    turn.heard()
    _join(turn, "")


def _rejoin(turn: _Turn, _error: ErrorCode, message: str) -> None:
    """To a sync it means: join.  To a join (one that a later join made void) it means: not so fast."""
    turn.heard()
    if turn.member.state is MemberState.JOINING:
        turn.change(retry_due_ms=turn.now_ms + turn.member.config.retry_backoff_ms)
    else:
        _join(turn, message or "a rebalance began")


def _retry(turn: _Turn, _error: ErrorCode, _message: str) -> None:
    """The coordinator is not ready: as good as unreachable."""
    _unreachable(turn, Unreachable(type(turn.member.outstanding).__name__))


def _fail(turn: _Turn, error: ErrorCode, message: str) -> None:
    turn.lose()
    turn.change(state=MemberState.FAILED, heartbeat_due_ms=None, retry_due_ms=None, outstanding=None)
    turn.actions.append(Failed(error, message))


_REACTIONS: Mapping[ErrorCode, Callable[[_Turn, ErrorCode, str], None]] = {  # every other error ends the member
    ErrorCode.UNKNOWN_MEMBER_ID: _forget,
    ErrorCode.ILLEGAL_GENERATION: _fall_behind,
    ErrorCode.MEMBER_ID_REQUIRED: _join_with_id,
    ErrorCode.REBALANCE_IN_PROGRESS: _rejoin,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: _retry,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: _retry,
    ErrorCode.NOT_COORDINATOR: _retry,
}

# --- stopping -----------------------------------------------------------------------------------


def _stop(turn: _Turn, event: Stop) -> None:
    """Finish with everything first; then leave."""
    owned = frozenset(turn.member.owned)
    if not owned:
        _leave(turn, event)
        return
    turn.change(
        state=MemberState.STOPPING, revoking=owned, revoke_reason=event.reason, outstanding=None, retry_due_ms=None
    )
    turn.actions.append(Revoke(owned))


def _leave(turn: _Turn, event: Stop | Revoked) -> None:
    member, config = turn.member, turn.member.config
    leaves = config.group_instance_id is None if config.leave_on_stop is None else config.leave_on_stop
    turn.change(
        state=MemberState.LEFT,
        owned=NOTHING,
        revoking=frozenset(),
        outstanding=None,
        heartbeat_due_ms=None,
        retry_due_ms=None,
    )
    if leaves and member.member_id:
        reason = event.reason if isinstance(event, Stop) else member.revoke_reason  # KIP-800
        leaving = p.LeavingMember(member.member_id, config.group_instance_id, reason)
        turn.actions.append(Send(p.LeaveGroup((leaving,))))


_Effect: TypeAlias = "Callable[[_Turn, Any], None]"
_ALIVE: Mapping[type, _Effect] = {
    p.Tick: _tick,
    Stop: _stop,
    Unreachable: _unreachable,
    p.HeartbeatReply: _heartbeat_answered,
    p.OffsetCommitReply: _commit_answered,
    Resubscribe: _resubscribe,
}
TABLE: Mapping[MemberState, Mapping[type, _Effect]] = {  # what is not in here is ignored
    MemberState.UNJOINED: {Start: _start, Stop: _leave, Resubscribe: _resubscribe},
    MemberState.JOINING: {**_ALIVE, p.JoinGroupReply: _joined, Pushed: _pushed_meanwhile},
    MemberState.COMPUTING: {**_ALIVE, AssignmentComputed: _computed, Pushed: _pushed},
    MemberState.SYNCING: {**_ALIVE, p.SyncGroupReply: _synced, Pushed: _pushed_meanwhile},
    MemberState.STABLE: {**_ALIVE, Pushed: _pushed},
    MemberState.REVOKING: {**_ALIVE, Revoked: _revoked},
    MemberState.STOPPING: {
        p.Tick: _tick,
        Unreachable: _unreachable,
        p.HeartbeatReply: _heartbeat_answered_late,
        Revoked: _leave,
    },
    MemberState.LEFT: {},
    MemberState.FAILED: {},
}
