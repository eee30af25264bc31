"""What happens when, drawn from a seed: the same seed and length give the same campaign.

A fault says which end it excuses (``endings``): a query that ends by another is a fault of ours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.chaos.endings import DRIVER, QUERY, STOPPED, Ending

BROKERS: Final = 3
LONGEST_S: Final = 35.0
CALM_S: Final = (2.0, 9.0)
"""Between the end of a fault and the next one's beginning; sometimes it begins before the end."""
OVERLAPS: Final = 0.25


@dataclass(frozen=True)
class Kind:
    """One kind of fault: for how long (0: a blow), whom, and which end of a query or driver it excuses."""

    name: str
    seconds: tuple[float, float]
    target: str  # broker, executor, agent, worker, runner, driver, or "" for the cluster or the query as a whole
    ends: Ending | None = None
    kills: bool = False  # processes of ours end by it, or may
    alone: bool = False  # nothing else happens meanwhile
    weight: int = 2


KINDS: Final = (
    Kind("executor-killed", (0, 0), "executor", kills=True),
    Kind("executor-frozen", (2, 25), "executor", kills=True),  # Spark gives it up after 20 s
    Kind("executors-gone", (5, 20), "", kills=True),
    Kind("executors-scaled", (0, 0), "", kills=True, weight=3),
    Kind("agent-killed", (0, 0), "agent", kills=True, weight=3),
    Kind("agent-frozen", (2, 25), "agent", weight=3),
    Kind("worker-killed", (0, 0), "worker", kills=True),
    Kind("worker-frozen", (2, 25), "worker"),
    Kind("runner-killed", (0, 0), "runner", Ending(QUERY), kills=True),
    Kind("runner-frozen", (2, 25), "runner"),
    Kind("driver-killed", (0, 0), "driver", Ending(DRIVER, "ended with -9"), kills=True, alone=True),
    # PySpark gives a Python process that it has just started ten seconds to connect back.
    Kind("driver-frozen", (2, 25), "driver", Ending(QUERY, "failed to connect back", once=False)),
    Kind("broker-killed", (3, 20), "broker", weight=3),
    Kind("broker-frozen", (2, 20), "broker", weight=3),
    Kind("coordinator-killed", (3, 20), "coordinator", weight=3),
    Kind("coordinator-frozen", (2, 20), "coordinator"),
    Kind("brokers-rolled", (0, 0), "", alone=True),
    Kind("leaders-moved", (0, 0), ""),
    Kind("cut-clients-broker", (3, 35), "broker"),
    Kind("cut-clients-broker-requests", (3, 20), "broker"),
    Kind("cut-clients-broker-answers", (3, 20), "broker"),
    Kind("cut-broker-brokers", (3, 20), "broker"),
    Kind("cut-broker-brokers-answers", (3, 20), "broker"),
    Kind("cut-agents-driver", (3, 35), ""),
    Kind("cut-agents-driver-requests", (3, 20), ""),
    Kind("cut-agents-driver-answers", (3, 20), ""),
    Kind("cut-executors-driver", (3, 15), ""),
    Kind("cut-executors-driver-answers", (3, 15), ""),
    Kind("sink-throws", (0, 0), "", Ending(QUERY, "told to throw"), kills=True),
    Kind("query-stopped", (0, 0), "", Ending(QUERY, STOPPED), kills=True),
    Kind("checkpoint-disk-full", (2, 8), "", Ending(QUERY, "No space left", once=False), kills=True, alone=True),
    Kind("journal-disk-full", (2, 20), "", alone=True),
    Kind("clock-of-driver-jumps", (5, 40), ""),
    Kind("clock-of-executors-jumps", (5, 40), ""),
)
BY_NAME: Final = {kind.name: kind for kind in KINDS}
KILL_NOBODY: Final = tuple(kind.name for kind in KINDS if not kind.kills)
"""With these alone, processes of ours live long enough to show whether they grow."""
SCALES: Final = (1, 2, 5, 3)
"""To how many executors, one after the other, again and again; a campaign begins with 3."""


@dataclass(frozen=True)
class Fault:
    """One fault: what, from when (s since the campaign began), for how long, and which of its targets (a fraction of them)."""

    kind: Kind
    at_s: float
    seconds: float
    which: float

    @property
    def end_s(self) -> float:
        """When it is taken back."""
        return self.at_s + self.seconds

    def __str__(self) -> str:
        """As the history has it."""
        lasts = f" for {self.seconds:.1f} s" if self.seconds else ""
        return f"{self.at_s:7.1f} s  {self.kind.name}{lasts}"


def draw(seed: int, length_s: float, names: Collection[str] = ()) -> list[Fault]:
    """All faults of a campaign, by time; the last one is over ``LONGEST_S`` before the end, or at half of a short one."""
    return list(_drawn(Random(seed), max(length_s - LONGEST_S, length_s / 2), names))


def _drawn(random: Random, until_s: float, names: Collection[str]) -> Iterator[Fault]:
    kinds = [kind for kind in KINDS if not names or kind.name in names]
    at_s, busy_until_s, before = random.uniform(*CALM_S), 0.0, None
    while True:
        kind = random.choices(kinds, [each.weight for each in kinds])[0]
        if kind.alone or (before is not None and before.alone):
            at_s = max(at_s, busy_until_s + CALM_S[0])
        fault = Fault(kind, round(at_s, 1), round(random.uniform(*kind.seconds), 1), round(random.random(), 3))
        if fault.end_s > until_s:
            return
        yield fault
        before, busy_until_s = kind, max(busy_until_s, fault.end_s)
        overlaps = random.random() < OVERLAPS
        at_s = (fault.at_s + fault.seconds / 2 if overlaps else busy_until_s) + random.uniform(*CALM_S)
