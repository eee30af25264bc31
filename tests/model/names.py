"""The parts of a world of the model check, and their canonical form (see ``check`` for why it is sound)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from sparkcohort.runtime import group as g
from sparkcohort.runtime.group import member_state as ms
from sparkcohort.runtime.group.state import EMPTY, JoinPhase
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.protocol.reasons import NO_REASON

FAR = 1  # every deadline; now is 0
NEXT_SERIAL = 8  # ids in a world have numbers from 1 up to it
_ANY_GENERATION = 2**31
TRIGGER = p.Trigger(NO_REASON)
_PHASE = JoinPhase(NO_REASON, 0, FAR)


class Process(Struct, frozen=True):
    """One member's process: what waits to be handled by it, and what it has sent that has not arrived.

    ``replies`` are answers to its outstanding request, whose copies make several of them.
    """

    member: ms.Member
    replies: frozenset[p.Reply] = frozenset()
    pushes: tuple[ms.Pushed, ...] = ()
    work: tuple[ms.MemberEvent, ...] = ()
    requests: tuple[p.Request, ...] = ()


def asked(request: p.Request | None) -> object:
    """What tells requests apart that wait for an answer: a join by its number, a sync by its generation."""
    match request:
        case p.JoinGroup():
            return ("join", request.client_id, request.attempt)
        case p.SyncGroup(member_id, _, generation):
            return ("sync", member_id, generation)
    return None


class Seen:
    """Collects the numbers that a part of a world knows."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self.generations: set[int] = set()
        self.attempts: set[tuple[str, int]] = set()

    def id(self, member_id: str) -> str:
        """A member's id."""
        if member_id:
            self.ids.add(member_id)
        return member_id

    def generation(self, number: int) -> int:
        """A generation; -1 is none."""
        if 0 <= number < _ANY_GENERATION:
            self.generations.add(number)
        return number

    def attempt(self, client_id: str, number: int) -> int:
        """The number of a join; 0 is none."""
        if number:
            self.attempts.add((client_id, number))
        return number


class Names(Seen):
    """The canonical number of each: its rank."""

    def __init__(self, parts: Iterable[Seen]) -> None:
        super().__init__()
        for part in parts:
            self.ids |= part.ids
            self.generations |= part.generations
            self.attempts |= part.attempts
        ranks: dict[str, int] = {}
        self._id = {"": ""}
        for member_id in sorted(self.ids, key=_age):
            client = member_id.partition("-")[0]
            ranks[client] = ranks.get(client, 0) + 1
            self._id[member_id] = f"{client}-{ranks[client]}"
        self._generation = {number: rank for rank, number in enumerate(sorted(self.generations | {0}))}
        self._attempt: dict[tuple[str, int], int] = {}
        counts: dict[str, int] = {}
        for client, number in sorted(self.attempts):
            counts[client] = counts.get(client, 0) + 1
            self._attempt[client, number] = counts[client]

    def of(self, part: Seen) -> object:
        """What the names make of one part: equal keys, equal names."""
        return (
            tuple([self._id[x] for x in part.ids]),
            tuple([self._generation[x] for x in part.generations]),
            tuple([self._attempt[x] for x in part.attempts]),
        )

    def id(self, member_id: str) -> str:
        """A member's."""
        return self._id[member_id]

    def generation(self, number: int) -> int:
        """A generation's."""
        return self._generation.get(number, number)

    def attempt(self, client_id: str, number: int) -> int:
        """A join's."""
        return self._attempt.get((client_id, number), 0)


def _age(member_id: str) -> tuple[str, int]:
    client, _, number = member_id.partition("-")
    return client, int(number)


# --- a group, a process, a request, under other names ----------------------------------------------


def of_group(group: g.Group, names: Seen) -> g.Group:
    """A group without times, words, commits and the past."""
    members = {names.id(x): _member(y, names) for x, y in group.members.items()}
    place = {member_id: number for number, member_id in enumerate(group.members, 1)}
    return replace(
        group,
        generation=names.generation(group.generation),
        leader=names.id(group.leader),
        members=members,
        instances={x: names.id(y) for x, y in sorted(group.instances.items())},
        joins={names.id(x): place[x] for x in sorted(group.joins)},
        syncs={names.id(x): place[x] for x in sorted(group.syncs)},
        unsynced=frozenset(names.id(x) for x in group.unsynced),
        sync_deadline_ms=None if group.sync_deadline_ms is None else FAR,
        sessions=_armed(group.sessions, names),
        rebalance=None if group.rebalance is None else _PHASE,
        assignments={names.id(x): y for x, y in sorted(group.assignments.items())},
        owned={names.id(x): owned(y, names) for x, y in sorted(group.owned.items())},
        previous_assignment=EMPTY,
        committed=EMPTY,
        former_members=(),
        serial=NEXT_SERIAL,
    )


def _armed(deadlines: Mapping[str, int], names: Seen) -> dict[str, int]:
    return {names.id(x): FAR for x in sorted(deadlines)}


def _member(member: p.JoinGroup, names: Seen) -> p.JoinGroup:
    return replace(
        member,
        member_id=names.id(member.member_id),
        subscription=_subscription(member.subscription, names),
        attempt=names.attempt(member.client_id, member.attempt),
    )


def owned(partitions: Mapping[TopicPartition, int], names: Seen) -> dict[TopicPartition, int]:
    """Partitions with their assignment generations."""
    return {tp: names.generation(since) for tp, since in sorted(partitions.items())}


def of_process(process: Process, names: Seen) -> Process:
    """A process without times and words."""
    member = process.member
    after = member.rejoin_after
    member = replace(
        member,
        member_id=names.id(member.member_id),
        generation=names.generation(member.generation),
        owned=owned(member.owned, names),
        outstanding=None if member.outstanding is None else message(member.outstanding, names),
        joins=names.attempt(member.config.client_id, member.joins),
        revoke_reason="",
        rejoin_after=None if after is None else names.generation(after),
        heartbeat_sent=None,
        heartbeat_due_ms=None if member.heartbeat_due_ms is None else FAR,
        retry_due_ms=None if member.retry_due_ms is None else FAR,
        attempts=0,
        unreachable_since_ms=None,
    )
    return Process(
        member,
        frozenset(message(x, names) for x in process.replies),
        tuple(ms.Pushed("", names.generation(x.generation)) for x in process.pushes),
        tuple(message(x, names) for x in process.work),
        tuple(message(x, names) for x in process.requests),
    )


def message(said: Any, names: Seen) -> Any:
    """A request, a reply or a piece of work without words."""
    match said:
        case p.JoinGroup(member_id):
            attempt = names.attempt(said.client_id, said.attempt)
            wants = _subscription(said.subscription, names)
            return replace(said, member_id=names.id(member_id), subscription=wants, reason="", attempt=attempt)
        case p.SyncGroup(member_id, _, generation):
            given = tuple((names.id(x), y) for x, y in said.assignments)
            return replace(
                said, member_id=names.id(member_id), generation=names.generation(generation), assignments=given
            )
        case p.LeaveGroup(members):
            leaving = tuple(replace(x, member_id=names.id(x.member_id), reason="") for x in members)
            return p.LeaveGroup(leaving)
        case p.JoinGroupReply(_, generation):
            return replace(
                said,
                generation=names.generation(generation),
                leader=names.id(said.leader),
                member_id=names.id(said.member_id),
                members=tuple(_joined(x, names) for x in said.members),
                message="",
            )
        case p.SyncGroupReply():
            return replace(said, message="")
        case ms.AssignmentComputed(assignments, generation):
            given = tuple((names.id(x), y) for x, y in assignments)
            return ms.AssignmentComputed(given, names.generation(generation))
    return said


def _joined(member: p.JoinedMember, names: Seen) -> p.JoinedMember:
    wants = _subscription(member.subscription, names)
    return replace(member, member_id=names.id(member.member_id), subscription=wants)


def _subscription(said: p.Subscription, names: Seen) -> p.Subscription:
    return replace(said, generation=names.generation(said.generation))


# --- equal or not ----------------------------------------------------------------------------------


def key(part: Any) -> object:
    """A part as nothing but tuples; the order of its mappings counts."""
    if isinstance(part, Mapping):
        return tuple((x, key(y)) for x, y in part.items())
    if isinstance(part, g.Group | ms.Member | Process):
        name = part.config.client_id if isinstance(part, ms.Member) else ""
        return (name, *(key(getattr(part, x)) for x in _fields(_kind(part))))
    return part


def _kind(part: object) -> Any:
    return type(part)


@cache
def _fields(kind: Any) -> tuple[str, ...]:
    return tuple(x for x in kind.__struct_fields__ if x != "config")
