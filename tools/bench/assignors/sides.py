"""The two sides, each a process of its own that prepares a group and measures it when told to."""

from __future__ import annotations

import select
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.kit.jars import class_path, java
from tools.bench.assignors.groups import Cell, Took

HERE: Final = Path(__file__).parent
OURS, KAFKAS = "ours", "Kafka's"
HEAP = "-Xmx6g"
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
WARM_RUNS = 8
WARMING = (20, 50, 10)


class SideError(Exception):
    """A side ended, or said something odd."""


class TooSlow(Exception):
    """A side did not answer within its patience; it has been ended."""


def command_of(side: str) -> list[str]:
    """What starts a side."""
    if side == OURS:
        return [sys.executable, "-P", str(HERE / "groups.py")]
    return [java(), HEAP, QUIET, "-cp", class_path("broker"), str(HERE / "KafkaSide.java")]


class Side:
    """One side; started when it is first asked, and anew after it was too slow."""

    def __init__(self, name: str, patience_s: float) -> None:
        self.name = name
        self._patience_s = patience_s
        self._process: subprocess.Popen[str] | None = None
        self._warm: set[str] = set()

    def prepare(self, cell: Cell) -> Took:
        """Make the group, and run once to get warm; raises TooSlow."""
        if cell.assignor not in self._warm:
            self._warm.add(cell.assignor)
            self._warm_up(cell.assignor)
        self._ask(f"prepare {cell.words()}", "ready")
        return self.run()

    def _warm_up(self, assignor: str) -> None:
        """A small group, often: the JVM compiles what runs often, and Kafka's side is measured warm."""
        members, per_member, topics = WARMING
        for subscriptions in ("equal", "unequal"):
            for event in ("fresh", "leaves"):
                warming = Cell(assignor, members, per_member, topics, subscriptions, event)
                self._ask(f"prepare {warming.words()}", "ready")
                for _ in range(WARM_RUNS if self.name != OURS else 1):
                    self.run()

    def run(self) -> Took:
        """Measure what was prepared; raises TooSlow."""
        nanoseconds, partitions, *_ = self._ask("run", "took")  # Kafka's side tells its bytes, too
        return Took(int(nanoseconds) / 1e9, int(partitions))

    def peak(self) -> int:
        """The most bytes that a run holds (ours only)."""
        return int(self._ask("memory", "peak")[0])

    def end(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        self._warm.clear()
        if process is not None:
            process.kill()
            process.communicate()

    def _ask(self, command: str, expected: str) -> list[str]:
        if self._process is None:
            start = ["setpriv", "--pdeathsig", "KILL", *command_of(self.name)]
            self._process = subprocess.Popen(start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        process = self._process
        if process.stdin is None or process.stdout is None or process.poll() is not None:
            raise SideError(f"{self.name} side has ended with status {process.poll()}")
        process.stdin.write(command + "\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], self._patience_s)
        if not ready:
            self.end()
            raise TooSlow(f"{self.name} took over {self._patience_s:g} s")
        answer, *words = process.stdout.readline().split() or [""]
        if answer != expected:
            hint = "" if self.name == OURS else ": is its Java a JDK (javac)?"
            raise SideError(f"{self.name} side said {answer!r} instead of {expected!r} to {command!r}{hint}")
        return words
