"""The door of a group: what a member says is looked at here before the group, its leader or an assignor hears of it.

The group's own books say which partitions a member has, so a claim beyond them is no claim, whatever generation it
states: nobody can hold back or take over what somebody else has.  What can't be true is dropped, and told; a member
that can't be read at all, or goes by a name that is none, is refused, and is no member any more.  So one member that
talks nonsense costs the others nothing.

>>> from sparkcohort.runtime.protocol.consumer_protocol import Subscription, encode_subscription
>>> said = encode_subscription(Subscription(("t", "gone"), owned=(TopicPartition("t", 0), TopicPartition("t", -9))))
>>> asked = p.JoinGroup("m", None, "c", "h", 10_000, 2**62, "consumer", (p.Protocol("sticky", said),))
>>> books = Books({"t"}, {"sticky"}, 7, {TopicPartition("t", 0)}, 60_000)
>>> join, complaints = checked(asked, books)
>>> decode_subscription(join.protocols[0].metadata).topics, join.rebalance_timeout_ms, complaints
(('t',), 60000, {'claims': 'it claims 1 partition that it does not have: t--9'})
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from sparkcohort.runtime.group.state import GroupMember
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.consumer_protocol import (
    MalformedConsumerProtocol,
    Subscription,
    decode_subscription,
    encode_subscription,
)
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.partitions import TopicPartition

MOST_MEMBERS: Final = 10_000
"""Members of a group, the driver's own apart, and likewise ids that were issued and not used (Kafka: group.max.size)."""
MOST_CORES: Final = 1_024
"""Tasks that one executor runs at once: for each a batch may get a slot."""
MOST_NAME: Final = 255
MOST_USER_DATA: Final = 1 << 12
_USUAL: Final = 1 << 16
"""Bytes of metadata; what is longer is written anew, lest something ride along that nobody reads."""
_SHOWN: Final = 3

Complaints: TypeAlias = dict[str, str]
"""What a member said that can't be, in words, by what it is about."""


@dataclass(frozen=True, slots=True)
class Books:
    """What the group knows by itself of who joins: ``held`` is what that member has, or is promised."""

    topics: Collection[str]
    assignors: Collection[str]
    generation: int
    held: Collection[TopicPartition]
    rebalance_timeout_ms: int


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """What an agent said of itself when it joined."""

    member_id: str
    executor_id: str
    host: str
    cores: int
    pid: int
    address: str
    rack: str | None = None

    @property
    def client_id(self) -> str:
        """How the member is named, wherever it is: in Kafka's words its client's id."""
        return f"executor-{self.executor_id}"


class Refusal(Exception):
    """A request that goes no further than the door."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


def plain(words: str, most: int = MOST_NAME) -> str:
    """Words of a stranger as they may stand in a log: on one line, and not too many."""
    return "".join(character if character.isprintable() else "?" for character in words[:most])


def checked(asked: p.JoinGroup, books: Books) -> tuple[p.JoinGroup, Complaints]:
    """A join as the group may hear it, and what was wrong with it.  Raises Refusal."""
    for what, name in (
        ("client id", asked.client_id),
        ("host", asked.client_host),
        ("instance id", asked.group_instance_id),
    ):
        if name is not None and plain(name) != name:
            raise Refusal(
                ErrorCode.INVALID_REQUEST,
                f"its {what} has more than {MOST_NAME} characters, or one that can't be printed",
            )
    complaints: dict[str, str] = {}
    offered: dict[str, bytes] = {}
    written: dict[bytes, bytes] = {}
    for name, metadata in asked.protocols:
        if name in books.assignors and name not in offered:
            if metadata not in written:
                written[metadata] = _metadata(metadata, books, complaints)
            offered[name] = written[metadata]
    protocols = tuple(map(p.Protocol._make, offered.items())) or tuple(
        p.Protocol(plain(name), b"") for name, _ in asked.protocols[:1]
    )
    timeout_ms = min(asked.rebalance_timeout_ms, books.rebalance_timeout_ms)
    join = p.changed(asked, protocols=protocols, rebalance_timeout_ms=timeout_ms, reason=plain(asked.reason))
    return join if join != asked else asked, complaints


def _metadata(metadata: bytes, books: Books, complaints: Complaints) -> bytes:
    """A subscription with what is true of it; the same bytes where all of it is."""
    try:
        said = decode_subscription(metadata)
    except MalformedConsumerProtocol as error:
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from None
    heard = _believed(said, books, complaints)
    return metadata if heard == said and len(metadata) <= _USUAL else encode_subscription(heard)


def _believed(said: Subscription, books: Books, complaints: Complaints) -> Subscription:
    topics, owned, generation, rack, user_data = said.topics, said.owned, said.generation, said.rack, said.user_data
    if len(topics) > len(books.topics) or not all(topic in books.topics for topic in topics):
        # No complaint: one may have been deleted just now.
        topics = tuple(sorted({topic for topic in topics if topic in books.topics}))
    if not all(tp in books.held for tp in owned):
        strange = sorted({tp for tp in owned if tp not in books.held})
        owned = tuple(tp for tp in owned if tp in books.held)
        names = ", ".join(f"{plain(topic)}-{number}" for topic, number in strange[:_SHOWN])
        more = f" and {len(strange) - _SHOWN} more" if len(strange) > _SHOWN else ""
        partitions = "partition" if len(strange) == 1 else "partitions"
        complaints["claims"] = f"it claims {len(strange)} {partitions} that it does not have: {names}{more}"
    if len(owned) > len(books.held):
        owned = tuple(dict.fromkeys(owned))
    if not p.NO_GENERATION <= generation <= books.generation:
        complaints["generation"] = f"it claims generation {generation}; the group is in generation {books.generation}"
        generation = p.NO_GENERATION
    if rack is not None and plain(rack) != rack:
        complaints["rack"] = f"its rack has more than {MOST_NAME} characters, or one that can't be printed"
        rack = None
    if user_data is not None and len(user_data) > MOST_USER_DATA:
        complaints["user data"] = (
            f"what it says of itself (user data) has {len(user_data)} bytes, {MOST_USER_DATA} are allowed"
        )
        user_data = None
    return Subscription(topics, user_data, owned, generation, rack)


def removal(join: p.JoinGroup, refusal: Refusal) -> p.LeaveGroup:
    """Takes out a member whose join was refused here: it can't come back, so nobody waits for it.

    It doesn't leave by itself; this is Kafka's removal of members by somebody else (KIP-345).
    """
    why = f"its join was refused: {refusal}"
    return p.LeaveGroup((p.LeavingMember(join.member_id, join.group_instance_id, why),))


def join_of(member: GroupMember) -> p.JoinGroup:
    """What a member said when it last joined, as far as the group keeps it."""
    return p.JoinGroup(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        member.session_timeout_ms,
        member.rebalance_timeout_ms,
        "consumer",
        member.protocols,
    )


def about(join: p.JoinGroup, member_id: str) -> tuple[MemberInfo, Complaints]:
    """What a member that was let in says of itself, as far as it can be believed, and what can't."""
    complaints: dict[str, str] = {}
    subscription = decode_subscription(join.protocols[0].metadata)
    try:
        said = json.loads(subscription.user_data or b"{}")
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        said = {}
        complaints["user data"] = "what it says of itself (user data) is no JSON object"
    info = MemberInfo(
        member_id=member_id,
        executor_id=_text(said, "executor", "?", complaints),
        host=_text(said, "host", join.client_host, complaints),
        cores=_number(said, "cores", 1, MOST_CORES, complaints),
        pid=_number(said, "pid", 0, 2**31 - 1, complaints),
        address=_text(said, "address", join.client_id, complaints),
        rack=subscription.rack,
    )
    return info, complaints


def _text(said: Mapping[str, Any], key: str, default: str, complaints: Complaints) -> str:
    value = said.get(key, default)
    if isinstance(value, str) and plain(value) == value:
        return value
    complaints[key] = f"its {key} is {value!r:.40}, not a text of at most {MOST_NAME} characters"
    return default


def _number(said: Mapping[str, Any], key: str, least: int, most: int, complaints: Complaints) -> int:
    value = said.get(key, least)
    if type(value) is int and least <= value <= most:
        return value
    complaints[key] = f"its {key} is {value!r:.40}, not a number from {least} to {most}: taken for {least}"
    return least
