"""Medians with their spread, ratios of runs that were made side by side, and what is demanded of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

Spread = dict[str, float]
Value = float | None


def spread(values: Sequence[float]) -> Spread:
    """Median, least and greatest."""
    return {"median": median(values), "min": min(values), "max": max(values)}


def paired(over: Sequence[float], under: Sequence[float]) -> Spread | None:
    """The spread of the ratios of the runs of the same round, which a drift of the machine hits alike; None without any."""
    found = [a / b for a, b in zip(over, under, strict=False) if b]
    return spread(found) if found else None


def middle(seen: Mapping[str, float] | None) -> Value:
    """The median of what may not be known."""
    return None if seen is None else seen["median"]


def ratio(over: Value, under: Value) -> Value:
    """``over / under``, None when one of them isn't known."""
    return None if over is None or not under else over / under


def percentile(values: Sequence[tuple[float, float]], share: float) -> float:
    """The value below which ``share`` of the weight lies, of (value, weight) pairs; raises ValueError without any."""
    if not values:
        raise ValueError("no values")
    left = share * sum(weight for _, weight in values)
    for value, weight in sorted(values):
        left -= weight
        if left <= 0:
            return value
    return max(value for value, _ in values)


def shown(seen: Mapping[str, float] | None, scale: float = 1, digits: int = 2) -> str:
    """A spread for people."""
    if seen is None:
        return "-"
    low, mid, high = (f"{seen[name] * scale:,.{digits}f}" for name in ("min", "median", "max"))
    return f"{mid} ({low} to {high})"


@dataclass(frozen=True)
class Bound:
    """What was found of something, and what it must be, ``at_least`` or else at most; ``aim`` is what it should be."""

    what: str
    value: Value
    must: float | None
    at_least: bool = True
    aim: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the demand is met, if there is one; what isn't known doesn't meet it."""
        return self.must is None or self._met(self.must)

    def _met(self, by: float) -> bool:
        if self.value is None:
            return False
        return self.value >= by if self.at_least else self.value <= by

    def as_value(self) -> dict[str, Any]:
        """Plain values for JSON."""
        found: dict[str, Any] = {"value": self.value}
        if self.must is not None:
            found["at_least" if self.at_least else "at_most"] = self.must
        if self.aim is not None:
            found |= {"aim": self.aim, "aim_met": self._met(self.aim)}
        return found | {"holds": self.holds}
