"""What ``cohort simulate`` prints: a row a member with the figures under it, or the same as JSON.

A long list of partitions is cut, and counted; JSON has all of them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import asdict
from typing import Final

from sparkcohort.assignors import Partition
from sparkcohort.cli.simulate.case import Case
from sparkcohort.cli.simulate.outcome import Outcome
from sparkcohort.cli.views import View, printable
from sparkcohort.runtime.group.summary import ranges
from sparkcohort.runtime.text import counted

CELL: Final = 36
LINES: Final = 96
"""Characters of a list of partitions: ``CELL`` of a member, ``LINES`` under the table."""

MEMBERS: Final = ("MEMBER", "#BEFORE", "#AFTER", "KEPT", "+GAINED", "-LOST")


def members(base: Case, case: Case, outcome: Outcome) -> View:
    """A row a member, and the figures; ``case`` is ``base`` after its changes."""
    rows = []
    for member in sorted({*base.members, *case.members}):
        old, new = set(outcome.before.get(member, ())), set(outcome.settled.get(member, ()))
        change = " (gone)" if member not in case.members else "" if member in base.members else " (new)"
        parts = (_some(each, CELL) for each in (old & new, new - old, old - new))
        rows.append((f"{member}{change}", len(old), len(new), *parts))
    totals = ("", *(f"{name:<15}  {text}" for name, text in _figures(outcome)))
    notes = tuple(f"note: {note}" for note in case.notes)
    return View(MEMBERS, tuple(rows), notes=notes, totals=totals, heading=(_title(outcome.assignor, base, case), ""))


def as_json(case: Case, outcome: Outcome) -> str:
    """One object, a line a key, with all partitions, sorted."""
    fields = {**asdict(outcome), "notes": case.notes}
    return "{\n" + ",\n".join(f'  "{key}": {json.dumps(value)}' for key, value in fields.items()) + "\n}"


def _title(assignor: str, base: Case, case: Case) -> str:
    """``range: 3 members, 6 partitions of 2 topics; 1 member more, 2 members fewer, orders 12 -> 48``."""
    size = f"{counted(len(case.members), 'member')}, {counted(sum(case.topics.values()), 'partition')}"
    more, fewer = len(case.members.keys() - base.members.keys()), len(base.members.keys() - case.members.keys())
    changes = [f"{counted(number, 'member')} {word}" for number, word in ((more, "more"), (fewer, "fewer")) if number]
    changes += [
        f"{printable(topic)} {base.topics[topic]:,} -> {count:,}"
        for topic, count in sorted(case.topics.items())
        if base.topics[topic] != count
    ]
    return "; ".join(filter(None, (f"{assignor}: {size} of {counted(len(case.topics), 'topic')}", ", ".join(changes))))


def _some(partitions: Collection[Partition], most: int) -> str | None:
    """Partitions as ranges, cut to ``most`` characters, with their number."""
    whole = ranges(partitions)
    if whole is None or len(whole) <= most:
        return whole
    return f"{whole[:most]}… ({len(partitions):,})"


def _figures(outcome: Outcome) -> Iterator[tuple[str, str]]:
    yield "moved", f"{outcome.moved:,} of {outcome.owned:,}; the fewest possible: {outcome.fewest_moves:,}"
    yield "placed", f"{outcome.placed:,} that had no owner"
    yield "spread", f"{outcome.spread_before:,} -> {outcome.spread:,} (most - fewest)"
    if outcome.rack_mismatches is None:
        yield "rack mismatches", "unknown: no racks of members or of replicas"
    else:
        earlier = "?" if outcome.rack_mismatches_before is None else f"{outcome.rack_mismatches_before:,}"
        yield "rack mismatches", f"{earlier} -> {outcome.rack_mismatches:,}"
    for rounds, partitions in outcome.pauses.items():
        paused = f"{counted(len(partitions), 'partition')} for {counted(rounds, 'round')}"
        yield "pauses", f"{paused}: {_some(partitions, LINES)}"
    yield "settled", f"after {counted(outcome.rounds, 'round')}{'' if outcome.settles else '; it never settles'}"
