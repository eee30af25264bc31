"""What the group is doing, asked twice a second: through the connection file, as ``cohort describe`` does."""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.rpc import connection_file

EVERY_S: Final = 0.4
RATE_OVER_S: Final = 4.0


class Watch:
    """Polls the status of one group; ``say`` hears of every rebalance as it is seen."""

    def __init__(self, group_id: str, say: Callable[[str], None]) -> None:
        self._group_id = group_id
        self._say = say
        self._found: connection_file.Connection | None = None
        self._told = 0
        self._names: dict[str, str] = {}
        self._counted: deque[tuple[float, int]] = deque()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self.status: dict[str, Any] = {}
        self.agents: set[int] = set()

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self) -> None:
        """Ask no more; the last status stays."""
        self._stop.set()
        self._thread.join()

    def refresh(self) -> dict[str, Any]:
        """Ask once, now; the last answer when there is none."""
        try:
            self._found = self._found or connection_file.find(self._group_id)[0]
            status = connection_file.fetch_status(self._found)
        except CohortError:
            return self.status
        if status:
            self._take(status)
        return self.status

    @property
    def asking(self) -> bool:
        """Whether the status is a live one."""
        return self._thread.is_alive() and not self._stop.is_set()

    @property
    def rows_per_second(self) -> float:
        """Records that tasks delivered per second, over the last few seconds."""
        if len(self._counted) < 2:
            return 0.0
        (began, before), (ended, after) = self._counted[0], self._counted[-1]
        return (after - before) / (ended - began)

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            self.refresh()

    def _take(self, status: dict[str, Any]) -> None:
        audit = status["audit"]
        self._counted.append((time.monotonic(), audit["records_from_agent"] + audit["records_direct"]))
        while self._counted[-1][0] - self._counted[0][0] > RATE_OVER_S:
            self._counted.popleft()
        for member in status["members"]:
            self._names[member["member_id"]] = f"executor {member['executor']}"
            self.agents.add(member["pid"])
        new = status["rebalances"][self._told :]
        self._told, self.status = len(status["rebalances"]), status
        for done in new:
            self._say(self.described(done))

    def described(self, done: dict[str, Any]) -> str:
        """One rebalance in words, members named by their executors."""
        reason = done["reason"]
        for member_id, name in self._names.items():
            reason = reason.replace(member_id, name)
        reason = re.sub(r"\bdriver-\w+-\d+", "the driver", reason)
        moved, revoked = partitions(done["moved"]), partitions(done["revoked"])
        parts = [f"rebalance to generation {done['generation']} in {done['duration_ms']} ms ({reason})"]
        parts.append("1 member" if done["members"] == 1 else f"{done['members']} members")
        if moved:
            parts.append(f"moved: {numbers(moved)}")
        if revoked:
            parts.append(f"to be given up: {numbers(revoked)}")
        return ", ".join(parts)


def partitions(pairs: list[list[Any]]) -> list[int]:
    """The numbers of partitions out of (topic, partition) pairs, sorted."""
    return sorted(number for _, number in pairs)


def numbers(found: list[int]) -> str:
    """Partition numbers as text."""
    return " ".join(map(str, found)) or "none"
