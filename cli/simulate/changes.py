"""The changes of a case for ``cohort simulate``: members that join or leave, topics of another size.

>>> case = Case({"orders": 2}, {"m1": MemberSubscription(("orders",))})
>>> change_members(case, ["+1", "-m1"]).members["new-1"].topics
('orders',)
>>> change_partitions(case, ["orders=4"]).topics
{'orders': 4}
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import count, islice
from typing import Final

from sparkcohort.assignors import MemberSubscription
from sparkcohort.cli.simulate.case import Case, CaseError
from sparkcohort.runtime.text import printable

MOST_PARTITIONS: Final = 5_000_000
NEW: Final = "new-"
"""What the names of added members begin with."""


def change_members(case: Case, changes: Iterable[str]) -> Case:
    """Carry out ``+2`` (two more), ``+2@b`` (in rack b), ``+executor-9`` (of that name) and ``-executor-3``, in this order.

    New members get the subscription that most others have.  Raises CaseError.
    """
    kinds = Counter(tuple(sorted(member.topics)) for member in case.members.values())
    topics = min(kinds, key=lambda kind: (-kinds[kind], kind), default=tuple(sorted(case.topics)))
    for change in changes:
        if change[:1] == "-" and change[1:] in case.members:
            remaining = {name: each for name, each in case.members.items() if name != change[1:]}
            case = replace(case, members=remaining)
        elif change[:1] == "-":
            raise CaseError(f"--members: there is no member {change[1:]!r}{_nearest(change[1:], case.members)}")
        elif match := re.fullmatch(r"\+(?:([0-9]{1,5})|([^@,0-9][^@,]*))(?:@(.+))?", change):
            free = (name for place in count(1) if (name := f"{NEW}{place}") not in case.members)
            names = [match[2]] if match[2] else islice(free, int(match[1]))
            added = {name: MemberSubscription(topics, rack=match[3]) for name in names}
            if match[2] in case.members:
                raise CaseError(f"--members {change}: there is a member of this name already")
            case = replace(case, members={**case.members, **added})
        else:
            raise CaseError(
                f"--members {printable(change, 60)!r}: expected +2 (two more), +2@rack (in that rack), +name (one called so) "
                "or -name (without that one); the option may be repeated"
            )
    return case


def change_partitions(case: Case, changes: Iterable[str]) -> Case:
    """Carry out ``orders=48``.  If a topic grows, the racks of its new partitions are unknown.  Raises CaseError."""
    for change in changes:
        topic, _, size = change.rpartition("=")
        if not topic or not re.fullmatch("[0-9]{1,9}", size):
            raise CaseError(f"--partitions {printable(change, 60)!r}: expected TOPIC=NUMBER, like orders=48")
        if topic not in case.topics:
            raise CaseError(f"--partitions: there is no topic {topic!r}{_nearest(topic, case.topics)}")
        topics, racks = {**case.topics, topic: int(size)}, dict(case.racks)
        if (total := sum(topics.values())) > MOST_PARTITIONS:
            raise CaseError(f"--partitions: {total:,} partitions are too many, at most {MOST_PARTITIONS:,}")
        if topic in racks:
            racks[topic] = (*racks[topic], *[()] * int(size))[: int(size)]
        case = replace(case, topics=topics, racks=racks)
    return case


def _nearest(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else ""
