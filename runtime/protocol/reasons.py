"""The reason of a rebalance as a value: its cause and members, with words for people and a metric label.

>>> joined = Reason(Cause.MEMBER_JOINED, ("b-2",))
>>> str(joined), joined.label
('b-2 joined', 'member_joined')
>>> str(Reason(Cause.FOLLOW_UP, ("b-2",), said="gave up 2 partitions"))
'b-2 rejoined: gave up 2 partitions'
>>> str(Reason(Cause.SESSIONS_EXPIRED, ("a-1", "b-2", "c-3")))
'a-1 and 2 more expired'
>>> str(requested("an operator asked")), requested("an operator asked").label
('an operator asked', 'other')
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Self

REASON_LENGTH: Final = 255
"""Characters kept of the reason in a member's JoinGroup or LeaveGroup (KIP-800)."""


class Cause(Enum):
    """The cause of a rebalance: the metric label that counts it, and its words.

    ``{members}`` are all members of the reason, ``{first}`` is the first of them and the number of the others.
    """

    MEMBER_JOINED = "member_joined", "{members} joined"
    MEMBERS_LEFT = "member_left", "{members} left"
    GROUP_FULL = "member_left", "a member was one too many"
    SESSIONS_EXPIRED = "member_expired", "{first} expired"
    MEMBER_REPLACED = "member_replaced", "{members} took over {instance}"
    MEMBER_REPLACED_WHILE_REVOKING = "member_replaced", "{members} took over {instance}, {partitions} less"
    MEMBER_REJOINED = "member_rejoined", "{members} rejoined"
    METADATA_CHANGED = "member_rejoined", "{members} changed its metadata"
    LEADER_REJOINED = "leader_rejoined", "{members} leads and rejoined"
    FOLLOW_UP = (
        "follow_up",
        "{members} rejoined",
    )  # after revocation: the second round of a cooperative rebalance (KIP-429)
    SYNCS_EXPIRED = "sync_expired", "{first} did not sync"
    TOPICS_CHANGED = "topics_changed", "topics or partitions changed"
    SUBSCRIPTION_CHANGED = "topics_changed", "{members} rejoined"
    DELAY_OVER = "delay_over", "the grace period of {members} is over"
    BACK_OFF_OVER = "delay_over", "the back-off of revoking rounds is over"
    LOAD_IMBALANCE = "load_imbalance", "load"
    ASSIGNOR_RETRY = "assignor_retry", "the assignor failed and is asked again"
    COORDINATOR_RESTARTED = "other", "the coordinator was restarted"
    REQUESTED = "other", ""  # the words come with the request (KIP-568)

    label: str
    words: str

    def __new__(cls, label: str, words: str) -> Self:
        """``label`` is one of few, ``words`` are for people; the value, which the journal stores, has both."""
        cause = object.__new__(cls)
        cause._value_ = f"{label}: {words}"
        cause.label, cause.words = label, words
        return cause


LABELS: Final = tuple(dict.fromkeys(cause.label for cause in Cause))
"""The bounded set of metric labels; the words are unbounded."""


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason of one rebalance.

    ``members`` are the member ids, ``instance`` is the group.instance.id of a static member, ``partitions`` a number of
    partitions.  ``said`` follows the words after a colon: a member's own reason (KIP-800), or a finding.
    """

    cause: Cause
    members: tuple[str, ...] = ()
    instance: str = ""
    partitions: int = 0
    said: str = ""

    @property
    def label(self) -> str:
        """One of ``LABELS``."""
        return self.cause.label

    def __str__(self) -> str:
        """The words for people."""
        more = f" and {len(self.members) - 1} more" if len(self.members) > 1 else ""
        words = self.cause.words.format(
            members=", ".join(self.members),
            first=f"{self.members[0]}{more}" if self.members else "",
            instance=self.instance,
            partitions=f"{self.partitions} partition{'s' * (self.partitions != 1)}",
        )
        return ": ".join(part for part in (words, self.said) if part)


def requested(words: str) -> Reason:
    """A rebalance that was requested, with the words of the request (KIP-568)."""
    return Reason(Cause.REQUESTED, said=words)


NO_REASON: Final = requested("")
