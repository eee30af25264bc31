"""Checks what a member states before the group, its leader or an assignor reads it.

The group's own state says which partitions a member has: what a member claims never adds to that, whatever generation it
states.  A join in which a name can't be printed is refused; the bounds of all else are the messages'.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.text import printable

MOST_MEMBERS: Final = 10_000
"""Members of a group, the driver's own apart (Kafka: group.max.size)."""


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


def check_join(request: p.JoinGroup, assignors: Collection[str], rebalance_timeout_ms: int) -> p.JoinGroup:
    """A join as the group takes it: with the group's assignors and within its time-out.  Raises Refusal."""
    process = request.subscription.process
    for part, name in (
        ("client id", request.client_id),
        ("host", request.client_host),
        ("instance id", request.group_instance_id),
        ("rack", request.subscription.rack),
        ("executor id", process.executor),
        ("process's host", process.host),
        ("address", process.address),
    ):
        if printable(name, p.MAX_NAME) != name:
            problem = f"its {part} has more than {p.MAX_NAME} characters, or one that can't be printed"
            raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    offered = tuple(dict.fromkeys(name for name in request.protocols if name in assignors))
    return replace(
        request,
        protocols=offered
        or tuple(map(printable, request.protocols[:1])),  # an unknown one, which the group refuses by name
        rebalance_timeout_ms=min(request.rebalance_timeout_ms, rebalance_timeout_ms),
        reason=printable(request.reason, p.MAX_NAME),
    )


def member_info(member: p.JoinGroup) -> MemberInfo:
    """A member that has joined, by what it states of itself."""
    subscription, process = member.subscription, member.subscription.process
    return MemberInfo(
        member.member_id,
        process.executor,
        process.host or member.client_host,
        process.cores,
        process.pid,
        process.address,
        subscription.rack or None,
    )
