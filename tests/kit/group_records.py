"""A group as all its records, from its creation on."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from sparkcohort.runtime.group import Group
from sparkcohort.runtime.group.records import GroupCreated, Record
from sparkcohort.runtime.group.replay import apply, created


def opening(group: Group) -> list[Record]:
    """The records of a new group."""
    return [GroupCreated(group.config, group.embedded)]


def replay(records: Iterable[Record]) -> Group:
    """The group that the records made."""
    first, *rest = records
    assert isinstance(first, GroupCreated)
    return reduce(apply, rest, created(first))
