"""Checks what a member states before the group, its leader or an assignor reads it.

The group's own state says which partitions a member has, so a claim of any other is dropped, whatever generation it
states: no member can hold back or take over another's partition.  A statement that can't be true is dropped and logged.
A member whose join can't be read at all, or whose name can't be printed, is refused and removed.  So one member that
sends invalid requests costs the others nothing.

>>> from sparkcohort.runtime.protocol.consumer_protocol import Subscription, encode_subscription
>>> metadata = encode_subscription(Subscription(("t", "gone"), owned=(TopicPartition("t", 0), TopicPartition("t", -9))))
>>> request = p.JoinGroup("m", None, "c", "h", 10_000, 2**62, "consumer", (p.Protocol("sticky", metadata),))
>>> books = Books({"t"}, {"sticky"}, 7, {TopicPartition("t", 0)}, 60_000)
>>> join, complaints = check_join(request, books)
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
"""Bytes of metadata; longer metadata is encoded again, which drops bytes that no field accounts for."""
_MOST_SHOWN: Final = 3

Complaints: TypeAlias = dict[str, str]
"""What a member stated that can't be true, in words, by its subject."""


@dataclass(frozen=True, slots=True)
class Books:
    """The group's own knowledge of a member that joins: ``claimable`` are the partitions that it owns or that are pending for it."""

    topics: Collection[str]
    assignors: Collection[str]
    generation: int
    claimable: Collection[TopicPartition]
    rebalance_timeout_ms: int


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """What an agent states of itself when it joins."""

    member_id: str
    executor_id: str
    host: str
    cores: int
    pid: int
    address: str
    rack: str | None = None

    @property
    def client_id(self) -> str:
        """The member's name everywhere, Kafka's ``client.id``."""
        return f"executor-{self.executor_id}"


class Refusal(Exception):
    """A request that is refused before the group gets it."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


def log_text(words: str, most: int = MOST_NAME) -> str:
    """A member's text as a log may have it: on one line, and of bounded length."""
    return "".join(character if character.isprintable() else "?" for character in words[:most])


def check_join(request: p.JoinGroup, books: Books) -> tuple[p.JoinGroup, Complaints]:
    """A join as the group takes it, and what was wrong with it.  Raises Refusal."""
    for part, name in (
        ("client id", request.client_id),
        ("host", request.client_host),
        ("instance id", request.group_instance_id),
    ):
        if name is not None and log_text(name) != name:
            raise Refusal(
                ErrorCode.INVALID_REQUEST,
                f"its {part} has more than {MOST_NAME} characters, or one that can't be printed",
            )
    complaints: dict[str, str] = {}
    offered: dict[str, bytes] = {}
    written: dict[bytes, bytes] = {}
    for name, metadata in request.protocols:
        if name in books.assignors and name not in offered:
            if metadata not in written:
                written[metadata] = _metadata(metadata, books, complaints)
            offered[name] = written[metadata]
    protocols = tuple(map(p.Protocol._make, offered.items())) or tuple(
        p.Protocol(log_text(name), b"") for name, _ in request.protocols[:1]
    )
    timeout_ms = min(request.rebalance_timeout_ms, books.rebalance_timeout_ms)
    join = p.changed(request, protocols=protocols, rebalance_timeout_ms=timeout_ms, reason=log_text(request.reason))
    return join if join != request else request, complaints


def _metadata(metadata: bytes, books: Books, complaints: Complaints) -> bytes:
    """A subscription without what can't be true; the same bytes where all of it can."""
    try:
        subscription = decode_subscription(metadata)
    except MalformedConsumerProtocol as error:
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from None
    believed = _corrected(subscription, books, complaints)
    return metadata if believed == subscription and len(metadata) <= _USUAL else encode_subscription(believed)


def _corrected(old: Subscription, books: Books, complaints: Complaints) -> Subscription:
    topics, owned, generation, rack, user_data = old.topics, old.owned, old.generation, old.rack, old.user_data
    if len(topics) > len(books.topics) or not all(topic in books.topics for topic in topics):
        # No complaint: one may have been deleted just now.
        topics = tuple(sorted({topic for topic in topics if topic in books.topics}))
    if not all(tp in books.claimable for tp in owned):
        strange = sorted({tp for tp in owned if tp not in books.claimable})
        owned = tuple(tp for tp in owned if tp in books.claimable)
        names = ", ".join(f"{log_text(topic)}-{number}" for topic, number in strange[:_MOST_SHOWN])
        more = f" and {len(strange) - _MOST_SHOWN} more" if len(strange) > _MOST_SHOWN else ""
        partitions = "partition" if len(strange) == 1 else "partitions"
        complaints["claims"] = f"it claims {len(strange)} {partitions} that it does not have: {names}{more}"
    if len(owned) > len(books.claimable):
        owned = tuple(dict.fromkeys(owned))
    if not p.NO_GENERATION <= generation <= books.generation:
        complaints["generation"] = f"it claims generation {generation}; the group is in generation {books.generation}"
        generation = p.NO_GENERATION
    if rack is not None and log_text(rack) != rack:
        complaints["rack"] = f"its rack has more than {MOST_NAME} characters, or one that can't be printed"
        rack = None
    if user_data is not None and len(user_data) > MOST_USER_DATA:
        complaints["user data"] = (
            f"what it says of itself (user data) has {len(user_data)} bytes, {MOST_USER_DATA} are allowed"
        )
        user_data = None
    return Subscription(topics, user_data, owned, generation, rack)


def removal(join: p.JoinGroup, refusal: Refusal) -> p.LeaveGroup:
    """The request that removes a member whose join was refused: it can't rejoin, so the group must not wait for it.

    The member doesn't leave by itself: this is Kafka's removal of members by an administrator (KIP-345).
    """
    reason = f"its join was refused: {refusal}"
    return p.LeaveGroup((p.LeavingMember(join.member_id, join.group_instance_id, reason),))


def last_join(member: GroupMember) -> p.JoinGroup:
    """A member's last join, as far as the group keeps it."""
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


def read_member_info(join: p.JoinGroup, member_id: str) -> tuple[MemberInfo, Complaints]:
    """What an admitted member states of itself, as far as it can be true, and what can't."""
    complaints: dict[str, str] = {}
    subscription = decode_subscription(join.protocols[0].metadata)
    try:
        values = json.loads(subscription.user_data or b"{}")
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        values = {}
        complaints["user data"] = "what it says of itself (user data) is no JSON object"
    info = MemberInfo(
        member_id=member_id,
        executor_id=_text(values, "executor", "?", complaints),
        host=_text(values, "host", join.client_host, complaints),
        cores=_number(values, "cores", 1, MOST_CORES, complaints),
        pid=_number(values, "pid", 0, 2**31 - 1, complaints),
        address=_text(values, "address", join.client_id, complaints),
        rack=subscription.rack,
    )
    return info, complaints


def _text(values: Mapping[str, Any], key: str, default: str, complaints: Complaints) -> str:
    value = values.get(key, default)
    if isinstance(value, str) and log_text(value) == value:
        return value
    complaints[key] = f"its {key} is {value!r:.40}, not a text of at most {MOST_NAME} characters"
    return default


def _number(values: Mapping[str, Any], key: str, least: int, most: int, complaints: Complaints) -> int:
    value = values.get(key, least)
    if type(value) is int and least <= value <= most:
        return value
    complaints[key] = f"its {key} is {value!r:.40}, not a number from {least} to {most}: taken for {least}"
    return least
