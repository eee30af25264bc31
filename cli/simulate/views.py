"""What ``cohort simulate`` prints: a row a member with the figures under it, a row an assignor, or the same as JSON.

A long list of partitions is cut, and counted; JSON has all of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sparkcohort.assignors import Partition
from sparkcohort.cli.simulate.case import Case
from sparkcohort.cli.simulate.outcome import Outcome, subscribed_partitions
from sparkcohort.cli.views import View, printable
from sparkcohort.runtime.group.summary import ranges
from sparkcohort.runtime.text import counted

CELL: Final = 36
LINES: Final = 96
"""Characters of a list of partitions: ``CELL`` of a member, ``LINES`` under the table."""

MEMBERS: Final = ("MEMBER", "#BEFORE", "#AFTER", "KEPT", "+GAINED", "-LOST")
COMPARED: Final = (
    *("ASSIGNOR", "TYPE", "#MOVED", "#SPREAD", "#OFF-RACK", "#ROUNDS", "#PAUSE-EAGER", "#PAUSE-COOP", "#BUSIEST"),
)


@dataclass(frozen=True, slots=True)
class CaseView:
    """A case and the title of its table.

    ``names`` has the name of each member: its own one if it is unique, else its id.
    """

    base: Case
    case: Case
    title: str
    names: Mapping[str, str]


def names(base: Case, case: Case) -> dict[str, str]:
    """The name of each member (see ``CaseView``)."""
    given_names = {**base.names, **case.names}
    plain_names = {member: given_names.get(member, member) for member in (*base.members, *case.members)}
    counts = Counter(plain_names.values())
    return {member: printable(name if counts[name] == 1 else member) for member, name in plain_names.items()}


def members(view: CaseView, outcome: Outcome, notes: Sequence[str]) -> View:
    """What one assignor does: a row a member, and the figures."""
    rows = []
    for member in sorted({*view.base.members, *view.case.members}, key=lambda member: (view.names[member], member)):
        old, new = set(outcome.owned_before.get(member, ())), set(outcome.settled.get(member, ()))
        change = "" if member in view.base.members else " (new)"
        change = change if member in view.case.members else " (gone)"
        parts = (_some(each, CELL) for each in (old & new, new - old, old - new))
        rows.append((f"{view.names[member]}{change}", len(old), len(new), *parts))
    totals = ("", *(f"{name:<19}  {text}" for name, text in _figures(outcome)))
    heading = (f"{outcome.assignor}: {view.title}", "")
    return View(MEMBERS, tuple(rows), notes=_notes(notes), totals=totals, heading=heading)


def comparison(view: CaseView, outcomes: Sequence[Outcome], notes: Sequence[str]) -> View:
    """A row an assignor."""
    rows = tuple(
        (
            outcome.assignor,
            "coop" if outcome.cooperative else "eager",
            outcome.moved,
            outcome.spread,
            outcome.rack_mismatches,
            outcome.rounds if outcome.settles else f">{outcome.rounds}",
            outcome.paused_eager,
            _counts(outcome.paused_cooperative) or 0,
            None if outcome.busiest is None else f"{outcome.busiest:.2f}",
        )
        for outcome in outcomes
    )
    least = outcomes[0].fewest_moves if outcomes else 0
    total = f"fewest moves possible: {least:,}; a partition that pauses does so for 1 round unless x 2 says more"
    return View(COMPARED, rows, notes=_notes(notes), totals=(total,), heading=(view.title, ""))


def _notes(notes: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"note: {note}" for note in notes)


def as_json(view: CaseView, outcome: Outcome, notes: Sequence[str]) -> str:
    """One object with all partitions, sorted."""
    return lines(
        {
            **outcome.figures(),
            "assignment": outcome.assignment,
            "transferring": outcome.transferring,
            "settled": outcome.settled,
            "before": outcome.owned_before,
            "pauses": _pauses(view.case, outcome),
            "members_added": sorted(view.case.members.keys() - view.base.members.keys()),
            "members_removed": sorted(view.base.members.keys() - view.case.members.keys()),
            "notes": list(notes),
        }
    )


def compared_as_json(outcomes: Iterable[Outcome], notes: Sequence[str]) -> str:
    """The figures of each assignor, without partitions."""
    return lines({"assignors": {outcome.assignor: outcome.figures() for outcome in outcomes}, "notes": list(notes)})


def lines(value: Mapping[str, Any], indent: str = "") -> str:
    """A JSON object, a line a key, and a line a key of the objects in it."""
    parts = (
        f"{indent}  {json.dumps(key)}: {lines(part, '  ') if isinstance(part, dict) and not indent else json.dumps(part)}"
        for key, part in value.items()
    )
    return "{\n" + ",\n".join(parts) + f"\n{indent}}}"


def _pauses(case: Case, outcome: Outcome) -> dict[str, Any]:
    partitions = [(topic, number) for topic, count in subscribed_partitions(case).items() for number in range(count)]
    cooperative = {str(rounds): paused for rounds, paused in outcome.paused_cooperative.items()}
    return {
        "eager": {"rounds": 1, "partitions": {"1": partitions} if partitions else {}},
        "cooperative": {"rounds": outcome.rounds_cooperative, "partitions": cooperative},
    }


def _some(partitions: Collection[Partition], most: int) -> str | None:
    """Partitions as ranges, cut to ``most`` characters, with their number."""
    whole = ranges(partitions)
    if whole is None or len(whole) <= most:
        return whole
    return f"{whole[:most]}… ({len(partitions):,})"


# --- figures ---------------------------------------------------------------------------------------------


def _figures(outcome: Outcome) -> Iterator[tuple[str, str]]:
    yield "moved", f"{outcome.moved:,} of {outcome.owned:,}; the fewest possible: {outcome.fewest_moves:,}"
    yield "placed", f"{outcome.placed:,} that had no owner"
    yield "spread", f"{outcome.spread_before:,} -> {outcome.spread:,} (most - fewest)"
    if outcome.rack_mismatches is None:
        yield "rack mismatches", "unknown: no racks of members or of replicas"
    else:
        earlier = "?" if outcome.rack_mismatches_before is None else f"{outcome.rack_mismatches_before:,}"
        yield "rack mismatches", f"{earlier} -> {outcome.rack_mismatches:,}"
    if outcome.busiest is not None:
        earlier = "?" if outcome.busiest_before is None else f"{outcome.busiest_before:.2f}"
        yield "busiest member", f"{earlier} -> {outcome.busiest:.2f} times the mean load"
    yield "pauses, eager", f"{counted(outcome.paused_eager, 'partition')} for 1 round: all there are"
    for rounds, partitions in outcome.paused_cooperative.items():
        paused = f"{counted(len(partitions), 'partition')} for {counted(rounds, 'round')}"
        yield "pauses, cooperative", f"{paused}: {_some(partitions, LINES)}"
    flowing = outcome.paused_eager - sum(map(len, outcome.paused_cooperative.values()))
    end = "" if outcome.settles else "; it never settles"
    yield (
        "flow on",
        f"{counted(flowing, 'partition')}; settled after {counted(outcome.rounds_cooperative, 'round')}{end}",
    )


def _counts(paused: Mapping[int, Sequence[Partition]]) -> str:
    """``3`` partitions for one round, ``2 x 2`` for two."""
    return ", ".join(f"{len(partitions):,}{f' x {rounds}' * (rounds > 1)}" for rounds, partitions in paused.items())
