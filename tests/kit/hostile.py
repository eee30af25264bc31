"""Clients that send anything: plausible requests of anybody, mutated, replayed, held back and sent later.

They spy with DescribeGroup, so what they make up is often nearly right: the ids, instance ids, generations and leader
of the moment.  Everything comes from one ``Random``; what the server makes of it depends on who is faster.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from msgspec import structs

from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.codec import WireError, decode, encode
from sparkcohort.runtime.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.rpc.flight import CoordinatorRefused, CoordinatorUnreachable, Link

TOPIC, PARTITIONS = "t", 6
KINDS = (
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "LeaveGroup",
    "OffsetCommit",
    "OffsetFetch",
    "DescribeGroup",
)
JUNK: tuple[Any, ...] = (
    None, True, -1, 0, 2**31, 2**63 - 1, 2**63, 10**400, 1.5, "", "x", "\ud800", "\u0000", "ß" * 5_000, [], {}, [[]], ["x"],
)  # fmt: skip


@dataclass
class Ether:
    """What everybody has heard: bodies that were sent, and the group as last described."""

    sent: list[tuple[str, bytes]] = field(default_factory=list)
    seen: p.DescribeGroupReply | None = None


@dataclass
class Hostile:
    """One client: ``turn`` sends one message and counts what came of it."""

    link: Link
    random: Random
    ether: Ether
    outcomes: Counter[str] = field(default_factory=Counter)
    replies: Counter[bytes] = field(default_factory=Counter)
    asked: Counter[bytes] = field(default_factory=Counter)
    held: deque[tuple[str, bytes]] = field(default_factory=deque)

    def turn(self) -> None:
        """Send one message: a new one, a damaged one, an old one, or one that was held back."""
        luck = self.random.random()
        action, body = self._next(luck)
        if luck > 0.9:
            self.held.append((action, body))
            self.random.shuffle(self.held)
            action, body = self.held.popleft() if len(self.held) > 8 else self._next(0)
        self.ether.sent.append((action, body))
        self.send(action, body)

    def _next(self, luck: float) -> tuple[str, bytes]:
        request = self.request()
        action, body = type(request).__name__, encode(request)
        if luck < 0.15:
            body = self._mutated(body)
        elif luck < 0.25:
            body = self._damaged(body)
        elif luck < 0.4 and self.ether.sent:
            action, body = self.random.choice(self.ether.sent)
        elif luck < 0.43:
            action = self.random.choice((*KINDS, "Claim", "Delivered", "Nothing"))
        return action, body

    def send(self, action: str, body: bytes) -> None:
        """Send these bytes; a parked request is not waited for for long."""
        try:
            request = decode(body) if action in KINDS else None
        except WireError:
            request = None
        good = isinstance(request, p.Request) and not speaks_as_driver(request)
        if good:
            self.asked[encode(request)] += 1
        patience_s = 0.02 if good and isinstance(request, p.JoinGroup | p.SyncGroup) else 5.0
        try:
            reply = self.link.call(action, body, patience_s)
        except CoordinatorRefused:
            assert not good, f"refused: {body[:200]!r}"
            self.outcomes["refused by the port"] += 1
        except CoordinatorUnreachable:
            assert patience_s < 1, f"{action} was not answered: {body[:200]!r}"
            self.outcomes["still parked"] += 1
        else:
            assert good, f"answered: {action} {body[:200]!r}"
            self.outcomes["answered"] += 1
            said: Any = decode(reply)
            self.replies[wordless(said)] += 1
            if isinstance(said, p.DescribeGroupReply):
                self.ether.seen = said

    # --- plausible requests -------------------------------------------------------------------------

    def request(self) -> p.Request:
        """Something that somebody might ask now."""
        state = self.ether.seen.state if self.ether.seen else ""
        chances: dict[Callable[[], p.Request], int] = {
            self._join: 60 if state == "PreparingRebalance" else 12,
            self._sync: 40 if state == "CompletingRebalance" else 15,
            self._heartbeat: 18,
            self._leave: 4,
            self._commit: 18,
            self._describe: 14,
            self._fetch: 2,
        }
        return self.random.choices(list(chances), list(chances.values()))[0]()

    def _who(self) -> tuple[str, str | None]:
        """Somebody's id and instance id, mostly matching."""
        seen, random = self.ether.seen, self.random
        others = [x for x in seen.members if x.group_instance_id != "driver" or random.random() < 0.02] if seen else []
        if others and random.random() < 0.85:
            member = random.choice(others)
            return member.member_id, member.group_instance_id if random.random() < 0.95 else "i0"
        if seen is not None and seen.pending_members and random.random() < 0.5:
            return random.choice(seen.pending_members), None
        return random.choice(["", "x-9", "c-run-3"]), random.choice([None, None, "i0", "i1"])

    def _generation(self) -> int:
        now = self.ether.seen.generation if self.ether.seen else 0
        return now + self.random.choice([0] * 12 + [-1, 1, -1_000])

    def _join(self) -> p.JoinGroup:
        random = self.random
        member_id, instance = self._who()
        if random.random() < 0.15:
            member_id, instance = "", random.choice([None, None, "i0", "i1"])
        if self.ether.seen and self.ether.seen.pending_members and random.random() < 0.4:
            member_id, instance = random.choice(self.ether.seen.pending_members), None
        topics = (TOPIC,) if random.random() < 0.8 else ()
        owned = self._partitions() if random.random() < 0.5 else ()
        said = encode_subscription(Subscription(topics, random.choice([None, b"[]", b"{}"]), owned, self._generation()))
        names = random.choice(
            [("cooperative-sticky", "range")] * 6 + [("range",), ("range", "cooperative-sticky"), ("x",)]
        )
        offered = tuple(p.Protocol(name, said if random.random() < 0.97 else b"\xff") for name in names)
        session_ms, rebalance_ms = random.choice([80, 150, 400]), random.choice([30, 60, 120])
        return p.JoinGroup(member_id, instance, "c", "h", session_ms, rebalance_ms, "consumer", offered, "why not")

    def _partitions(self) -> tuple[TopicPartition, ...]:
        numbers = self.random.sample(range(PARTITIONS + 1), self.random.randint(0, 3))
        return tuple(TopicPartition(TOPIC, number) for number in sorted(numbers))

    def _sync(self) -> p.SyncGroup:
        seen = self.ether.seen
        member_id, instance = self._who()
        plan: list[tuple[str, bytes]] = []
        if seen is not None and seen.leader and self.random.random() < 0.1:
            member_id, instance = seen.leader, None
            plan = [(x.member_id, encode_assignment(Assignment(self._partitions()))) for x in seen.members]
        name = self.random.choice([None, None, "cooperative-sticky", "range"])
        return p.SyncGroup(member_id, instance, self._generation(), "consumer", name, tuple(plan))

    def _heartbeat(self) -> p.Heartbeat:
        return p.Heartbeat(*self._who(), self._generation())

    def _leave(self) -> p.LeaveGroup:
        whos = [self._who() for _ in range(self.random.randint(1, 2))]
        return p.LeaveGroup(tuple(p.LeavingMember(member_id, instance, "enough") for member_id, instance in whos))

    def _commit(self) -> p.OffsetCommit:
        seen, random = self.ether.seen, self.random
        member_id, instance = self._who()
        if random.random() < 0.05:
            return p.OffsetCommit("", None, -1, self._positions(()))
        member = next((x for x in seen.members if x.member_id == member_id), None) if seen else None
        return p.OffsetCommit(member_id, instance, self._generation(), self._positions(member.owned if member else ()))

    def _positions(self, owned: tuple[tuple[TopicPartition, int], ...]) -> tuple[p.CommittedPosition, ...]:
        random = self.random
        known = random.sample(owned, min(len(owned), 2))
        made_up = [(tp, self._generation()) for tp in self._partitions()[:1]]
        return tuple(p.CommittedPosition(*tp, random.choice([7, -1, 2**62]), since) for tp, since in [*known, *made_up])

    def _describe(self) -> p.DescribeGroup:
        return p.DescribeGroup()

    def _fetch(self) -> p.OffsetFetch:
        return p.OffsetFetch(self._partitions())

    # --- damage -------------------------------------------------------------------------------------

    def _mutated(self, body: bytes) -> bytes:
        """Still JSON: one value is another, or gone, or one is there too many."""
        said = json.loads(body)
        fields = said[1] if isinstance(said, list) and len(said) > 1 else said
        if not isinstance(fields, dict) or not fields:
            return body
        name = self.random.choice(list(fields))
        match self.random.randrange(4):
            case 0:
                del fields[name]
            case 1:
                fields["more"] = self.random.choice(JUNK)
            case _:
                fields[name] = self.random.choice(JUNK)
        return json.dumps(said).encode()

    def _damaged(self, body: bytes) -> bytes:
        """A few bytes are others, gone, or doubled."""
        data = bytearray(body)
        for _ in range(self.random.randint(1, 3)):
            at = self.random.randrange(len(data) + 1)
            match self.random.randrange(4):
                case 0:
                    data[at : at + 1] = bytes([self.random.randrange(256)])
                case 1:
                    del data[at : at + self.random.randint(1, 9)]
                case 2:
                    data[at:at] = data[at : at + 40]
                case _:
                    del data[at:]
        return bytes(data)


def speaks_as_driver(request: p.Request) -> bool:
    """Whether the port has to refuse it: the driver's id is the first, and stays."""
    speakers = request.members if isinstance(request, p.LeaveGroup) else (request,)
    names = {getattr(x, name, None) for x in speakers for name in ("member_id", "group_instance_id")}
    return bool(names & {"driver", "driver-run-1"})


def wordless(reply: p.Reply) -> bytes:
    """A reply without its message, to which the port adds the story of a member that is gone."""
    return encode(reply if isinstance(reply, p.DescribeGroupReply) else structs.replace(reply, message=""))
