"""What the demo shows: a line for each event, and every two seconds where the group is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, Final

from rich.console import Console
from rich.text import Text

from tools.demo.watch import numbers, partitions

LINE_EVERY_S: Final = 2.0
WAITING_EVERY_S: Final = 10.0


class Screen:
    """Shows what happens: ``say`` tells an event, ``phase`` what is being done; the rest is asked for as it is shown."""

    def __init__(self, out: IO[str], facts: Callable[[], dict[str, Any]]) -> None:
        self.console = Console(file=out, highlight=False)
        self._facts = facts
        self._began = time.monotonic()
        self._phase = ""
        self._told = 0.0
        self._stop = threading.Event()

    @property
    def seconds(self) -> float:
        """Since the demo began."""
        return time.monotonic() - self._began

    def say(self, text: str) -> None:
        """Tell an event."""
        self._line(text, "bold")

    def phase(self, text: str) -> None:
        """Tell what is being done from now on."""
        self._phase = text
        self.say(text)

    @contextmanager
    def showing(self) -> Iterator[None]:
        """Tell where the group is until the block ends."""
        ticker = threading.Thread(target=self._tick, name="screen", daemon=True)
        ticker.start()
        try:
            yield
        finally:
            self._stop.set()
            ticker.join()

    def _tick(self) -> None:
        while not self._stop.wait(LINE_EVERY_S):
            facts = self._facts()
            if facts["status"] and facts["streaming"]:
                self._line(_summary(facts))
            elif self.seconds - self._told >= WAITING_EVERY_S:
                self._line(f"... {self._phase}")

    def _line(self, text: str, style: str = "") -> None:
        self._told = self.seconds
        self.console.print(Text(f"{self._told:6.1f} s  {text}", style), soft_wrap=True)


def _summary(facts: dict[str, Any]) -> str:
    status = facts["status"]
    owned = sum(row["member_id"] is not None for row in status["partitions"])
    owners = "  ".join(f"{m['executor']}:[{numbers(partitions(m['owned']))}]" for m in status["members"])
    lag = sum(row["lag"] or 0 for row in status["partitions"])
    agent, direct = status["audit"]["records_from_agent"], status["audit"]["records_direct"]
    share = f"{agent / (agent + direct):.0%}" if agent + direct else "none"
    return (
        f"{status['state']} gen {status['generation']}  owned {owned}/{len(status['partitions'])}  {owners}  "
        f"lag {lag:,}  {facts['rows_per_second']:,.0f} rows/s  {share} prefetched  "
        f"produced {facts['produced']:,}  delivered {facts['delivered']:,}"
    )
