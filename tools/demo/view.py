"""The live view: a screen that redraws itself on a terminal, plain lines everywhere else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tools.demo.watch import numbers, partitions

LINE_EVERY_S: Final = 2.0
WAITING_EVERY_S: Final = 10.0
STORY_LINES: Final = 9
HEAD_LINES: Final = 7
BORDER_LINES: Final = 3  # of a table in a panel, its header included
_COLORS: Final = ("cyan", "magenta", "green", "blue", "yellow", "red")


class Screen:
    """Shows what happens: ``say`` tells an event, ``phase`` what is being done; the rest is asked for as it is drawn."""

    def __init__(self, out: IO[str], facts: Callable[[], dict[str, Any]]) -> None:
        self.console = Console(file=out, highlight=False)
        self._plain = not self.console.is_terminal
        self._facts = facts
        self._began = time.monotonic()
        self._story: list[tuple[float, str]] = []
        self._phase = ""
        self._told = 0.0
        self._stop = threading.Event()

    @property
    def seconds(self) -> float:
        """Since the demo began."""
        return time.monotonic() - self._began

    def say(self, text: str) -> None:
        """Tell an event."""
        self._story.append((self.seconds, text))
        if self._plain:
            self._line(text)

    def phase(self, text: str) -> None:
        """Tell what is being done from now on."""
        self._phase = text
        self.say(text)

    @contextmanager
    def showing(self) -> Iterator[None]:
        """Show it until the block ends."""
        if not self._plain:
            try:
                with Live(get_renderable=self._drawn, console=self.console, refresh_per_second=4, transient=True):
                    yield
            finally:
                self._tell_story()
            return
        ticker = threading.Thread(target=self._tick, name="screen", daemon=True)
        ticker.start()
        try:
            yield
        finally:
            self._stop.set()
            ticker.join()

    def _tell_story(self) -> None:
        for at, text in self._story:
            self.console.print(Text(f"{at:6.1f} s  {text}"), soft_wrap=True)

    # --- lines -----------------------------------------------------------------------------------------

    def _tick(self) -> None:
        while not self._stop.wait(LINE_EVERY_S):
            facts = self._facts()
            if facts["status"] and facts["streaming"]:
                self._line(_summary(facts))
            elif self.seconds - self._told >= WAITING_EVERY_S:
                self._line(f"... {self._phase}")

    def _line(self, text: str) -> None:
        self._told = self.seconds
        self.console.print(Text(f"{self._told:6.1f} s  {text}"), soft_wrap=True)

    # --- the screen ------------------------------------------------------------------------------------

    def _drawn(self) -> RenderableType:
        facts = self._facts()
        status, lines = facts["status"], self.console.height - HEAD_LINES
        parts: list[RenderableType] = [self._head(facts)]
        if status:
            colors = {m["executor"]: _COLORS[i % len(_COLORS)] for i, m in enumerate(status["members"])}
            shown = [_partitions(status, colors)]
            lines -= (len(status["partitions"]) + 1) // 2 + BORDER_LINES
            if lines - len(status["members"]) >= STORY_LINES:  # on a low screen the partitions tell who owns what
                shown.insert(0, _members(status, colors))
                lines -= len(status["members"]) + BORDER_LINES
            parts += shown
        latest = self._story[-max(lines - BORDER_LINES, 3) :]
        story = Text("\n").join(Text(f"{at:6.1f} s  {text}", overflow="ellipsis", no_wrap=True) for at, text in latest)
        parts.append(Panel(story, title="what happened", title_align="left", border_style="dim"))
        return Group(*parts)

    def _head(self, facts: dict[str, Any]) -> RenderableType:
        total = facts["total"]
        grid = Table.grid(padding=(0, 2))
        grid.add_row("now", Text(self._phase, style="bold"))
        if facts["status"]:
            grid.add_row("group", _group_line(facts["status"], facts["rows_per_second"]))
        for name in ("produced", "delivered"):
            bar = ProgressBar(total=total, completed=facts[name], width=40)
            row = Table.grid(padding=(0, 1))
            row.add_row(bar, f"{facts[name]:,} of {total:,}")
            grid.add_row(name, row)
        return Panel(grid, title=f"cohort demo  {self.seconds:5.1f} s", title_align="left")


def _group_line(status: dict[str, Any], rate: float) -> Text:
    style = "bold green" if status["state"] == "Stable" else "bold yellow"
    text = Text()
    text.append(status["state"], style)
    text.append(f"  generation {status['generation']}  {len(status['members'])} members")
    text.append(f"  lag {_lag(status):,}  {rate:,.0f} rows/s  {_share(status)} from the prefetch")
    return text


def _summary(facts: dict[str, Any]) -> str:
    status = facts["status"]
    owned = sum(row["member_id"] is not None for row in status["partitions"])
    owners = "  ".join(f"{m['executor']}:[{numbers(partitions(m['owned']))}]" for m in status["members"])
    return (
        f"{status['state']} gen {status['generation']}  owned {owned}/{len(status['partitions'])}  {owners}  "
        f"lag {_lag(status):,}  {facts['rows_per_second']:,.0f} rows/s  {_share(status)} prefetched  "
        f"produced {facts['produced']:,}  delivered {facts['delivered']:,}"
    )


def _lag(status: dict[str, Any]) -> int:
    return sum(row["lag"] or 0 for row in status["partitions"])


def _share(status: dict[str, Any]) -> str:
    agent, direct = status["audit"]["records_from_agent"], status["audit"]["records_direct"]
    return f"{agent / (agent + direct):.0%}" if agent + direct else "none"


def _members(status: dict[str, Any], colors: dict[str, str]) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("EXECUTOR", "AGENT PID", "HEARTBEAT", "OWNS"):
        table.add_column(name, justify="left" if name == "OWNS" else "right")
    for member in status["members"]:
        table.add_row(
            Text(str(member["executor"]), colors[member["executor"]]),
            str(member["pid"]),
            f"{member['heartbeat_age_ms'] / 1000:.1f} s",
            Text(numbers(partitions(member["owned"])), colors[member["executor"]]),
        )
    return Panel(table, title="members", title_align="left", border_style="dim")


def _partitions(status: dict[str, Any], colors: dict[str, str]) -> RenderableType:
    columns = ("PARTITION", "COMMITTED", "LOG END", "LAG", "EXECUTOR")
    rows = status["partitions"]
    half = (len(rows) + 1) // 2
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in (*columns, "", *columns):
        table.add_column(name, justify="right", no_wrap=True)
    for left, right in zip(rows, [*rows[half:], None], strict=False):
        if left is rows[half]:
            break
        table.add_row(*_cells(left, colors), "  ", *(_cells(right, colors) if right else ()))
    return Panel(table, title="partitions", title_align="left", border_style="dim")


def _cells(row: dict[str, Any], colors: dict[str, str]) -> tuple[str | Text, ...]:
    def number(value: int | None) -> str:
        return "-" if value is None else f"{value:,}"

    owner = row["executor"]
    who = Text("none", "yellow") if owner is None else Text(str(owner), colors.get(owner, ""))
    return str(row["partition"]), number(row["current_offset"]), number(row["log_end_offset"]), number(row["lag"]), who
