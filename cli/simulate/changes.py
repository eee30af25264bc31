"""The changes of a case for ``cohort simulate``: members that join or leave, topics of another size.

>>> from sparkcohort.cli.simulate.case import parse
>>> case = parse('{"topics": {"orders": 2}, "members": {"m1": {"topics": ["orders"]}}}')
>>> change_members(case, ["+1", "-m1"]).members["new-1"].topics
('orders',)
>>> change_partitions(case, ["orders=4"]).topics
{'orders': 4}
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import count, islice
from typing import Final

from sparkcohort.assignors import MemberSubscription
from sparkcohort.cli.simulate.case import MOST_MEMBERS, Case, CaseError, check_size, nearest, quoted
from sparkcohort.runtime.text import counted

NEW: Final = "new-"
"""What the names of added members begin with."""


def change_members(case: Case, changes: Iterable[str]) -> Case:
    """Carry out ``+2`` (two more), ``+2@b`` (in rack b), ``+executor-9`` (of that id) and ``-executor-3``, in this order.

    A member is named by its id, or by its client id or instance id if only one has it.  New members get the subscription
    that most others have.  Raises CaseError.
    """
    template = _template(case)
    for change in changes:
        if match := re.fullmatch(r"\+([0-9]+)(?:@(.+))?", change):
            case = _add(case, _new_names(case, match[1]), match[2], template)
        elif re.fullmatch(r"\+[0-9]+\s*,.*", change):
            raise CaseError(f"--members {quoted(change)}: one change at a time, the option may be repeated")
        elif match := re.fullmatch(r"\+([^@]+)(?:@(.+))?", change):
            case = _add(case, [match[1]], match[2], template)
        elif re.fullmatch(r"-.+", change, re.DOTALL):
            case = _remove(case, change[1:])
        else:
            raise CaseError(
                f"--members {quoted(change)}: expected +2 (two more), +2@rack (in that rack), +name (one called so) or "
                "-name (without that one)"
            )
    return case


def change_partitions(case: Case, changes: Iterable[str]) -> Case:
    """Carry out ``orders=48``.  If a topic grows, the racks of its new partitions are unknown.  Raises CaseError."""
    for change in changes:
        topic, equals, size = change.rpartition("=")
        if not equals or not topic or not re.fullmatch("[0-9]{1,9}", size):
            raise CaseError(f"--partitions {quoted(change)}: expected TOPIC=NUMBER, like orders=48")
        if topic not in case.topics:
            raise CaseError(f"--partitions: there is no topic {quoted(topic)}{nearest(topic, case.topics)}")
        topics = {**case.topics, topic: int(size)}
        check_size(topics)
        racks = dict(case.racks)
        if topic in racks:
            known_racks = tuple(racks[topic][: int(size)])
            racks[topic] = known_racks + ((),) * (int(size) - len(known_racks))
        case = replace(case, topics=topics, racks=racks)
    return case


def _template(case: Case) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The subscription that most members have, and a note if they differ."""
    kinds = Counter(tuple(sorted(member.topics)) for member in case.members.values() if member.topics)
    if not kinds:
        return tuple(sorted(case.topics)), ()
    topics = min(kinds, key=lambda kind: (-kinds[kind], kind))
    note = (
        f"members want different topics; new ones want what most do: {counted(len(topics), 'topic')}"
        if len(kinds) > 1
        else ""
    )
    return topics, (note,) if note else ()


def _new_names(case: Case, digits: str) -> list[str]:
    number = int(digits[:20])  # a longer number is too large anyway
    if number < 1 or len(case.members) + number > MOST_MEMBERS:
        raise CaseError(
            f"--members {quoted(f'+{digits}')}: from 1 to {MOST_MEMBERS - len(case.members):,} members can be added"
        )
    free = (name for place in count(1) if (name := f"{NEW}{place}") not in case.members)
    return list(islice(free, number))


def _add(case: Case, names: list[str], rack: str | None, template: tuple[tuple[str, ...], tuple[str, ...]]) -> Case:
    topics, notes = template
    for name in names:
        if name in case.members:
            raise CaseError(f"--members +{name}: there is a member {quoted(name)} already")
    members = {**case.members, **{name: MemberSubscription(topics, rack=rack) for name in names}}
    return replace(case, members=members, notes=tuple(dict.fromkeys((*case.notes, *notes))))


def _remove(case: Case, name: str) -> Case:
    matches = [name] if name in case.members else _members_called(case, name)
    if not matches:
        choices = {*case.members, *case.names.values()}
        raise CaseError(f"--members: there is no member {quoted(name)}{nearest(name, choices)}")
    if len(matches) > 1:
        raise CaseError(
            f"--members: {len(matches)} members are called {quoted(name)}: give the id of one, "
            f"{', '.join(map(quoted, matches[:3]))}{' …' if len(matches) > 3 else ''}"
        )
    return replace(case, members={member: each for member, each in case.members.items() if member != matches[0]})


def _members_called(case: Case, name: str) -> list[str]:
    return [
        member
        for member, subscription in sorted(case.members.items())
        if name == case.names.get(member) or name == subscription.instance_id
    ]
