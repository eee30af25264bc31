"""What ``cohort simulate`` prints: a table of members, the figures under it, or the same as JSON.

A terminal gets colours and its own width, a pipe plain text of 80 columns.  A large group is cut to the members that change most,
and each member's partitions to a line or two, unless everything is asked for: what was cut is counted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sparkcohort.assignors import Partition
from sparkcohort.cli.simulate.case import Case
from sparkcohort.cli.simulate.outcome import Outcome, subscribed_partitions
from sparkcohort.cli.views import printable
from sparkcohort.runtime.group.summary import ranges
from sparkcohort.runtime.text import counted

PLAIN_WIDTH: Final = 80
CELL: Final = 36
LINES: Final = 96
"""Characters of a list of partitions that are shown of a member, and under the table, unless everything is asked for."""

COMPARED: Final = (
    "ASSIGNOR",
    "TYPE",
    "MOVED",
    "SPREAD",
    "OFF\nRACK",
    "ROUNDS",
    "PAUSE\nEAGER",
    "PAUSE\nCOOP",
    "BUSIEST",
)
SIGNS: Final = "= KEPT, + GAINED, - LOST"


@dataclass(frozen=True, slots=True)
class CaseView:
    """A case and what is said above its table; ``most`` members are shown, None: all, with all of their partitions.

    ``names`` has what each member is called: its own name where nobody else has that, else its id.
    """

    base: Case
    case: Case
    title: str
    most: int | None
    names: Mapping[str, str]


def names(base: Case, case: Case) -> dict[str, str]:
    """What each member is called (see ``CaseView``)."""
    said = {**base.names, **case.names}
    given = {member: said.get(member, member) for member in (*base.members, *case.members)}
    held = Counter(given.values())
    return {member: printable(name if held[name] == 1 else member) for member, name in given.items()}


def report(shown: CaseView, seen: Outcome, notes: Sequence[str], console: Console) -> None:
    """Print what one assignor does."""
    console.print(Text(f"{printable(seen.assignor)}: {shown.title}", style="bold"))
    _print_notes(notes, console)
    console.print()
    rows, left = _chosen(shown, seen)
    console.print(_members(shown, seen, rows))
    if left:
        same = sum(seen.before.get(member, ()) == seen.settled.get(member, ()) for member in left)
        console.print(f"and {counted(len(left), 'member')} more, {same:,} of them unchanged (--all shows them)")
    console.print()
    console.print(_grid(_figures(shown, seen)))


def compared(shown: CaseView, seen: Sequence[Outcome], notes: Sequence[str], console: Console) -> None:
    """Print a row an assignor."""
    console.print(Text(shown.title, style="bold"))
    _print_notes(notes, console)
    console.print()
    columns = COMPARED if any(one.busiest is not None for one in seen) else COMPARED[:-1]
    rows = [_compared(one) for one in seen]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, justify="left" if name in COMPARED[:2] else "right", overflow="fold")
    for row in rows:
        table.add_row(*row[: len(columns)])
    if console.measure(table, options=console.options.update(max_width=1_000)).maximum <= console.width:
        console.print(table)
        console.print()
    else:  # a block an assignor
        for row in rows:
            console.print(_grid((name.replace("\n", " "), cell) for name, cell in zip(columns, row, strict=False)))
            console.print()
    least = seen[0].fewest_moves if seen else 0
    console.print(f"fewest moves possible: {least:,}; a partition that pauses does so for 1 round unless x 2 says more")


def _compared(one: Outcome) -> list[Text]:
    """The cells of a row, one for each of ``COMPARED``."""
    return [
        Text(printable(one.assignor)),
        Text("coop" if one.cooperative else "eager"),
        _moved(one),
        Text(f"{one.spread:,}", style="green" if one.spread <= 1 else "yellow"),
        Text("-" if one.rack_mismatches is None else f"{one.rack_mismatches:,}"),
        Text(str(one.rounds) if one.settles else f">{one.rounds}"),
        Text(f"{one.paused_eager:,}"),
        Text(_counts(one.paused_cooperative) or "0"),
        Text("-" if one.busiest is None else f"{one.busiest:.2f}"),
    ]


def as_json(shown: CaseView, seen: Outcome, notes: Sequence[str]) -> Iterator[str]:
    """One object; partitions sorted, everything whole."""
    yield from lines(
        {
            **seen.figures(),
            "assignment": seen.assignment,
            "transferring": seen.transferring,
            "settled": seen.settled,
            "before": seen.before,
            "pauses": _pauses(shown.case, seen),
            "members_added": sorted(shown.case.members.keys() - shown.base.members.keys()),
            "members_removed": sorted(shown.base.members.keys() - shown.case.members.keys()),
            "notes": list(notes),
        }
    )


def compared_as_json(seen: Iterable[Outcome], notes: Sequence[str]) -> Iterator[str]:
    """The figures of each assignor, without anybody's partitions."""
    yield from lines({"assignors": {one.assignor: one.figures() for one in seen}, "notes": list(notes)})


def lines(value: Mapping[str, Any]) -> Iterator[str]:
    """A JSON object, a line a key, and a line a key of the objects in it: to be read, and quick for a million partitions."""
    yield "{"
    for place, (key, part) in enumerate(value.items()):
        end = "," if place < len(value) - 1 else ""
        if isinstance(part, dict) and part:
            yield f"  {json.dumps(key)}: {{"
            last = len(part) - 1
            for at, (name, inner) in enumerate(part.items()):
                yield f"    {json.dumps(name)}: {json.dumps(inner)}{',' if at < last else ''}"
            yield f"  }}{end}"
        else:
            yield f"  {json.dumps(key)}: {json.dumps(part)}{end}"
    yield "}"


def _pauses(case: Case, seen: Outcome) -> dict[str, Any]:
    everything = [(topic, number) for topic, count in subscribed_partitions(case).items() for number in range(count)]
    cooperative = {str(rounds): found for rounds, found in seen.paused_cooperative.items()}
    return {
        "eager": {"rounds": 1, "partitions": {"1": everything} if everything else {}},
        "cooperative": {"rounds": seen.rounds_cooperative, "partitions": cooperative},
    }


# --- members ---------------------------------------------------------------------------------------------


def _chosen(shown: CaseView, seen: Outcome) -> tuple[list[str], list[str]]:
    """The members to show, by name, and those that are left out: they change least."""
    everybody = sorted({*shown.base.members, *shown.case.members}, key=lambda member: (shown.names[member], member))
    if shown.most is None or len(everybody) <= shown.most:
        return everybody, []

    def change(member: str) -> int:
        return len(set(seen.before.get(member, ())) ^ set(seen.settled.get(member, ())))

    changes = {member: change(member) for member in everybody}
    changed = sorted(filter(changes.__getitem__, everybody), key=lambda member: -changes[member])
    chosen = set((changed or everybody)[: shown.most])
    return [m for m in everybody if m in chosen], [m for m in everybody if m not in chosen]


def _members(shown: CaseView, seen: Outcome, rows: Iterable[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("MEMBER", overflow="fold", max_width=36)
    for name in ("BEFORE", "AFTER"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(SIGNS, overflow="fold")
    most = None if shown.most is None else CELL
    for member in rows:
        before, after = set(seen.before.get(member, ())), set(seen.settled.get(member, ()))
        who = Text(shown.names[member])
        if member not in shown.base.members:
            who.append(" (new)", style="green")
        elif member not in shown.case.members:
            who.append(" (gone)", style="red")
        kinds = (("=", before & after, ""), ("+", after - before, "green"), ("-", before - after, "yellow"))
        cell = Text("\n").join(Text(f"{sign} {_some(found, most)}", style) for sign, found, style in kinds if found)
        table.add_row(who, f"{len(before):,}", f"{len(after):,}", cell)
    return table


def _some(partitions: Collection[Partition], most: int | None) -> str:
    """Partitions as ranges that a terminal can break between numbers; cut to ``most`` characters, with their number."""
    whole = printable(ranges(partitions) or "").replace(",", ", ").replace(";", "; ")
    if most is None or len(whole) <= most:
        return whole
    return f"{whole[:most].rpartition(' ')[0]} … ({len(partitions):,})"


# --- figures ---------------------------------------------------------------------------------------------


def _figures(shown: CaseView, seen: Outcome) -> Iterator[tuple[str, Text]]:
    yield (
        "moved",
        Text().append_text(_moved(seen)).append(f" of {seen.owned:,}; the fewest possible: {seen.fewest_moves:,}"),
    )
    yield "placed", Text(f"{seen.placed:,} that had no owner")
    style = "green" if seen.spread <= 1 else "yellow"
    yield "spread", Text(f"{seen.spread_before:,} -> ").append(f"{seen.spread:,}", style).append(" (most - fewest)")
    if seen.rack_mismatches is None:
        yield "rack mismatches", Text("unknown: no racks of members or of replicas")
    else:
        before = "?" if seen.rack_mismatches_before is None else f"{seen.rack_mismatches_before:,}"
        yield "rack mismatches", Text(f"{before} -> {seen.rack_mismatches:,}")
    if seen.busiest is not None:
        before = "?" if seen.busiest_before is None else f"{seen.busiest_before:.2f}"
        yield "busiest member", Text(f"{before} -> {seen.busiest:.2f} times the mean load")
    if seen.relieved:
        yield "moved for load", _relieved(shown, seen)
    yield "pauses, eager", Text(f"{counted(seen.paused_eager, 'partition')} for 1 round: all there are")
    yield "pauses, cooperative", _cooperative(seen)


def _relieved(shown: CaseView, seen: Outcome) -> Text:
    """What moves later, a line a round."""
    after_s = shown.case.load_balance.after_ms / 1000
    lines = [
        f"{counted(relief.partitions, 'partition')}, once {shown.names.get(relief.member, relief.member)} has carried "
        f"{relief.times_mean:.1f} x the mean for {after_s:g} s"
        for relief in seen.relieved
    ]
    return Text("\n".join(lines))


def _moved(seen: Outcome) -> Text:
    return Text(f"{seen.moved:,}", style="green" if seen.moved <= seen.fewest_moves else "yellow")


def _cooperative(seen: Outcome) -> Text:
    found = seen.paused_cooperative
    flowing = seen.paused_eager - sum(map(len, found.values()))
    text = Text()
    for rounds, partitions in found.items():
        which = _some(partitions, LINES)
        text.append(f"{counted(len(partitions), 'partition')} for {counted(rounds, 'round')}: {which}\n")
    text.append(f"{flowing:,} flow on; settled after {counted(seen.rounds_cooperative, 'round')}")
    if not seen.settles:
        text.append("; it never settles", style="red")
    return text


def _counts(paused: Mapping[int, Sequence[Partition]]) -> str:
    """``3`` partitions for one round, ``2 x 2`` for two."""
    return ", ".join(f"{len(found):,}{f' x {rounds}' * (rounds > 1)}" for rounds, found in paused.items())


def _grid(rows: Iterable[tuple[str, Text]]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(name, text)
    return table


def _print_notes(notes: Iterable[str], console: Console) -> None:
    for note in notes:
        console.print(Text(f"note: {printable(note)}", style="yellow"))
