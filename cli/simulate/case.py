"""The input of ``cohort simulate``: a group's topics, members with their partitions, racks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkcohort.assignors import MemberSubscription, Racks


class CaseError(ValueError):
    """A fault in a change of a case, or in its assignor: one line that names the option and the remedy."""


@dataclass(frozen=True, slots=True)
class Case:
    """A group before a rebalance; ``assignor`` is the group's, "" while it has no member."""

    topics: Mapping[str, int]
    members: Mapping[str, MemberSubscription]
    racks: Racks = field(default_factory=dict)
    assignor: str = ""
    notes: tuple[str, ...] = ()  # lines on what differs from the group
