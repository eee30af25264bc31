"""Measures while a campaign runs: memory, descriptors and threads of each part, and the group's commits."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

import psutil

from tests.chaos.judge import growth
from tests.chaos.query import QueryUnderTest

EVERY_S: Final = 5.0
ROLES: Final = ("runner", "agent", "driver")
MOST_GROWTH: Final = 1.25
SETTLED_S: Final = 600.0
"""What a figure was before the tenth minute is not compared: caches fill."""


class Watch:
    """A thread that looks every few seconds, from ``start`` to ``close``."""

    def __init__(self, query: QueryUnderTest, committed: Callable[[], Mapping[str, int]]) -> None:
        self._query, self._committed = query, committed
        self.commits: list[Mapping[str, int]] = []
        self.samples: dict[str, list[tuple[float, float]]] = defaultdict(list)
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
            with suppress(Exception):  # a part that goes while it is looked at
                self._look(time.monotonic() - self._began)
            with suppress(Exception):  # a coordinator that is away
                self.commits.append(self._committed())

    def _look(self, now_s: float) -> None:
        for role in ROLES:
            found = [figures for process in self._query.parts(role) if (figures := _figures(process)) is not None]
            for name in ("memory MiB", "descriptors", "threads"):
                if found:
                    self.samples[f"{role}: {name}"].append((now_s, max(each[name] for each in found)))

    def table(self) -> list[str]:
        """Each figure at first and at last, and by how much it grew."""
        lines = [f"{'':24}{'first':>10}{'last':>10}{'largest':>10}{'growth':>8}"]
        for name, samples in sorted(self.samples.items()):
            values = [value for _, value in samples]
            lines.append(
                f"{name:24}{values[0]:10.0f}{values[-1]:10.0f}{max(values):10.0f}{growth(self._settled(name)):8.2f}"
            )
        return lines

    def grown(self) -> list[str]:
        """Figures that are not flat after the tenth minute."""
        found = {name: growth(self._settled(name)) for name in self.samples}
        return [f"grows: {name} by {ratio:.2f}" for name, ratio in sorted(found.items()) if ratio > MOST_GROWTH]

    def _settled(self, name: str) -> list[float]:
        return [value for at_s, value in self.samples[name] if at_s >= SETTLED_S]


def _figures(process: psutil.Process) -> dict[str, float] | None:
    try:
        with process.oneshot():
            memory = process.memory_info().rss / (1 << 20)
            return {"memory MiB": memory, "descriptors": process.num_fds(), "threads": process.num_threads()}
    except psutil.Error:
        return None
