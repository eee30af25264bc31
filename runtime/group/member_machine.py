"""A member of a group, as a pure state machine: ``step(member, event, now) -> (member, actions)``.

It joins, syncs, reconciles what it owns with what it is assigned, and rejoins when the group asks for it (Kafka:
``AbstractCoordinator`` and ``ConsumerCoordinator``).  It is cooperative whatever the assignor: nothing is given up at a join
that is still subscribed to.

What the table at the end can't say:

* **One join or sync is outstanding at a time**, so a reply to any other request is an old one and changes
  nothing.  A push to rejoin that comes while one is outstanding is kept until its reply is here; a push for an
  earlier generation is void.
* **Revoke, assign, rejoin.**  A new assignment first takes away, then gives; when the shell has finished giving up
  (``RevocationDone``) the member rejoins, and only that join tells the group that the partitions are free.  Topics that are not
  subscribed to any more are given up without a new assignment.
* **Lost is not revoked.**  A member that the group no longer knows, or that missed a generation, owns nothing from
  that moment on: no commit of it is accepted, and the partitions may be another member's already.
* **Heartbeats** begin with the join's reply and run beside everything else.  A reply to one that was sent under
  another id or generation is void.
* **Unreachable** is counted from the first failure after the last reply, not from the last reply: a process that was
  frozen for longer than its session is not one whose coordinator is away.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from sparkcohort.runtime.group import member_state as s
from sparkcohort.runtime.group.state import EMPTY
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sparkcohort.runtime.protocol.partitions import TopicPartition

_ANY_GENERATION = 2**31  # rejoin whatever generation the outstanding request ends in
_NOTHING_OUTSTANDING = frozenset({s.MemberState.STABLE, s.MemberState.COMPUTING})  # nor a revocation to finish first
_MEMBERSHIP_GONE = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})


def step(member: s.Member, event: s.MemberEvent, now_ms: int) -> tuple[s.Member, tuple[s.MemberAction, ...]]:
    """The member after an event at ``now_ms``, and what the shell is to do.

    Total: an event that the state has no use for changes nothing.
    """
    if isinstance(event, s.Replied) and s.is_overtaken(member, event.request):
        return member, ()
    context = _MemberStep(member, now_ms)
    effect = TABLE[member.state].get(_event_type(event))
    if effect is not None:
        effect(context, event.reply if isinstance(event, s.Replied) else event)
    return context.member, tuple(context.actions)


def deadline(member: s.Member) -> int | None:
    """When the next ``Tick`` is due (absolute ms); None if only an event can change the member."""
    heartbeat, retry = member.heartbeat_due_ms, member.retry_due_ms
    return heartbeat if retry is None else retry if heartbeat is None else min(heartbeat, retry)


def _event_type(event: s.MemberEvent) -> type:
    return type(event.reply) if isinstance(event, s.Replied) else type(event)


@dataclass(slots=True)
class _MemberStep:
    """One step in the making."""

    member: s.Member
    now_ms: int
    actions: list[s.MemberAction] = field(default_factory=list)

    def change(self, **fields: Any) -> None:
        self.member = replace(self.member, **fields)

    def send(self, request: p.JoinGroup | p.SyncGroup) -> None:
        """Send a join or sync, to be repeated until it is answered."""
        self.change(outstanding=request, retry_due_ms=None)
        self.actions.append(s.Send(request))

    def stop_retrying(self) -> None:
        """The coordinator has answered: nothing needs repeating."""
        self.change(attempts=0, unreachable_since_ms=None, retry_due_ms=None)

    def lose(self) -> None:
        """Own nothing any more."""
        partitions = frozenset(self.member.owned)
        self.change(owned=EMPTY, revoking=frozenset(), revoke_reason="")
        if partitions:
            self.actions.append(s.PartitionsLost(partitions))


# --- joining ------------------------------------------------------------------------------------


def _start(context: _MemberStep, _event: s.Start) -> None:
    _join(context, "")


def _join(context: _MemberStep, reason: str) -> None:
    if unclaimed := _unclaimed(context.member):
        due_ms = context.now_ms if context.member.heartbeat_due_ms is None else context.member.heartbeat_due_ms
        context.change(state=s.MemberState.REVOKING, revoking=unclaimed, revoke_reason=reason, heartbeat_due_ms=due_ms)
        context.change(outstanding=None, retry_due_ms=None)
        context.actions.append(s.Revoke(unclaimed))
        return
    joins = context.member.joins + 1
    context.change(
        state=s.MemberState.JOINING, joins=joins, rejoin_after=None, heartbeat_due_ms=None, heartbeat_sent=None
    )
    member, config = context.member, context.member.config
    owned = tuple(sorted(member.owned))
    context.send(
        p.JoinGroup(
            member.member_id,
            config.group_instance_id,
            config.client_id,
            config.client_host,
            config.session_timeout_ms,
            config.rebalance_timeout_ms,
            config.assignors,
            p.Subscription(config.topics, owned, member.generation, config.rack, config.process),
            reason,
            joins,
        )
    )


def _unclaimed(member: s.Member) -> frozenset[TopicPartition]:
    """What is given up before a join, so that it is all one round: of topics no longer wanted (KIP-429)."""
    return frozenset(tp for tp in member.owned if tp.topic not in member.config.topics)


def _joined(context: _MemberStep, reply: p.JoinGroupReply) -> None:
    if reply.error is not ErrorCode.NONE:
        _react(context, reply.error, reply.message)
        return
    context.stop_retrying()
    context.change(
        member_id=reply.member_id,
        generation=reply.generation,
        protocol_name=reply.protocol_name,
        leads=reply.leader == reply.member_id,
        heartbeat_due_ms=context.now_ms + context.member.config.heartbeat_interval_ms,
        outstanding=None,
    )
    rejoin_after = context.member.rejoin_after
    void = rejoin_after is not None and rejoin_after >= reply.generation
    if void and context.member.leads:
        _join(context, "a rebalance began meanwhile")
    elif void:  # it syncs first, to learn what it must give up: that saves a round
        _sync(context, (), rejoin_after=rejoin_after)
    elif context.member.leads:
        context.change(state=s.MemberState.COMPUTING)
        context.actions.append(s.ComputeAssignment(context.member.protocol_name, reply.members, reply.generation))
    else:
        _sync(context, ())


def _computed(context: _MemberStep, event: s.AssignmentComputed) -> None:
    if event.generation in {p.NO_GENERATION, context.member.generation}:
        _sync(context, event.assignments)


def _sync(context: _MemberStep, assignments: p.Assignments, rejoin_after: int | None = None) -> None:
    context.change(state=s.MemberState.SYNCING, rejoin_after=rejoin_after)
    member = context.member
    context.send(p.SyncGroup(member.member_id, member.config.group_instance_id, member.generation, assignments))


def _synced(context: _MemberStep, reply: p.SyncGroupReply) -> None:
    if reply.error is not ErrorCode.NONE:
        _react(context, reply.error, reply.message)
        return
    context.stop_retrying()
    context.change(outstanding=None)
    _reconcile(context, frozenset(reply.assignment))


def _reconcile(context: _MemberStep, assigned: frozenset[TopicPartition]) -> None:
    """Take away, then give; what stays keeps its assignment generation."""
    member = context.member
    dropped = frozenset(member.owned) - assigned
    added = dict.fromkeys(sorted(assigned - member.owned.keys()), member.generation)
    state = s.MemberState.REVOKING if dropped else s.MemberState.STABLE
    context.change(state=state, revoking=dropped, owned={**member.owned, **added})
    if dropped:
        context.actions.append(s.Revoke(dropped))
    if added:
        context.actions.append(s.Assigned(added))
    if not dropped and member.rejoin_after is not None:
        _join(context, "a rebalance began meanwhile")


def _revoked(context: _MemberStep, _event: s.RevocationDone) -> None:
    revoked = context.member.revoking
    context.change(owned={tp: g for tp, g in context.member.owned.items() if tp not in revoked}, revoking=frozenset())
    reason = context.member.revoke_reason or f"gave up {len(revoked)} partition{'s' if len(revoked) > 1 else ''}"
    context.change(revoke_reason="")
    _join(context, reason)


# --- pushes to rejoin ---------------------------------------------------------------------------


def _pushed(context: _MemberStep, event: s.Pushed) -> None:
    if event.generation in {p.NO_GENERATION, context.member.generation}:
        _join(context, event.reason)


def _pushed_meanwhile(context: _MemberStep, event: s.Pushed) -> None:
    """While a join or sync is outstanding: kept until its reply tells which generation that was about."""
    generation = event.generation
    if generation == p.NO_GENERATION and context.member.state is s.MemberState.SYNCING:
        generation = context.member.generation
    if generation >= max(context.member.generation, 0):
        context.change(rejoin_after=generation)


def _resubscribe(context: _MemberStep, event: s.Resubscribe) -> None:
    if event.topics == context.member.config.topics:
        return
    context.change(config=replace(context.member.config, topics=event.topics))
    if context.member.state in _NOTHING_OUTSTANDING:
        _join(context, "topics changed")
    else:
        context.change(rejoin_after=_ANY_GENERATION)


# --- heartbeats, time, silence ------------------------------------------------------------------


def _tick(context: _MemberStep, _event: p.Tick) -> None:
    member, now_ms = context.member, context.now_ms
    if member.retry_due_ms is not None and member.retry_due_ms <= now_ms and member.outstanding is not None:
        if member.state is s.MemberState.JOINING:
            _join(context, "")
        else:
            context.send(member.outstanding)
    elif member.heartbeat_due_ms is not None and member.heartbeat_due_ms <= now_ms:
        # The next one is due when this one is answered, or after a whole session without an answer.
        context.change(
            heartbeat_due_ms=now_ms + member.config.session_timeout_ms,
            heartbeat_sent=(member.member_id, member.generation),
        )
        context.actions.append(
            s.Send(p.Heartbeat(member.member_id, member.config.group_instance_id, member.generation))
        )


def _heartbeat_answered(context: _MemberStep, reply: p.HeartbeatReply) -> None:
    member = context.member
    if member.heartbeat_sent != (member.member_id, member.generation):
        return
    context.change(heartbeat_sent=None, heartbeat_due_ms=context.now_ms + member.config.heartbeat_interval_ms)
    if _REACTIONS.get(reply.error) is _retry:
        _unreachable(context, s.Unreachable(p.Heartbeat.__name__))
        return
    context.change(unreachable_since_ms=None, attempts=0)
    if reply.error is ErrorCode.REBALANCE_IN_PROGRESS and member.state in _NOTHING_OUTSTANDING:
        _join(context, "the answer to a heartbeat asked for it")
    elif reply.error is ErrorCode.REBALANCE_IN_PROGRESS and member.state is s.MemberState.SYNCING:
        context.change(rejoin_after=member.generation)
    elif reply.error not in {ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS}:
        _react(context, reply.error, reply.message)


def _heartbeat_answered_late(context: _MemberStep, reply: p.HeartbeatReply) -> None:
    """While stopping: once the group has removed this member there is nothing left to finish."""
    config = context.member.config
    context.change(heartbeat_sent=None, heartbeat_due_ms=context.now_ms + config.heartbeat_interval_ms)
    if reply.error not in {ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS}:
        context.lose()
        context.change(state=s.MemberState.LEFT, heartbeat_due_ms=None)


def _commit_answered(context: _MemberStep, reply: p.OffsetCommitReply) -> None:
    """A s.commit's reply may be about an earlier membership, so it only makes the next heartbeat due at once."""
    is_unknown = any(error in _MEMBERSHIP_GONE for _tp, error in reply.partitions)
    if is_unknown and context.member.heartbeat_due_ms is not None:
        context.change(heartbeat_due_ms=context.now_ms)


def _unreachable(context: _MemberStep, event: s.Unreachable) -> None:
    """Try again later, for at most a session timeout."""
    member, config, now_ms = context.member, context.member.config, context.now_ms
    since_ms = now_ms if member.unreachable_since_ms is None else member.unreachable_since_ms
    if now_ms - since_ms >= config.session_timeout_ms:
        silent = f"the coordinator has not answered for {now_ms - since_ms} ms"
        _fail(context, ErrorCode.COORDINATOR_NOT_AVAILABLE, silent)
        return
    retry_ms = now_ms + min(config.retry_backoff_ms << min(member.attempts, 16), config.retry_backoff_max_ms)
    context.change(attempts=member.attempts + 1, unreachable_since_ms=since_ms)
    if member.outstanding is not None and event.request == type(member.outstanding).__name__:
        context.change(retry_due_ms=retry_ms)
    elif event.request == p.Heartbeat.__name__ and member.heartbeat_due_ms is not None:
        context.change(heartbeat_sent=None, heartbeat_due_ms=retry_ms)


# --- errors -------------------------------------------------------------------------------------


def _react(context: _MemberStep, error: ErrorCode, message: str) -> None:
    _REACTIONS.get(error, _fail)(context, error, message)


def _forget(context: _MemberStep, _error: ErrorCode, message: str) -> None:
    """The group doesn't know this member: it joins again, under a new id."""
    context.stop_retrying()
    context.lose()
    context.change(member_id=p.UNKNOWN_MEMBER, generation=p.NO_GENERATION, leads=False)
    _join(context, message or "unknown to the group")


def _fall_behind(context: _MemberStep, _error: ErrorCode, message: str) -> None:
    """The group has moved on without this member: it keeps its id and nothing else."""
    context.stop_retrying()
    context.lose()
    context.change(generation=p.NO_GENERATION, leads=False)
    _join(context, message or "a generation was missed")


def _rejoin(context: _MemberStep, _error: ErrorCode, message: str) -> None:
    """The answer to a sync makes it join; the answer to a join that a later one made void makes it wait and repeat."""
    context.stop_retrying()
    if context.member.state is s.MemberState.JOINING:
        context.change(retry_due_ms=context.now_ms + context.member.config.retry_backoff_ms)
    else:
        _join(context, message or "a rebalance began")


def _retry(context: _MemberStep, _error: ErrorCode, _message: str) -> None:
    """The coordinator is not ready: handled as unreachable."""
    _unreachable(context, s.Unreachable(type(context.member.outstanding).__name__))


def _fail(context: _MemberStep, error: ErrorCode, message: str) -> None:
    context.lose()
    context.change(state=s.MemberState.FAILED, heartbeat_due_ms=None, retry_due_ms=None, outstanding=None)
    context.actions.append(s.Failed(error, message))


_REACTIONS: Mapping[ErrorCode, Callable[[_MemberStep, ErrorCode, str], None]] = {  # every other error ends the member
    ErrorCode.UNKNOWN_MEMBER_ID: _forget,
    ErrorCode.ILLEGAL_GENERATION: _fall_behind,
    ErrorCode.REBALANCE_IN_PROGRESS: _rejoin,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: _retry,
    ErrorCode.NOT_COORDINATOR: _retry,
}

# --- stopping -----------------------------------------------------------------------------------


def _stop(context: _MemberStep, event: s.Stop) -> None:
    """Finish with everything first; then leave."""
    owned = frozenset(context.member.owned)
    if not owned:
        _leave(context, event)
        return
    context.change(
        state=s.MemberState.STOPPING, revoking=owned, revoke_reason=event.reason, outstanding=None, retry_due_ms=None
    )
    context.actions.append(s.Revoke(owned))


def _leave(context: _MemberStep, event: s.Stop | s.RevocationDone) -> None:
    member, config = context.member, context.member.config
    context.change(
        state=s.MemberState.LEFT,
        owned=EMPTY,
        revoking=frozenset(),
        outstanding=None,
        heartbeat_due_ms=None,
        retry_due_ms=None,
    )
    if member.member_id:
        reason = event.reason if isinstance(event, s.Stop) else member.revoke_reason  # KIP-800
        leaving = p.LeavingMember(member.member_id, config.group_instance_id, reason)
        context.actions.append(s.Send(p.LeaveGroup((leaving,))))


_Effect: TypeAlias = "Callable[[_MemberStep, Any], None]"
_ALIVE: Mapping[type, _Effect] = {
    p.Tick: _tick,
    s.Stop: _stop,
    s.Unreachable: _unreachable,
    p.HeartbeatReply: _heartbeat_answered,
    p.OffsetCommitReply: _commit_answered,
    s.Resubscribe: _resubscribe,
}
TABLE: Mapping[s.MemberState, Mapping[type, _Effect]] = {  # what is not in here is ignored
    s.MemberState.UNJOINED: {s.Start: _start, s.Stop: _leave, s.Resubscribe: _resubscribe},
    s.MemberState.JOINING: {**_ALIVE, p.JoinGroupReply: _joined, s.Pushed: _pushed_meanwhile},
    s.MemberState.COMPUTING: {**_ALIVE, s.AssignmentComputed: _computed, s.Pushed: _pushed},
    s.MemberState.SYNCING: {**_ALIVE, p.SyncGroupReply: _synced, s.Pushed: _pushed_meanwhile},
    s.MemberState.STABLE: {**_ALIVE, s.Pushed: _pushed},
    s.MemberState.REVOKING: {**_ALIVE, s.RevocationDone: _revoked},
    s.MemberState.STOPPING: {
        p.Tick: _tick,
        s.Unreachable: _unreachable,
        p.HeartbeatReply: _heartbeat_answered_late,
        s.RevocationDone: _leave,
    },
    s.MemberState.LEFT: {},
    s.MemberState.FAILED: {},
}
