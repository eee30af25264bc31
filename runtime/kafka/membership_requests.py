"""What is asked of the membership: committed offsets, commits, run epochs.

One request at a time goes from call to call of the client (``Phase``), and is answered once.  Whatever is committed goes
through ``_send_commit``, and that only as a member, or while none is needed (STANDALONE).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from msgspec.structs import replace

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka import membership_state as s
from sparkcohort.runtime.kafka.membership_state import (
    Committed,
    Membership,
    MembershipAction,
    MembershipRequest,
    MembershipState,
    Pending,
    Phase,
)
from sparkcohort.runtime.kafka.run_epoch import CommitMetadata, encode, with_topic_id
from sparkcohort.runtime.protocol.partitions import TopicPartition, names_of

COMMITTING = frozenset({MembershipState.STANDALONE, MembershipState.MEMBER})
_Offsets = Mapping[TopicPartition, Committed]


@dataclass(slots=True)
class MembershipContext:
    """One step in the making."""

    membership: Membership
    now_ms: int
    actions: list[MembershipAction] = field(default_factory=list)

    def change(self, **fields: Any) -> None:
        """Change fields of the membership."""
        self.membership = replace(self.membership, **fields)

    def enter(self, state: MembershipState) -> None:
        """Enter a state; what is known of committed offsets holds under one membership only."""
        self.change(state=state, committed={})

    def lose(self) -> None:
        """Nothing is assigned; what was being read may be from before the next join."""
        self.change(assigned=None, reading=None)
        if self.membership.state is MembershipState.MEMBER:
            self.enter(MembershipState.JOINING)

    def call(self) -> int:
        """The number of the next call of the client."""
        self.change(calls=self.membership.calls + 1)
        return self.membership.calls

    def group(self) -> str:
        """How log lines begin."""
        return f"group {self.membership.config.group_id}"

    def warn(self, text: str) -> None:
        """Tell the operator."""
        self.actions.append(s.Warn(text))

    def waits(self, call: int) -> bool:
        """Whether the request waits for this call; a result of any other is void."""
        return self.membership.pending is not None and self.membership.pending.call == call

    def answer(self, result: object) -> None:
        """The request is done."""
        if self.membership.pending is not None:
            self.actions.append(s.MembershipAnswer(self.membership.pending.request.request, result))
            self.change(pending=None)

    def answer_later(self, reason: str) -> None:
        """The request, if there is one, may be made again."""
        if self.membership.pending is not None:
            self.actions.append(s.MembershipAnswer(self.membership.pending.request.request, later=reason))
            self.change(pending=None)


# --- requests ---------------------------------------------------------------------------------------


def fetch_requested(context: MembershipContext, event: s.FetchRequested) -> None:
    """In every state but ENDED: what is committed can be read without being a member."""
    _begin(context, event)
    _fetch(context, Phase.FETCH, event.partitions)


def commit_requested(context: MembershipContext, event: s.CommitRequested) -> None:
    """Commit now, or later."""
    _begin(context, event)
    _commit(context, event.offsets)


def reserve_requested(context: MembershipContext, event: s.ReserveRequested) -> None:
    """Read the records of all runs, then commit one above them."""
    _begin(context, event)
    if not _postponed(context):
        _fetch(context, Phase.RESERVE, tuple(sorted({*event.starts, *context.membership.partitions})))


def refuse(context: MembershipContext, event: MembershipRequest) -> None:
    """Answer a request under a membership that has ended: with the error that ended it, if there is one."""
    context.change(pending=None)
    error = context.membership.failure
    context.actions.append(s.MembershipAnswer(event.request, later="the membership has ended", error=error))


def _begin(context: MembershipContext, event: MembershipRequest) -> None:
    context.answer_later("another request came first")  # its caller has given up: one waits at a time
    context.change(pending=Pending(event))


def _postponed(context: MembershipContext) -> bool:
    """Answer the request "later" unless this is a state to commit in: no fenced or rebalancing member commits."""
    state = context.membership.state
    if state not in COMMITTING:
        context.answer_later(f"the membership is {state.value}")
    return state not in COMMITTING


def end(context: MembershipContext, error: CohortError) -> None:
    """End the membership for good."""
    context.lose()
    context.enter(MembershipState.ENDED)
    context.change(failure=error)
    if context.membership.pending is not None:
        refuse(context, context.membership.pending.request)


def end_superseded(context: MembershipContext, successor: CommitMetadata) -> None:
    """Another run has come after this one: end the membership for good."""
    config, own = context.membership.config, context.membership.reservation.own
    own_run = f"run {own.run}" if own else "not numbered yet"
    place = f" on {successor.host}" if successor.host else ""
    error = CohortError(
        f"FENCED_INSTANCE_ID: a newer driver{place} (run {successor.run}, this one is {own_run}) reads what {config.group_instance_id} "
        f"read ({config.subscription}) in group {config.group_id}, so this query has stopped for good. If both should run, "
        "give each its own group.id",
        "FENCED_INSTANCE_ID",
    )
    context.change(successor=successor)
    end(context, error)


def _wait(context: MembershipContext, phase: Phase, **fields: Any) -> int:
    """The number of the call for which the request waits in this phase."""
    number, pending = context.call(), cast("Pending", context.membership.pending)  # set by ``_begin``
    context.change(pending=replace(pending, phase=phase, call=number, **fields))
    return number


def _fetch(context: MembershipContext, phase: Phase, partitions: tuple[TopicPartition, ...], **fields: Any) -> None:
    number = _wait(context, phase, **fields)
    if partitions:
        context.actions.append(s.FetchOffsets(number, partitions))
    else:
        offsets_fetched(context, {})


def _commit(context: MembershipContext, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
    """Commit those of partitions that exist; where this membership does not know the committed offset, read it first."""
    membership = context.membership
    deleted = offsets.keys() - membership.partitions
    if deleted:
        context.warn(
            f"{context.group()}: nothing is committed for {names_of(deleted)}: not there, or not read any more"
        )
    offsets = {tp: offset for tp, offset in offsets.items() if tp not in deleted}
    if not offsets:
        answer_commit(context, {})
    elif not _postponed(context):
        # Without a membership nothing keeps other clients from committing, so what was read before may be old.
        committed = membership.committed if membership.state is MembershipState.MEMBER else {}
        unknown = tuple(tp for tp in offsets if tp not in committed)
        _fetch(context, Phase.PREPARE, unknown, offsets=offsets)


def answer_commit(context: MembershipContext, offsets: Mapping[TopicPartition, int]) -> None:
    """The commit is done."""
    pending = context.membership.pending
    if pending is not None and pending.record is not None:
        context.change(reservation=context.membership.reservation.confirm(pending.record))
        context.answer(context.membership.reservation)
    else:
        context.answer(dict(offsets))


def note_committed(context: MembershipContext, offsets: Mapping[TopicPartition, int]) -> None:
    """Remember what Kafka has, until the next rebalance: another member may commit after it."""
    if context.membership.state in COMMITTING:
        context.change(committed={**context.membership.committed, **offsets})


# --- results of calls that the request waits for ------------------------------------------------------


def offsets_fetched(context: MembershipContext, offsets: _Offsets) -> None:
    """Carry the request on to its next phase."""
    pending = context.membership.pending
    if pending is not None and pending.phase in _FETCHED:
        _FETCHED[pending.phase](context, pending, offsets)


def _answer_fetch(context: MembershipContext, _pending: Pending, offsets: _Offsets) -> None:
    context.answer(dict(offsets))


def _reserve(context: MembershipContext, pending: Pending, offsets: _Offsets) -> None:
    """Commit the run's record with all starts."""
    request = pending.request
    if not isinstance(request, s.ReserveRequested):
        return
    texts = [committed.metadata for committed in offsets.values()]
    record = context.membership.reservation.next(texts, request.pin, request.plan)
    text = encode(record)
    context.change(pending=replace(pending, record=record))
    _commit(context, {tp: (start, text) for tp, start in request.starts.items()})


def _send_commit(context: MembershipContext, pending: Pending, offsets: _Offsets) -> None:
    """An offset below the committed one is replaced by that one, unless it is a reset; its leader epoch is then unknown.

    The start of a run is a reset: a checkpoint or an option says it, also where the group has gone further.
    """
    note_committed(context, {tp: -1 if each.offset is None else each.offset for tp, each in offsets.items()})
    request = pending.request
    if _postponed(context) or isinstance(request, s.FetchRequested) or _is_superseded(context, offsets):
        return
    is_reset = isinstance(request, s.ReserveRequested) or request.reset
    floors = {} if is_reset else context.membership.committed
    targets = {tp: max(offset, floors.get(tp, -1)) for tp, (offset, _) in pending.offsets.items()}
    ids, epochs = request.topic_ids, request.epochs
    pairs = {(text, ids.get(tp.topic, "")) for tp, (_, text) in pending.offsets.items()}
    texts = {pair: with_topic_id(*pair) for pair in pairs}
    number = _wait(context, Phase.COMMIT)
    entries = tuple(
        s.OffsetToCommit(
            tp, targets[tp], texts[text, ids.get(tp.topic, "")], epochs.get(tp, -1) if targets[tp] == offset else -1
        )
        for tp, (offset, text) in pending.offsets.items()
    )
    context.actions.append(s.CommitOffsets(number, entries))


def _is_superseded(context: MembershipContext, offsets: _Offsets) -> bool:
    """Whether a later run has committed meanwhile: no group coordinator fences one of two runs that are STANDALONE."""
    membership = context.membership
    if membership.state is not MembershipState.STANDALONE or membership.reservation.own is None:
        return False
    successor = membership.reservation.find_successor(committed.metadata for committed in offsets.values())
    if successor is not None:
        end_superseded(context, successor)
    return successor is not None


_FETCHED: Mapping[Phase, Callable[[MembershipContext, Pending, _Offsets], None]] = {
    Phase.FETCH: _answer_fetch,
    Phase.RESERVE: _reserve,
    Phase.PREPARE: _send_commit,
}
