"""Measures while a campaign runs: memory, descriptors and threads of each part, and the group's commits."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from tests.chaos.judge import Samples, growth
from tests.chaos.query import QueryUnderTest

Look = tuple[float, float, float, float]
"""When, and the figures."""
EVERY_S: Final = 5.0
ROLES: Final = ("runner", "agent", "driver", "executor", "worker")
FIGURES: Final = ("memory MiB", "descriptors", "threads")
MOST_GROWTH: Final = 1.15
FEW: Final = 5.0
"""So many MiB, descriptors or threads more are not growth, however few there were."""
LONG_S, WARM_S = 600.0, 600.0
"""Lives of processes that tell whether they grow, and how much of their beginning tells nothing."""


class Watch:
    """A thread that looks every few seconds, from ``start`` to ``close``."""

    def __init__(self, query: QueryUnderTest, committed: Callable[[], Mapping[str, int]]) -> None:
        self._query, self._committed = query, committed
        self.commits: list[Mapping[str, int]] = []
        self.lives: dict[str, dict[tuple[int, float], list[Look]]] = {role: defaultdict(list) for role in ROLES}
        """By role, and process: its number and when it began, since numbers are used again."""
        self._began = time.monotonic()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaos-watch", daemon=True)

    def start(self) -> None:
        """Look from now on."""
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._closed.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self._closed.wait(EVERY_S):
            for role in ROLES:
                with suppress(Exception):  # a part that goes while it is looked at
                    self._look(role, time.monotonic() - self._began)
            with suppress(Exception):  # a coordinator that is away
                self.commits.append(self._committed())

    def _look(self, role: str, now_s: float) -> None:
        for process in self._query.parts(role):
            with suppress(psutil.Error), process.oneshot():
                memory = process.memory_info().rss / (1 << 20)
                self.lives[role][process.pid, process.create_time()].append(
                    (now_s, memory, process.num_fds(), threads_of(process.pid))
                )

    def table(self) -> list[str]:
        """Each figure: how many lives of processes, the longest, what it began and ended with, and the most that one grew."""
        lines = [f"{'':24}{'lives':>6}{'longest min':>12}{'first':>8}{'last':>8}{'largest':>8}  growth"]
        for role, name, lives in self._figures():
            values = [value for life in lives for _, value in life]
            longest = max(lives, key=lambda life: life[-1][0] - life[0][0])
            minutes, ratio = (longest[-1][0] - longest[0][0]) / 60, growth(lives, LONG_S, WARM_S)
            told = f"{longest[0][1]:8.0f}{longest[-1][1]:8.0f}{max(values):8.0f}"
            grew = "not measured: no life is long enough" if ratio is None else f"{ratio:.2f}"
            lines.append(f"{f'{role}: {name}':24}{len(lives):6}{minutes:12.1f}{told}  {grew}")
        return lines

    def grown(self) -> list[str]:
        """Figures that are not flat in a life of a process, once it is warm."""
        return [
            f"grows: {role}: {name} by {ratio:.2f}"
            for role, name, lives in self._figures()
            if (ratio := growth([_blunt(life) for life in lives], LONG_S, WARM_S)) is not None and ratio > MOST_GROWTH
        ]

    def _figures(self) -> Iterator[tuple[str, str, list[Samples]]]:
        for role, lives in self.lives.items():
            for place, name in enumerate(FIGURES, 1):
                if lives:
                    yield role, name, [[(look[0], look[place]) for look in life] for life in lives.values()]


def threads_of(pid: int) -> int:
    """A process's threads, without those that Spark's driver has for a minute, up to 200, when an executor is gone (BlockManagerMaster)."""
    count = 0
    for name in Path(f"/proc/{pid}/task").glob("*/comm"):
        with suppress(OSError):  # a thread that has ended
            count += not name.read_text().startswith("block-manager-")
    return count


def _blunt(life: Samples) -> Samples:
    """The same life with ``FEW`` more from the beginning on, in which a few more do not show."""
    return [(at_s, value + FEW / (MOST_GROWTH - 1)) for at_s, value in life]
