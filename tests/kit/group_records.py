"""A group as its records."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from sparkcohort.runtime.group import Group
from sparkcohort.runtime.group.records import GroupRecord


def replay(first: Group, records: Iterable[GroupRecord]) -> Group:
    """The group that the records made of the first one."""
    return reduce(lambda group, record: record.apply(group), records, first)
