"""Prints the results of ``cohort simulate``: a table of members with the figures under it, or the same as JSON.

A terminal gets colours and its own width, a pipe plain text of 80 columns.  Of a large group the members that change most
are shown, with a line or two of partitions each; the rest is counted.  ``--all`` shows everything.
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
"""Characters of a list of partitions: ``CELL`` of a member, ``LINES`` under the table; ``--all`` shows all."""

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
    """A case and the title of its table; ``most`` members are shown, None: all, with all of their partitions.

    ``names`` has the name of each member: its own one if it is unique, else its id.
    """

    base: Case
    case: Case
    title: str
    most: int | None
    names: Mapping[str, str]


def names(base: Case, case: Case) -> dict[str, str]:
    """The name of each member (see ``CaseView``)."""
    given_names = {**base.names, **case.names}
    plain_names = {member: given_names.get(member, member) for member in (*base.members, *case.members)}
    counts = Counter(plain_names.values())
    return {member: printable(name if counts[name] == 1 else member) for member, name in plain_names.items()}


def print_outcome(view: CaseView, outcome: Outcome, notes: Sequence[str], console: Console) -> None:
    """Print what one assignor does."""
    console.print(Text(f"{printable(outcome.assignor)}: {view.title}", style="bold"))
    _print_notes(notes, console)
    console.print()
    rows, hidden = _rows_to_show(view, outcome)
    console.print(_members(view, outcome, rows))
    if hidden:
        unchanged = sum(outcome.owned_before.get(member, ()) == outcome.settled.get(member, ()) for member in hidden)
        console.print(f"and {counted(len(hidden), 'member')} more, {unchanged:,} of them unchanged (--all shows them)")
    console.print()
    console.print(_grid(_figures(view, outcome)))


def print_comparison(view: CaseView, outcomes: Sequence[Outcome], notes: Sequence[str], console: Console) -> None:
    """Print a row an assignor."""
    console.print(Text(view.title, style="bold"))
    _print_notes(notes, console)
    console.print()
    columns = COMPARED if any(outcome.busiest is not None for outcome in outcomes) else COMPARED[:-1]
    rows = [_comparison_row(outcome) for outcome in outcomes]
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
    least = outcomes[0].fewest_moves if outcomes else 0
    console.print(f"fewest moves possible: {least:,}; a partition that pauses does so for 1 round unless x 2 says more")


def _comparison_row(outcome: Outcome) -> list[Text]:
    """The cells of a row, one for each of ``COMPARED``."""
    return [
        Text(printable(outcome.assignor)),
        Text("coop" if outcome.cooperative else "eager"),
        _move_figure(outcome),
        Text(f"{outcome.spread:,}", style="green" if outcome.spread <= 1 else "yellow"),
        Text("-" if outcome.rack_mismatches is None else f"{outcome.rack_mismatches:,}"),
        Text(str(outcome.rounds) if outcome.settles else f">{outcome.rounds}"),
        Text(f"{outcome.paused_eager:,}"),
        Text(_counts(outcome.paused_cooperative) or "0"),
        Text("-" if outcome.busiest is None else f"{outcome.busiest:.2f}"),
    ]


def as_json(view: CaseView, outcome: Outcome, notes: Sequence[str]) -> Iterator[str]:
    """One object with all partitions, sorted."""
    yield from lines(
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


def compared_as_json(outcomes: Iterable[Outcome], notes: Sequence[str]) -> Iterator[str]:
    """The figures of each assignor, without partitions."""
    yield from lines({"assignors": {outcome.assignor: outcome.figures() for outcome in outcomes}, "notes": list(notes)})


def lines(value: Mapping[str, Any]) -> Iterator[str]:
    """A JSON object, a line a key, and a line a key of the objects in it: readable, and fast for a million partitions."""
    yield "{"
    for place, (key, part) in enumerate(value.items()):
        end = "," if place < len(value) - 1 else ""
        if isinstance(part, dict) and part:
            yield f"  {json.dumps(key)}: {{"
            last = len(part) - 1
            for index, (name, inner) in enumerate(part.items()):
                yield f"    {json.dumps(name)}: {json.dumps(inner)}{',' if index < last else ''}"
            yield f"  }}{end}"
        else:
            yield f"  {json.dumps(key)}: {json.dumps(part)}{end}"
    yield "}"


def _pauses(case: Case, outcome: Outcome) -> dict[str, Any]:
    partitions = [(topic, number) for topic, count in subscribed_partitions(case).items() for number in range(count)]
    cooperative = {str(rounds): paused for rounds, paused in outcome.paused_cooperative.items()}
    return {
        "eager": {"rounds": 1, "partitions": {"1": partitions} if partitions else {}},
        "cooperative": {"rounds": outcome.rounds_cooperative, "partitions": cooperative},
    }


# --- members ---------------------------------------------------------------------------------------------


def _rows_to_show(view: CaseView, outcome: Outcome) -> tuple[list[str], list[str]]:
    """The members to show, by name, and the others, which change least."""
    members = sorted({*view.base.members, *view.case.members}, key=lambda member: (view.names[member], member))
    if view.most is None or len(members) <= view.most:
        return members, []

    def change(member: str) -> int:
        return len(set(outcome.owned_before.get(member, ())) ^ set(outcome.settled.get(member, ())))

    changes = {member: change(member) for member in members}
    changed = sorted(filter(changes.__getitem__, members), key=lambda member: -changes[member])
    shown_members = set((changed or members)[: view.most])
    return [m for m in members if m in shown_members], [m for m in members if m not in shown_members]


def _members(view: CaseView, outcome: Outcome, rows: Iterable[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("MEMBER", overflow="fold", max_width=36)
    for column in ("BEFORE", "AFTER"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column(SIGNS, overflow="fold")
    most = None if view.most is None else CELL
    for member in rows:
        old, new = set(outcome.owned_before.get(member, ())), set(outcome.settled.get(member, ()))
        label = Text(view.names[member])
        if member not in view.base.members:
            label.append(" (new)", style="green")
        elif member not in view.case.members:
            label.append(" (gone)", style="red")
        kinds = (("=", old & new, ""), ("+", new - old, "green"), ("-", old - new, "yellow"))
        cell = Text("\n").join(Text(f"{sign} {_some(each, most)}", style) for sign, each, style in kinds if each)
        table.add_row(label, f"{len(old):,}", f"{len(new):,}", cell)
    return table


def _some(partitions: Collection[Partition], most: int | None) -> str:
    """Partitions as ranges that a terminal can break between numbers; cut to ``most`` characters, with their number."""
    whole = printable(ranges(partitions) or "").replace(",", ", ").replace(";", "; ")
    if most is None or len(whole) <= most:
        return whole
    return f"{whole[:most].rpartition(' ')[0]} … ({len(partitions):,})"


# --- figures ---------------------------------------------------------------------------------------------


def _figures(view: CaseView, outcome: Outcome) -> Iterator[tuple[str, Text]]:
    yield (
        "moved",
        Text()
        .append_text(_move_figure(outcome))
        .append(f" of {outcome.owned:,}; the fewest possible: {outcome.fewest_moves:,}"),
    )
    yield "placed", Text(f"{outcome.placed:,} that had no owner")
    style = "green" if outcome.spread <= 1 else "yellow"
    yield (
        "spread",
        Text(f"{outcome.spread_before:,} -> ").append(f"{outcome.spread:,}", style).append(" (most - fewest)"),
    )
    if outcome.rack_mismatches is None:
        yield "rack mismatches", Text("unknown: no racks of members or of replicas")
    else:
        earlier = "?" if outcome.rack_mismatches_before is None else f"{outcome.rack_mismatches_before:,}"
        yield "rack mismatches", Text(f"{earlier} -> {outcome.rack_mismatches:,}")
    if outcome.busiest is not None:
        earlier = "?" if outcome.busiest_before is None else f"{outcome.busiest_before:.2f}"
        yield "busiest member", Text(f"{earlier} -> {outcome.busiest:.2f} times the mean load")
    if outcome.relieved:
        yield "moved for load", _relieved(view, outcome)
    yield "pauses, eager", Text(f"{counted(outcome.paused_eager, 'partition')} for 1 round: all there are")
    yield "pauses, cooperative", _cooperative(outcome)


def _relieved(view: CaseView, outcome: Outcome) -> Text:
    """The later moves for load, a line a round."""
    after_s = view.case.load_balance.after_ms / 1000
    lines = [
        f"{counted(relief.partitions, 'partition')}, once {view.names.get(relief.member, relief.member)} has carried "
        f"{relief.times_mean:.1f} x the mean for {after_s:g} s"
        for relief in outcome.relieved
    ]
    return Text("\n".join(lines))


def _move_figure(outcome: Outcome) -> Text:
    return Text(f"{outcome.moved:,}", style="green" if outcome.moved <= outcome.fewest_moves else "yellow")


def _cooperative(outcome: Outcome) -> Text:
    paused = outcome.paused_cooperative
    flowing = outcome.paused_eager - sum(map(len, paused.values()))
    text = Text()
    for rounds, partitions in paused.items():
        text_of_partitions = _some(partitions, LINES)
        text.append(f"{counted(len(partitions), 'partition')} for {counted(rounds, 'round')}: {text_of_partitions}\n")
    text.append(f"{flowing:,} flow on; settled after {counted(outcome.rounds_cooperative, 'round')}")
    if not outcome.settles:
        text.append("; it never settles", style="red")
    return text


def _counts(paused: Mapping[int, Sequence[Partition]]) -> str:
    """``3`` partitions for one round, ``2 x 2`` for two."""
    return ", ".join(f"{len(partitions):,}{f' x {rounds}' * (rounds > 1)}" for rounds, partitions in paused.items())


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
