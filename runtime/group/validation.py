"""Checks what a member states before the group, its leader or an assignor reads it.

The group's own state says which partitions a member has: what a member claims never adds to that, whatever generation it
states.  What it states of its process is dropped and logged if it can't be true.  A member whose join can't be read at all, or
whose name can't be printed, is refused and removed.  So one member that sends invalid requests costs the others nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from msgspec import Struct

from sparkcohort.runtime.group.state import GroupMember
from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.consumer_protocol import MalformedConsumerProtocol, decode_subscription
from sparkcohort.runtime.protocol.error_codes import ErrorCode

MOST_MEMBERS: Final = 10_000
"""Members of a group, the driver's own apart (Kafka: group.max.size)."""
MOST_NAME: Final = calls.MAX_NAME


class MemberInfo(Struct, frozen=True):
    """A member that is an agent, as the coordinator knows it."""

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


def check_join(request: p.JoinGroup, assignors: Collection[str], rebalance_timeout_ms: int) -> p.JoinGroup:
    """A join as the group takes it: with the group's assignors and within its time-out.  Raises Refusal."""
    for part, name in (
        ("client id", request.client_id),
        ("host", request.client_host),
        ("instance id", request.group_instance_id),
    ):
        if log_text(name) != name:
            problem = f"its {part} has more than {MOST_NAME} characters, or one that can't be printed"
            raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    offered = {protocol.name: protocol for protocol in reversed(request.protocols) if protocol.name in assignors}
    for metadata in {protocol.metadata for protocol in offered.values()}:
        try:
            decode_subscription(metadata)
        except MalformedConsumerProtocol as error:
            raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from None
    # Without a known assignor the group refuses it, by this name.
    unknown = tuple(p.Protocol(log_text(name), b"") for name, _ in request.protocols[:1])
    return p.changed(
        request,
        protocols=tuple(reversed(offered.values())) or unknown,
        rebalance_timeout_ms=min(request.rebalance_timeout_ms, rebalance_timeout_ms),
        reason=log_text(request.reason),
    )


def removal(join: p.JoinGroup, refusal: Refusal) -> p.LeaveGroup:
    """The request that removes a member whose join was refused: it can't rejoin, so the group must not wait for it.

    The member doesn't leave by itself: this is Kafka's removal of members by an administrator (KIP-345).
    """
    reason = f"its join was refused: {refusal}"
    return p.LeaveGroup((p.LeavingMember(join.member_id, join.group_instance_id, reason),))


def read_member_info(member: GroupMember) -> tuple[MemberInfo, str]:
    """What a member states of itself, and what is wrong with it: then nothing of it counts."""
    subscription = decode_subscription(member.protocols[0].metadata)
    complaint = ""
    try:
        stated = calls.decode(subscription.user_data or b"{}", calls.ProcessInfo)
    except calls.CallError as error:
        stated, complaint = calls.ProcessInfo(), f"its user data can't be true: {error}"[:MOST_NAME]
    names = (stated.executor, stated.host, stated.address, subscription.rack or "")
    if any(log_text(name) != name for name in names):
        return MemberInfo(member.member_id, "?", member.client_host, 1, 0, ""), "a name of it can't be printed"
    host = stated.host or member.client_host
    info = MemberInfo(
        member.member_id, stated.executor, host, stated.cores, stated.pid, stated.address, subscription.rack
    )
    return info, complaint
