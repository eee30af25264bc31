"""The driver's membership in the real Kafka group, as a pure state machine: ``step(membership, event, now_ms)``.

The driver is the group's one static member (KIP-345) for its topics: it never fetches, it is where offsets are committed.
The shell owns the client, carries out the actions one after the other and says what came of each.

What the table at the end can't say:

* **A batch is committed under a verified membership only.**  After each join the group's commit metadata is read: no run
  epoch above ours, and JOINING becomes MEMBER.  A revocation, a fencing or another client ends that at once.  librdkafka
  cannot rejoin behind our back, since a rejoin waits for our revocation callback.
* **A query does not wait for its group.**  With Kafka's defaults a group's first join takes three seconds
  (group.initial.rebalance.delay.ms).  So this begins STANDALONE: run epoch and pinned start are committed as by a consumer
  that is no member, which the coordinator takes while the group is EMPTY (ClassicGroup.validateOffsetCommit).  Where it is
  not, an older driver or a foreign member is there: then this joins at once, and commits as the member.  A driver
  that is STANDALONE reads before each commit what is committed, and ends where a later run has been.
* **Newest joiner is not newest driver.**  The broker gives an instance id to the newest joiner, and answers the member before it
  FENCED_INSTANCE_ID.  One that was frozen past its session rejoins when it thaws.  So a fenced member first *watches* the
  commit metadata: a later run's epoch there ends it for good; when none appears, it joins again with a new client.  The
  thawed one finds the higher epoch right after its join and ends.
* **One request at a time**, and each is answered exactly once: done, later, or with an error.  The caller tries again.
* **A result is known by the number of its call.**  One that comes after the membership has moved on is void.
* **A client is replaced by its number** (``Membership.client``): the shell makes another one when it has risen, which is
  subscribed to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from sparkcohort.runtime.kafka import membership_requests as requests
from sparkcohort.runtime.kafka import membership_state as s
from sparkcohort.runtime.kafka.membership_requests import MembershipContext
from sparkcohort.runtime.kafka.membership_state import (
    Committed,
    Membership,
    MembershipAction,
    MembershipConfig,
    MembershipEvent,
    MembershipState,
)
from sparkcohort.runtime.kafka.run_epoch import RunEpoch
from sparkcohort.runtime.protocol.partitions import TopicPartition, names_of

WATCH_MS = 3_000  # a newer run reserves its epoch within milliseconds of its join; doubled at each further fencing
MOST_DOUBLINGS = 4
WATCH_GAP_MS = 250
LOOK_GAP_MS = 1_000
COMMITTING = requests.COMMITTING
_SUBSCRIBING = frozenset({MembershipState.JOINING, MembershipState.MEMBER})  # a WATCHING driver must not join


def new_membership(config: MembershipConfig, run_id: str, now_ms: int) -> Membership:
    """A membership that has not joined; ``run_id`` tells two runs of one epoch apart."""
    return Membership(config, RunEpoch(run_id, config.host), now_ms)


def step(
    membership: Membership, event: MembershipEvent, now_ms: int
) -> tuple[Membership, tuple[MembershipAction, ...]]:
    """The membership after an event at ``now_ms``, and what the shell is to do.

    Total: an event that the state has no use for changes nothing.
    """
    context = MembershipContext(membership, now_ms)
    effect = TABLE[membership.state].get(type(event))
    if effect is not None:
        effect(context, event)
    return context.membership, tuple(context.actions)


def deadline(membership: Membership) -> int | None:
    """When the next ``Tick`` is due (absolute ms); None if only an event can change the membership."""
    look, watch = membership.next_look_ms, membership.next_watch_ms
    match membership.state:
        case MembershipState.MEMBER:
            return look
        case MembershipState.STANDALONE if membership.informed:
            return None
        case MembershipState.JOINING if membership.informed:
            return min(look, watch)
        case MembershipState.STANDALONE | MembershipState.JOINING | MembershipState.WATCHING:
            return watch
    return None


def is_void(membership: Membership, action: MembershipAction) -> bool:
    """Whether the membership has moved on since it asked for this: then it is not carried out."""
    match action:
        case s.Subscribe(client):
            return client != membership.client or membership.state not in _SUBSCRIBING
        case s.FetchOffsets(call):
            return call not in _awaited(membership)
        case s.CommitOffsets(call):
            return call not in _awaited(membership) or membership.state not in COMMITTING
    return False


def _awaited(membership: Membership) -> tuple[int | None, int | None]:
    return membership.reading, membership.pending.call if membership.pending else None


# --- joining ------------------------------------------------------------------------------------


def _tick_standalone(context: MembershipContext, _event: s.TimePassed) -> None:
    membership = context.membership
    if not membership.informed and membership.reading is None and context.now_ms >= membership.next_watch_ms:
        context.change(next_watch_ms=context.now_ms + WATCH_GAP_MS)
        _read_metadata(context)


def _join(context: MembershipContext, _event: s.Join) -> None:
    """By another client: a static member's carries the instance id, with which nothing is committed STANDALONE (KIP-345)."""
    context.enter(MembershipState.JOINING)
    _replace_client(context)
    context.change(next_watch_ms=context.now_ms, next_look_ms=context.now_ms)


def _tick_joining(context: MembershipContext, _event: s.TimePassed) -> None:
    membership = context.membership
    if membership.informed and context.now_ms >= membership.next_look_ms:
        # While joining, too: a client that is subscribed to nothing that there is joins no group, ever.
        _look(context)
    elif context.now_ms >= membership.next_watch_ms:
        context.change(next_watch_ms=context.now_ms + WATCH_GAP_MS)
        if membership.reading is None and (_has_joined(membership) or not membership.informed or _is_silent(context)):
            _read_metadata(context)


def _tick_member(context: MembershipContext, _event: s.TimePassed) -> None:
    if context.now_ms >= context.membership.next_look_ms:
        _look(context)


def _look(context: MembershipContext) -> None:
    """Once a second: topics of a pattern come and go, foreign members too, newer runs among them."""
    if context.membership.topics != context.membership.subscribed:
        _subscribe(context)
    context.change(next_look_ms=context.now_ms + LOOK_GAP_MS)
    membership = context.membership
    if membership.state is MembershipState.MEMBER:
        missing = membership.partitions - (membership.assigned or frozenset())
        context.actions.append(s.LookForForeignMembers(missing))
        # A newer run that reads other topics, too, has another instance id, and fences no other.
        if missing and membership.reading is None:
            _read_metadata(context)


def _subscribe(context: MembershipContext) -> None:
    """To the topics that are there now; where there is none, this is a member of nothing, and commits nothing."""
    membership = context.membership
    if membership.topics or membership.subscribed:
        context.actions.append(s.Subscribe(membership.client, membership.topics))
    if not membership.topics:
        context.change(assigned=None)
    context.change(subscribed=membership.topics, reading=None)


def _has_joined(membership: Membership) -> bool:
    return membership.assigned is not None or not membership.subscribed  # librdkafka joins no group without topics


def _is_silent(context: MembershipContext) -> bool:
    """Whether no broker has answered for long, though maybe nothing was asked."""
    return context.now_ms >= context.membership.heard_ms + context.membership.config.silent_ms


def _replace_if_stuck(context: MembershipContext) -> None:
    """Go on by another client where no broker answers this one.

    A broker that has just come back may tell, in the moment before it is let in again, that the cluster has no brokers.
    librdkafka (2.16) then forgets those that it knew, and at times never asks a broker again (its issue 5301).
    """
    if not _is_silent(context):
        return
    context.actions.append(s.ClientReplaced(context.now_ms - context.membership.heard_ms))
    _replace_client(context)


def _topics_changed(context: MembershipContext, event: s.TopicsChanged) -> None:
    context.change(topics=event.topics, partitions=event.partitions)


def _replace_client(context: MembershipContext) -> None:
    context.lose()
    membership = context.membership
    context.change(client=membership.client + 1, heard_ms=context.now_ms, subscribed=())
    if membership.informed and membership.state is MembershipState.JOINING:  # one that watches must not join
        _subscribe(context)


def _client_failed(context: MembershipContext, _event: s.ClientFailed) -> None:
    _replace_client(context)
    context.answer_later("the owner of the client has failed")


def _assigned(context: MembershipContext, event: s.AssignmentReceived) -> None:
    context.lose()  # an assignment is another membership: it is verified again, also where nothing was revoked before it
    now_ms = context.now_ms
    context.change(assigned=event.partitions, heard_ms=now_ms, next_watch_ms=now_ms, next_look_ms=now_ms)


def _revoked(context: MembershipContext, _event: s.RevocationReceived) -> None:
    context.lose()


# --- fencing --------------------------------------------------------------------------------------


def _fenced(context: MembershipContext, event: s.Fenced) -> None:
    """FENCED_INSTANCE_ID (KIP-345): another took the instance id.  Watch by another client whether it is a later run."""
    membership, config = context.membership, context.membership.config
    context.warn(f"{context.group()}: fenced as {config.group_instance_id} ({event.error}); is the other one newer?")
    context.enter(MembershipState.WATCHING)
    _replace_client(context)  # a fenced client never recovers: its error is fatal
    context.change(
        watch_until_ms=context.now_ms + WATCH_MS * 2**membership.fencings,
        next_watch_ms=context.now_ms,
        fencings=min(membership.fencings + 1, MOST_DOUBLINGS),
    )


def _tick_watching(context: MembershipContext, _event: s.TimePassed) -> None:
    membership = context.membership
    if membership.reading is None and context.now_ms >= membership.next_watch_ms:
        context.change(next_watch_ms=context.now_ms + WATCH_GAP_MS)
        _read_metadata(context)


def _read_metadata(context: MembershipContext) -> None:
    partitions = tuple(sorted(context.membership.partitions))
    if not partitions:
        _metadata_read(context, {})
        return
    context.change(reading=context.call())
    context.actions.append(s.FetchOffsets(context.membership.calls, partitions))


def _metadata_read(context: MembershipContext, offsets: Mapping[TopicPartition, Committed]) -> None:
    texts = [committed.metadata for committed in offsets.values()]
    context.change(reading=None)
    membership = context.membership
    watching = membership.state is MembershipState.WATCHING
    if not membership.informed:
        # Before the first join: what earlier runs have left.
        context.change(informed=True, reservation=membership.reservation.observe(texts))
        if membership.state is MembershipState.JOINING:
            _subscribe(context)
    elif membership.state is MembershipState.JOINING and not _has_joined(membership):
        return  # this read was to see whether a broker answers: what is read before the join may be old
    elif not membership.joined_once and not watching and membership.reservation.own is None:
        # A run that reserved before our first join is older than we are; one before a later join may be newer.
        context.change(joined_once=True, reservation=membership.reservation.observe(texts))
        _read_metadata(context)  # once more: from here on, what is new is newer than we are
    elif (successor := membership.reservation.find_successor(texts)) is not None:
        requests.end_superseded(context, successor)
    elif membership.state is MembershipState.JOINING:
        # What isn't assigned may be a foreign member's: look at once, not a second later.
        context.change(joined_once=True, next_look_ms=context.now_ms)
        context.enter(MembershipState.MEMBER)
    elif watching and context.now_ms >= membership.watch_until_ms:
        context.enter(MembershipState.JOINING)
        _subscribe(context)


# --- ends -----------------------------------------------------------------------------------------


def _login_refused(context: MembershipContext, event: s.LoginFailed) -> None:
    """End the membership: at the start at once (the user's mistake), later after a minute of refusals (``LoginRefusals``)."""
    refusals = context.membership.login_refusals.add_refusal(context.now_ms)
    if not context.membership.informed:
        requests.end(context, event.error)
        return
    context.change(login_refusals=refusals)
    if refusals.believed:
        requests.end(context, event.error)
    else:
        context.warn(f"{context.group()}: login refused, tried again for a minute: {event.error}")


def _failed(context: MembershipContext, event: s.StepFailed) -> None:
    requests.end(context, event.error)


def _close(context: MembershipContext, _event: s.Close) -> None:
    """Without LeaveGroup (KIP-345): a restarted driver finds its place, and nothing is rebalanced meanwhile."""
    context.lose()
    context.enter(MembershipState.ENDED)
    context.answer_later("the membership has ended")


# --- results of calls ---------------------------------------------------------------------------------


def _note_answer(context: MembershipContext, call: int) -> None:
    if call in _awaited(context.membership):
        context.change(heard_ms=context.now_ms)


def _offsets_fetched(context: MembershipContext, event: s.OffsetsFetched) -> None:
    _note_answer(context, event.call)
    if event.call == context.membership.reading:
        _metadata_read(context, event.offsets)
    elif context.waits(event.call):
        requests.offsets_fetched(context, event.offsets)


def _call_failed(context: MembershipContext, event: s.CallFailed) -> None:
    silent = event.silent and event.call in _awaited(context.membership)
    if event.call == context.membership.reading:
        context.change(reading=None)
    elif context.waits(event.call):
        _postpone(context, event.error)
    if silent:
        _replace_if_stuck(context)


def _commit_answered(context: MembershipContext, event: s.CommitAnswered) -> None:
    _note_answer(context, event.call)
    if not context.waits(event.call):
        return
    requests.note_committed(context, event.offsets)  # Kafka answers each partition by itself
    if event.unknown:  # they are deleted, or the group coordinator's metadata are older than ours
        context.actions.append(s.DoubtMetadata())
        context.answer_later(f"{names_of(event.unknown)} not known to the group coordinator")
    elif event.error:
        _postpone(context, event.error)
    else:
        requests.answer_commit(context, event.offsets)


def _postpone(context: MembershipContext, reason: str) -> None:
    """Have the request made again.  Join if a STANDALONE commit failed: the group is not EMPTY, so only members commit."""
    pending, standalone = context.membership.pending, context.membership.state is MembershipState.STANDALONE
    context.answer_later(reason)
    if standalone and pending is not None and pending.phase is s.Phase.COMMIT:
        _join(context, s.Join())


_Effect: TypeAlias = Callable[[MembershipContext, Any], None]
_ALIVE: Mapping[type, _Effect] = {
    s.TopicsChanged: _topics_changed,
    s.ClientFailed: _client_failed,
    s.RevocationReceived: _revoked,
    s.LoginFailed: _login_refused,
    s.StepFailed: _failed,
    s.FetchRequested: requests.fetch_requested,
    s.CommitRequested: requests.commit_requested,
    s.ReserveRequested: requests.reserve_requested,
    s.OffsetsFetched: _offsets_fetched,
    s.CommitAnswered: _commit_answered,
    s.CallFailed: _call_failed,
    s.Close: _close,
}
TABLE: Mapping[MembershipState, Mapping[type, _Effect]] = {  # what is not in here is ignored
    MembershipState.STANDALONE: {**_ALIVE, s.TimePassed: _tick_standalone, s.Join: _join},
    MembershipState.JOINING: {
        **_ALIVE,
        s.TimePassed: _tick_joining,
        s.AssignmentReceived: _assigned,
        s.Fenced: _fenced,
    },
    MembershipState.MEMBER: {
        **_ALIVE,
        s.TimePassed: _tick_member,
        s.AssignmentReceived: _assigned,
        s.Fenced: _fenced,
    },
    MembershipState.WATCHING: {**_ALIVE, s.TimePassed: _tick_watching},  # a fenced client has nothing more to tell
    MembershipState.ENDED: dict.fromkeys((s.FetchRequested, s.CommitRequested, s.ReserveRequested), requests.refuse),
}
