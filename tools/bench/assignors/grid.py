"""Which cells are measured, in which order, and what is left out when time is short."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from tools.bench.assignors.groups import EVENTS, EVERY, Cell, Took
from tools.bench.assignors.sides import KAFKAS, OURS, Side, SideError, TooSlow
from tools.bench.results import order

MEMBERS, PER_MEMBER, TOPICS = (100, 500, 2_000, 10_000), (5, 50, 500), (10, 100, 500)
MOST_PARTITIONS = 1_000_000
STICKY, PLAIN = ("cooperative-sticky", "sticky"), ("range", "roundrobin")
SMALL, LARGE = (50, 20, 10), (2_000, 500, 100)
"""Members, partitions per member and topics of the group that must never feel its assignor, and of the large one."""
SMALL_TOPICS = (1, 10, 100, 500, 1_000)
SIDES = (OURS, KAFKAS)
SHORT_RUNS, SHORT_S = 5, 0.1
ENOUGH_S = 6.0
"""A side whose runs of a cell took that long in all has been measured well enough: the time is for other cells."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much to measure: runs of each side and cell, seconds for all of it, and for one answer of a side."""

    cells: Sequence[Cell]
    rounds: int
    budget_s: float
    patience_s: float


@dataclass(frozen=True, slots=True)
class Measured:
    """A cell's runs by side; ``note`` says why there are none of a side, or none at all."""

    cell: Cell
    runs: dict[str, list[Took]] = field(default_factory=dict)
    peak_bytes: int | None = None
    note: str = ""


def cells(assignors: Iterable[str], *, quick: bool = False, only: Sequence[str] = ()) -> list[Cell]:
    """All cells of these assignors, what the bounds name first, then the cheapest; ``only`` are parts of names."""
    known = set(assignors)
    shapes = [(m, p, t) for m in MEMBERS for p in PER_MEMBER for t in TOPICS if m * p <= MOST_PARTITIONS]
    shapes.sort(key=lambda shape: (shape[0] * shape[1], shape[2], shape[0]))
    small = [(*SMALL[:2], topics) for topics in SMALL_TOPICS]
    named = [Cell(a, *shape, s, e) for shape in small for s in EVERY for a in STICKY for e in EVENTS]
    named += [Cell(a, *LARGE, "equal", e) for a in STICKY for e in EVENTS]
    plain = [Cell(a, *shape, "equal", "fresh") for shape in (SMALL, LARGE) for a in PLAIN]
    grid = [Cell(a, *shape, "equal", e) for shape in shapes for a in STICKY for e in EVENTS]
    if quick:
        grid = [each for each in grid if (each.members, each.per_member, each.topics) == (100, 50, 10)]
    every = dict.fromkeys(each for each in [*named, *plain, *grid] if each.assignor in known)
    return [each for each in every if not only or any(part in str(each) for part in only)]


def measure(plan: Plan, say: Callable[[str], None]) -> list[Measured]:
    """All cells, both sides in turns; once the time is up, the rest is left out.  Raises SideError."""
    began, found = time.monotonic(), list[Measured]()
    slow: dict[str, list[Cell]] = {side: [] for side in SIDES}
    with ExitStack() as stack:
        sides = [Side(name, plan.patience_s) for name in SIDES]
        for side in sides:
            stack.callback(side.end)
        for number, cell in enumerate(plan.cells, 1):
            if time.monotonic() - began > plan.budget_s:
                found.append(Measured(cell, note="time is up"))
                continue
            found.append(one_cell(cell, sides, plan.rounds, slow))
            say(f"[{number}/{len(plan.cells)}] {line(found[-1])}")
    return found


def no_smaller(cell: Cell, than: Cell) -> bool:
    """Whether a cell is like another and at least as large in every way; every event begins with a fresh group."""
    alike = (cell.assignor, cell.subscriptions) == (than.assignor, than.subscriptions)
    return (alike and than.event in ("fresh", cell.event)) and all(
        getattr(cell, name) >= getattr(than, name) for name in ("members", "per_member", "topics", "partitions")
    )


def one_cell(cell: Cell, sides: Sequence[Side], rounds: int, slow: dict[str, list[Cell]]) -> Measured:
    """Both sides prepare it, then run in turns, there and back.  Who is too slow is noted in ``slow``, and not tried again."""
    runs, notes, peak = dict[str, list[Took]](), list[str](), None

    @contextmanager
    def in_time(side: Side) -> Iterator[None]:
        try:
            yield
        except TooSlow as error:
            slow[side.name].append(cell)
            notes.append(str(error))
            runs.pop(side.name, None)

    for side in sides:
        if any(no_smaller(cell, than) for than in slow[side.name]):
            notes.append(f"{side.name} was too slow for a smaller one")
            continue
        with in_time(side):
            first = side.prepare(cell)
            runs[side.name] = [first] if first.seconds > ENOUGH_S else []
    for side in order(sides, rounds):
        if side.name in runs and sum(took.seconds for took in runs[side.name]) < ENOUGH_S:
            with in_time(side):
                runs[side.name] += turn(side)
    for side in sides:
        if side.name == OURS and side.name in runs:
            with in_time(side):
                peak = side.peak()
    check(cell, runs)
    return Measured(cell, runs, peak, "; ".join(notes))


def turn(side: Side) -> list[Took]:
    """One run, or a few where they are short: what a timer or a neighbour adds is evened out.  Raises TooSlow."""
    runs = [side.run()]
    while len(runs) < SHORT_RUNS and sum(took.seconds for took in runs) < SHORT_S:
        runs.append(side.run())
    return runs


def check(cell: Cell, runs: dict[str, list[Took]]) -> None:
    """Both sides give as much, where that is determined; raises SideError."""
    given = {took.partitions for mine in runs.values() for took in mine}
    determined = cell.event == "fresh" or cell.subscriptions == "equal"
    if determined and len(given) > 1 and cell.assignor != "sticky":  # ours holds back what has to be revoked first
        raise SideError(f"{cell}: the sides give out {sorted(given)} partitions")


def line(measured: Measured) -> str:
    """A cell in one line of progress."""
    times = [
        f"{name} {min(took.seconds for took in mine) * 1e3:.1f} ms" for name, mine in measured.runs.items() if mine
    ]
    return f"{measured.cell}: {', '.join(times)}{'; ' if times and measured.note else ''}{measured.note}"
