"""Checks of requests before the group gets them (``runtime.group.validation`` has the rules), and the log lines about refusals.

Called with the coordinator's lock held.  A complaint about a member is logged once, a repeated refusal once a minute: a broken
member must not flood the log.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Collection, Hashable
from dataclasses import replace
from typing import Final

from sparkcohort.runtime.group import validation
from sparkcohort.runtime.group.state import Group
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.partitions import TopicPartition

log = logging.getLogger("sparkcohort.coordinator")

MOST_LOG_KEYS: Final = 1_000  # complaints and refusals whose last log line is remembered
AGAIN_MS: Final = 60_000
MOST_LEAVING: Final = 100
"""Members that may leave in one request though the group has fewer: some may have left already."""


class Admission:
    """The checks of one group; ``assignors`` are the names that it offers."""

    def __init__(self, group_id: str, assignors: Collection[str], rebalance_timeout_ms: int) -> None:
        self._group_id = group_id
        self._assignors = frozenset(assignors)
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._log_times: OrderedDict[Hashable, int] = OrderedDict()

    def admit(self, request: p.Request, group: Group, topics: Collection[str], now_ms: int) -> p.Request:
        """The request, corrected where a claim is not believed.  Raises validation.Refusal, which is logged."""
        try:
            if isinstance(request, p.JoinGroup):
                return self._join(request, group, topics)
            if isinstance(request, p.LeaveGroup):
                _check_leave(request, group)
            elif isinstance(request, p.OffsetCommit):
                _check_commit(request)
        except validation.Refusal as refusal:
            if self._is_new(_member_words(request), type(request).__name__, refusal.error, now_ms=now_ms):
                log.warning(
                    "group %s: refused %s of %s: %s",
                    self._group_id,
                    type(request).__name__,
                    _member_words(request),
                    refusal,
                )
            raise
        return request

    def _join(self, request: p.JoinGroup, group: Group, topics: Collection[str]) -> p.JoinGroup:
        if not request.member_id and len(group.pending) >= validation.MOST_MEMBERS:
            raise validation.Refusal(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"{len(group.pending)} members are about to join already, which is the most",
            )
        own = {*group.owned.get(request.member_id, ()), *group.pending_assignments.get(request.member_id, ())}
        books = validation.Books(topics, self._assignors, group.generation, own, self._rebalance_timeout_ms)
        join, complaints = validation.check_join(request, books)
        self._complain(_member_words(request), complaints)
        return join

    def describe_member(self, join: p.JoinGroup, member_id: str, addresses: Collection[str]) -> validation.MemberInfo:
        """The info of an admitted member; ``addresses`` are those of the other members."""
        info, complaints = validation.read_member_info(join, member_id)
        if info.address in addresses:
            complaints["address"] = f"another member has its address, {info.address}"
            info = replace(info, address="")
        self._complain(_member_words(join), complaints)
        return info

    def _complain(self, member: str, complaints: validation.Complaints) -> None:
        for topic, complaint in complaints.items():
            if self._is_new(member, topic):
                log.warning("group %s: %s is not believed: %s", self._group_id, member, complaint)

    def is_worth_a_line(self, refused: p.Refused, now_ms: int) -> bool:
        """Whether a refusal is logged; not if one like it was within the last minute."""
        return self._is_new(refused.request, refused.error, refused.member_id, now_ms=now_ms)

    def _is_new(self, *key: Hashable, now_ms: int = 0) -> bool:
        last = self._log_times.get(key)
        if last is not None and now_ms - last < AGAIN_MS:
            return False
        self._log_times[key] = now_ms
        self._log_times.move_to_end(key)
        if len(self._log_times) > MOST_LOG_KEYS:
            self._log_times.popitem(last=False)
        return True


def _check_leave(request: p.LeaveGroup, group: Group) -> None:
    most = max(len(group.members) + len(group.pending), MOST_LEAVING)
    if len(request.members) > most:
        raise validation.Refusal(
            ErrorCode.INVALID_REQUEST, f"{len(request.members)} members are to leave: more than there are"
        )


def _check_commit(request: p.OffsetCommit) -> None:
    for position in request.offsets:
        if position.offset < 0 or position.partition < 0:
            place = f"{validation.log_text(position.topic)}-{position.partition}"
            raise validation.Refusal(ErrorCode.INVALID_REQUEST, f"offset {position.offset} of {place} is not valid")


def _member_words(request: p.Request) -> str:
    """The member by the name that it gives, printable for a log."""
    if isinstance(request, p.JoinGroup):
        name = request.group_instance_id or request.client_id or request.member_id
        return f"{validation.log_text(name) or 'a member'} on {validation.log_text(request.client_host) or '?'}"
    return validation.log_text(getattr(request, "member_id", "")) or "a member"


def refused(request: p.Request, refusal: validation.Refusal) -> p.Reply:
    """The reply to a refused request."""
    error, message = refusal.error, str(refusal)
    if isinstance(request, p.OffsetCommit):
        every = tuple((TopicPartition(each.topic, each.partition), error) for each in request.offsets)
        return p.OffsetCommitReply(every, message)
    if isinstance(request, p.LeaveGroup):
        return p.LeaveGroupReply(error, message=message)
    return p.JoinGroupReply(error, member_id=getattr(request, "member_id", ""), message=message)
