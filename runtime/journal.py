"""The journal: the records of every step, from which the group can be rebuilt and a member's story be told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkcohort.runtime import records as r
from sparkcohort.runtime.applying import apply, created

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sparkcohort.runtime.records import Record
    from sparkcohort.runtime.state import Group


def opening(group: Group) -> tuple[Record, ...]:
    """The records that a new group's journal begins with."""
    return (r.GroupCreated(group.config, group.embedded),)


def replay(records: Iterable[Record]) -> Group:
    """The group that the records made; ValueError unless they begin with its creation."""
    group: Group | None = None
    for record in records:
        match group, record:
            case None, r.GroupCreated():
                group = created(record)
            case None, _:
                break
            case _:
                group = apply(group, record)
    if group is None:
        raise ValueError("a journal begins with the creation of its group")
    return group
