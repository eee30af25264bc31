"""What runs yield, and in which order they are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, TypeVar

T = TypeVar("T")


class BenchError(RuntimeError):
    """A run that didn't deliver what it should; the message says which and what."""


def order(sources: Sequence[T], rounds: int) -> list[T]:
    """Every source once a round, there and back: A-B-C-C-B-A, so that a drift of the machine hits all alike."""
    return [each for number in range(rounds) for each in (sources if number % 2 == 0 else sources[::-1])]


@dataclass(frozen=True)
class Batch:
    """One micro-batch with rows: when it began and ended (epoch s), its rows, and the CPU-seconds used until its end.

    ``sunk`` is when its rows were all in the sink, ``observed`` what the query observed of them (named metrics).
    """

    began: float
    ended: float
    rows: int
    cpu: Mapping[str, float]
    sunk: float = 0.0
    observed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Spark's triggerExecution."""
        return self.ended - self.began


@dataclass(frozen=True)
class Throughput:
    """What one run over all of a topic cost.  ``rows`` and CPU are of the steady batches: neither first nor last."""

    peer: str
    rows: int
    wall_s: float
    cpu_s: Mapping[str, float]
    query_rows: int
    query_wall_s: float
    query_cpu_s: float
    first_batch_s: float

    @property
    def rows_per_s(self) -> float:
        """Steady rows per second of wall time."""
        return self.rows / self.wall_s

    @property
    def cpu_per_million(self) -> float:
        """Steady CPU-seconds of all client processes per million rows."""
        return sum(self.cpu_s.values()) / self.rows * 1e6


@dataclass(frozen=True)
class Whole:
    """One whole query: seconds of load(), from there to the end of the first batch and of the query, and its CPU-seconds."""

    load_s: float
    first_batch_s: float
    wall_s: float
    cpu_s: float


@dataclass(frozen=True)
class Trickle:
    """Trigger times in ms of the batches that a query got through; the first ones are not among them."""

    peer: str
    partitions: int
    trigger_ms: tuple[float, ...]
    unmeasured: int
    seconds: float

    @property
    def median_ms(self) -> float | None:
        """The median, None when no measured batch ended."""
        return median(self.trigger_ms) if self.trigger_ms else None


@dataclass(frozen=True)
class Drained:
    """What one process took for the rows behind its first ones."""

    peer: str
    rows: int
    wall_s: float
    cpu_s: float

    @property
    def rows_per_s(self) -> float:
        """Rows per second of wall time."""
        return self.rows / self.wall_s

    @property
    def rows_per_cpu_s(self) -> float:
        """Rows per CPU-second of all threads."""
        return self.rows / self.cpu_s
