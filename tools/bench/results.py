"""In which order runs are made, and what a micro-batch tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
