"""Why a rebalance takes place, as a value: what caused it, whom it is about, and the words and the metric label of that.

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
"""What is kept of a reason that a member gives (KIP-800)."""


class Cause(Enum):
    """What starts a rebalance: the metric label under which it is counted, and its words.

    ``{members}`` are all whom the reason is about, ``{first}`` is the first of them and how many there are besides.
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
    FOLLOW_UP = "follow_up", "{members} rejoined"  # it revoked what it had to: a cooperative rebalance's second round
    SYNCS_EXPIRED = "sync_expired", "{first} did not sync"
    TOPICS_CHANGED = "topics_changed", "topics or partitions changed"
    SUBSCRIPTION_CHANGED = "topics_changed", "{members} rejoined"
    DELAY_OVER = "delay_over", "the grace period of {members} is over"
    BACK_OFF_OVER = "delay_over", "the back-off of revoking rounds is over"
    LOAD_IMBALANCE = "load_imbalance", "load"
    ASSIGNOR_RETRY = "assignor_retry", "the assignor failed and is asked again"
    COORDINATOR_RESTARTED = "other", "the coordinator was restarted"
    REQUESTED = "other", ""  # who asks for it says why

    label: str
    words: str

    def __new__(cls, label: str, words: str) -> Self:
        """``label`` is one of few, ``words`` are for people; the value, which a journal keeps, is both."""
        cause = object.__new__(cls)
        cause._value_ = f"{label}: {words}"
        cause.label, cause.words = label, words
        return cause


LABELS: Final = tuple(dict.fromkeys(cause.label for cause in Cause))
"""A label of a metric has to be bounded; the words that go with it are not."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one rebalance takes place.

    ``members`` are those that it is about, ``instance`` is the slot of a static member, ``partitions`` how many are
    concerned; ``said`` follows the words after a colon: what a member gave as its reason (KIP-800), or a finding.
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
    """A rebalance that somebody asks for in words of his own (KIP-568)."""
    return Reason(Cause.REQUESTED, said=words)


NO_REASON: Final = requested("")
