"""The group: ``step(group, event, now) -> (group, actions, records)``, pure and total.

An event is classified as an input (``table.Input``), the table says what the state makes of it, and one function does
it.  Requests of members pass the gate first (``fencing``).  All records, applied one after another,
make the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sparkcohort.runtime.group import joins, rebalance, requests
from sparkcohort.runtime.group import records as r
from sparkcohort.runtime.group.context import StepContext
from sparkcohort.runtime.group.fencing import PASS, Verdict, gate
from sparkcohort.runtime.group.partition_ownership import owners
from sparkcohort.runtime.group.state import EMPTY, Group, GroupConfig
from sparkcohort.runtime.group.table import TABLE, Effect, GroupState, Input
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from sparkcohort.runtime.group.records import GroupRecord
    from sparkcohort.runtime.protocol.messages import Action, Event
    from sparkcohort.runtime.protocol.partitions import TopicPartition

__all__ = [
    "Decision",
    "Group",
    "GroupConfig",
    "GroupState",
    "deadline",
    "new_group",
    "owned",
    "owners",
    "step",
]


class Decision(NamedTuple):
    """A step's result: the group after it, what the shell is to do, and the records to keep."""

    group: Group
    actions: tuple[Action, ...]
    records: tuple[GroupRecord, ...]


def new_group(config: GroupConfig) -> Group:
    """An empty group whose first generation will be ``config.first_generation + 1``."""
    return Group(config, generation=config.first_generation)


def step(group: Group, event: Event, now_ms: int) -> Decision:
    """The group after an event at ``now_ms``, and what follows from it.

    Every request is answered exactly once: now, or when its parking ends.  ``now_ms`` never goes backwards.
    """
    context = StepContext(group, now_ms)
    match event:
        case p.Received(correlation, request):
            _receive(context, correlation, request)
        case p.Tick():
            rebalance.expire(context)
        case p.Trigger(reason):
            rebalance.on_internal_event(context, Input.TRIGGER, reason)
        case p.Unload(reason):
            _unload(context, reason)
        case p.Resume(first_generation, member_id_salt):
            rebalance.resume(context, first_generation, member_id_salt)
    return Decision(context.group, tuple(context.actions), tuple(context.records))


def deadline(group: Group) -> int | None:
    """When the next ``Tick`` is due (absolute ms); None if only an event can change the group."""
    times = list(group.sessions.values())
    if group.sync_deadline_ms is not None:
        times.append(group.sync_deadline_ms)
    if group.rebalance and group.joins and group.state is GroupState.PREPARING_REBALANCE:
        times.append(group.rebalance.deadline_ms)
    return min(times, default=None)


def owned(group: Group, member_id: str) -> Mapping[TopicPartition, int]:
    """The partitions that a member owns now, each with its assignment generation."""
    return group.owned.get(member_id, EMPTY)


def _receive(context: StepContext, correlation: int, request: p.Request) -> None:
    dead = context.group.state is GroupState.DEAD
    verdict = PASS if dead else _admit(context.group, request)
    if verdict is not PASS:
        _refuse(context, correlation, request, verdict)
        return
    row = TABLE[context.group.state][_classify(context.group, request)]
    if row.effect in {Effect.REFUSE, Effect.SIGNAL}:
        context.answer_error(correlation, request, row.error, f"the group is {context.group.state}")
    elif isinstance(request, p.Heartbeat):
        requests.heartbeat(context, correlation, request, row.error)
    else:
        _EFFECTS[row.effect](context, correlation, request)


def _admit(group: Group, request: p.Request) -> Verdict:
    """Whether a request gets as far as the table."""
    match request:
        case p.JoinGroup():
            return joins.admit(group, request)
        case p.SyncGroup(member_id, instance_id, generation) | p.Heartbeat(member_id, instance_id, generation):
            return gate(group, instance_id, member_id, generation)
        case p.OffsetCommit(member_id, instance_id):
            return gate(group, instance_id, member_id, None)
    return PASS  # fetches and descriptions; a leave is judged member by member


def _refuse(context: StepContext, correlation: int, request: p.Request, verdict: Verdict) -> None:
    match request:
        case p.JoinGroup():
            joins.refuse_join(context, correlation, request, verdict)
        case _:
            context.answer_error(correlation, request, verdict.error, verdict.message)


def _classify(group: Group, request: p.Request) -> Input:
    """What an admitted request asks of this group; in a dead one every join is the same."""
    match request:
        case p.JoinGroup():
            return Input.JOIN_NEW if group.state is GroupState.DEAD else joins.classify_join(group, request)
        case p.SyncGroup(member_id):
            return Input.SYNC_LEADER if member_id == group.leader else requests.classify_sync(group, member_id)
    return _INPUTS[type(request)]


def _unload(context: StepContext, reason: str) -> None:
    """Give the group up: parked requests are answered NOT_COORDINATOR."""
    if TABLE[context.group.state][Input.UNLOAD].effect is Effect.IGNORE:
        return
    for member_id, correlation in context.group.joins.items():
        context.answer(correlation, p.JoinGroupReply(ErrorCode.NOT_COORDINATOR, member_id=member_id, message=reason))
    for correlation in context.group.syncs.values():
        context.answer(correlation, p.SyncGroupReply(ErrorCode.NOT_COORDINATOR, message=reason))
    context.record(r.GroupUnloaded(reason))


_INPUTS: Mapping[type, Input] = {
    p.Heartbeat: Input.HEARTBEAT,
    p.LeaveGroup: Input.LEAVE,
    p.OffsetCommit: Input.COMMIT,
    p.OffsetFetch: Input.FETCH,
}

_EFFECTS: Mapping[Effect, Callable[[StepContext, int, Any], None]] = {
    Effect.ADD: joins.add,
    Effect.ADD_AND_START: joins.add_and_start,
    Effect.PARK: joins.park,
    Effect.UPDATE_AND_START: joins.update_and_start,
    Effect.ANSWER_JOIN: joins.answer_join,
    Effect.TAKE_OVER: joins.take_over,
    Effect.TAKE_OVER_AND_PARK: joins.take_over_and_park,
    Effect.TAKE_OVER_AND_START: joins.take_over_and_start,
    Effect.PARK_SYNC: requests.park_sync,
    Effect.STORE_ASSIGNMENT: requests.store_assignment,
    Effect.ANSWER_SYNC: requests.answer_sync,
    Effect.ANSWER_LATE_SYNC: requests.answer_late_sync,
    Effect.LEAVE: requests.leave,
    Effect.COMMIT: requests.commit,
    Effect.FETCH: requests.fetch,
}
