"""A group of executors whose status a test scripts: partitions move, executors go and come, things go wrong."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from sparkcohort.runtime.shell.driver.flow_meter import FlowMeter
from sparkcohort.runtime.shell.driver.problems import ProblemWatch
from sparkcohort.runtime.shell.driver.status import with_problems
from tests.kit.status import a_member, a_partition, a_status


class ScriptedGroup:
    """The status of a group as the driver's port gets it; ``changes`` replaces keys of it."""

    def __init__(self, executors: int, partitions: int, topic: str = "orders") -> None:
        """Partitions are dealt to the executors in turn."""
        self.topic, self.names = topic, [str(number) for number in range(1, executors + 1)]
        self.owners: list[str | None] = [self.names[number % executors] for number in range(partitions)]
        self.ends, self.offsets = [1_000] * partitions, [990] * partitions
        self.changes: dict[str, Any] = {}
        self.rows: dict[int, dict[str, Any]] = {}
        self.rebalances: list[dict[str, Any]] = []
        self._flow, self._problems = FlowMeter(), ProblemWatch()

    def status(self) -> dict[str, Any]:
        """The document now."""
        members = [self._member(name) for name in self.names]
        audit = {**a_status()["audit"], "records_from_agent": sum(self.offsets), "agent_timeouts": 0}
        calm = {"malformed": [], "foreign_members": {"found": 0, "present": 0}, "agent_starts": {}, "audit": audit}
        calm |= {"commits": {**a_status()["commits"], "failures": 0}, "take_overs": {"handover": 0, "fencing": 0}}
        built = a_status(
            **calm, members=members, partitions=[self._partition(number) for number in range(len(self.owners))]
        )
        built |= {"rebalances": list(self.rebalances), "generation": 7 + len(self.rebalances), **self.changes}
        return with_problems(built, self._flow, self._problems, time.time())

    def give(self, partitions: Iterable[int], executor: str | None, cause: str) -> None:
        """A rebalance in which these partitions go to another executor, or to nobody."""
        before = self._holdings()
        moved = [number for number in partitions if self.owners[number] != executor]
        for number in moved:
            self.owners[number] = executor
        self.rebalances.append(
            {
                "generation": 8 + len(self.rebalances),
                "at": time.time(),
                "reason": cause,
                "cause": cause,
                "duration_ms": 12,
                "protocol": "cooperative-sticky",
                "result": "ok",
                "members": len(self.names),
                "started_ms": 0,
                "moved": [[self.topic, number] for number in moved] if executor else [],
                "revoked": [] if executor else [[self.topic, number] for number in moved],
                "kept": len(self.owners) - len(moved),
                "before": before,
                "after": self._holdings(),
            }
        )

    def lose(self, executor: str) -> list[int]:
        """An executor is gone; its partitions wait for a replacement."""
        partitions = [number for number, owner in enumerate(self.owners) if owner == executor]
        self.names.remove(executor)
        self.give(partitions, None, f"sessions of executor-{executor} expired")
        return partitions

    def flow(self, records: int) -> None:
        """Records come and are read."""
        self.offsets, self.ends = list(self.ends), [end + records for end in self.ends]

    def _holdings(self) -> dict[str, list[list[Any]]]:
        held: dict[str, list[list[Any]]] = {f"m-{name}": [] for name in self.names}
        for number, owner in enumerate(self.owners):
            if owner:
                held.setdefault(f"m-{owner}", []).append([self.topic, number])
        return held

    def _member(self, name: str) -> dict[str, Any]:
        owned = [[self.topic, number] for number, owner in enumerate(self.owners) if owner == name]
        return a_member(f"m-{name}", name, f"10.0.0.{10 + int(name)}", owned, 20)

    def _partition(self, number: int) -> dict[str, Any]:
        row = a_partition(number, self.offsets[number], self.ends[number], self.owners[number], start=0, age_s=0.4)
        return {**row, "topic": self.topic, **self.rows.get(number, {})}
