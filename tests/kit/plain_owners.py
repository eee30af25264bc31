"""The plain group's members, and which partitions are whose; see ``plain_group``."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparkcohort.runtime.group.state import EmbeddedProtocol
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.error_codes import ErrorCode as E
from sparkcohort.runtime.protocol.partitions import TopicPartition

Owned = dict[TopicPartition, int]


@dataclass
class Person:
    """A member: ``join`` and ``sync`` are what it waits for, ``until`` is when it is given up."""

    id: str
    asked: p.JoinGroup
    instance: str | None
    until: int | None = None
    join: int | None = None
    sync: int | None = None
    owes_sync: bool = False
    assignment: bytes | None = None
    owned: Owned = field(default_factory=dict)
    promised: Owned = field(default_factory=dict)

    @property
    def patience(self) -> int:
        """How long it gives the others to rejoin."""
        return self.asked.rebalance_timeout_ms if self.asked.rebalance_timeout_ms > 0 else self.asked.session_timeout_ms

    def metadata(self, name: str) -> bytes:
        """What it said under that protocol."""
        return next((x.metadata for x in self.asked.protocols if x.name == name), b"")


@dataclass
class Refuse(Exception):
    """The request goes no further."""

    error: E


class PlainOwners:
    """The people of a group, and what they own under its present generation."""

    def __init__(self, embedded: EmbeddedProtocol) -> None:
        self.embedded = embedded
        self.state, self.generation, self.protocol = "Empty", 0, ""
        self.people: list[Person] = []

    def owner(self, tp: TopicPartition) -> Person | None:
        """Who owns a partition."""
        return next((x for x in self.people if tp in x.owned), None)

    def assigned(self, person: Person) -> frozenset[TopicPartition]:
        """What the stored plan gives it."""
        try:
            return self.embedded.assigned(person.assignment) if person.assignment else frozenset()
        except ValueError:
            return frozenset()

    def claims(self, person: Person) -> set[TopicPartition]:
        """What it says it holds."""
        found: set[TopicPartition] = set()
        for said in person.asked.protocols:
            try:
                found |= self.embedded.claimed(said.metadata)
            except ValueError:
                continue
        return found

    def own(self) -> None:
        """What is free is granted, what is another's is promised."""
        promised: dict[str, Owned] = {x.id: {} for x in self.people}
        for person in self.people:
            for tp in sorted(self.assigned(person)):
                owner = self.owner(tp)
                if owner is None:
                    person.owned[tp] = self.generation
                elif owner is not person:
                    promised[person.id][tp] = person.promised.get(tp, self.generation)
        for person in self.people:
            person.promised = promised[person.id]

    def assign_pending(self, freed: Owned) -> None:
        """What became free goes to the first to whom it is promised."""
        for tp in freed:
            heir = next((x for x in self.people if tp in x.promised), None)
            if heir is not None and self.owner(tp) is None:
                heir.owned[tp] = heir.promised.pop(tp)

    def give_up_unclaimed(self, person: Person) -> None:
        """A member that rejoins owns no more than it claims."""
        claims = self.claims(person)
        person.promised = {tp: since for tp, since in person.promised.items() if tp in claims}
        freed = {tp: since for tp, since in person.owned.items() if tp not in claims}
        person.owned = {tp: since for tp, since in person.owned.items() if tp in claims}
        self.assign_pending(freed)

    def lost(self, person: Person) -> bool:
        """Whether it misses what an earlier generation gave it."""
        claims = self.claims(person)
        return any(since < self.generation and tp not in claims for tp, since in person.owned.items())

    def subscription(self, person: Person) -> object:
        """What it asks for under the group's protocol."""
        said = person.metadata(self.protocol)
        try:
            return self.embedded.subscription(said)
        except ValueError:
            return said


def names(person: Person) -> list[str]:
    """The protocols that a member offers."""
    return [x.name for x in person.asked.protocols]


def refusal(request: p.Request, error: E) -> p.Reply:
    """The reply with that error and nothing else."""
    match request:
        case p.JoinGroup(member_id):
            return p.JoinGroupReply(error, member_id=member_id)
        case p.SyncGroup():
            return p.SyncGroupReply(error)
        case p.LeaveGroup(members):
            return p.LeaveGroupReply(error, tuple((x, error) for x in members))
        case p.OffsetCommit(_, _, _, offsets):
            return p.OffsetCommitReply(tuple((TopicPartition(x.topic, x.partition), error) for x in offsets))
        case _:
            return p.HeartbeatReply(error)
