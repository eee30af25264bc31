"""What was measured, run by run: medians with their spread, ratios of runs that were made side by side, and what is demanded of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

Spread = dict[str, float]
Value = float | None


def spread(values: Iterable[Value]) -> Spread | None:
    """Median, least and greatest of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return {"median": median(known), "min": min(known), "max": max(known)} if known else None


def middle(seen: Mapping[str, float] | None) -> Value:
    """The median of what may not be known."""
    return None if seen is None else seen["median"]


def ratio(over: Value, under: Value) -> Value:
    """``over / under``, None when one of them isn't known."""
    return None if over is None or not under else over / under


def difference(over: Value, under: Value) -> Value:
    """``over - under``, None when one of them isn't known."""
    return None if over is None or under is None else over - under


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
class Sample:
    """One run: what was done, by which source, and its figures by name; None is what could not be known."""

    case: str
    source: str
    figures: Mapping[str, Value]


class Samples:
    """All runs of a part, in the order of the rounds."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._figures: dict[str, dict[str, list[Mapping[str, Value]]]] = {}
        for sample in samples:
            self._figures.setdefault(sample.case, {}).setdefault(sample.source, []).append(sample.figures)

    @property
    def cases(self) -> list[str]:
        """What was done, in order."""
        return list(self._figures)

    def sources(self, case: str) -> list[str]:
        """Who did it."""
        return list(self._figures.get(case, {}))

    def names(self, case: str, source: str, prefix: str = "") -> list[str]:
        """The names of its figures that begin so."""
        names = {name: None for run in self._runs(case, source) for name in run if name.startswith(prefix)}
        return list(names)

    def spread(self, case: str, source: str, figure: str) -> Spread | None:
        """Over all runs."""
        return spread(run.get(figure) for run in self._runs(case, source))

    def over(
        self, case: str, source: str, figure: str, beside: tuple[str, str], by: Callable[[Value, Value], Value] = ratio
    ) -> Spread | None:
        """The runs of the same round, which a drift of the machine hits alike, beside another case and source."""
        pairs = zip(self._runs(case, source), self._runs(*beside), strict=False)
        return spread(by(ours.get(figure), theirs.get(figure)) for ours, theirs in pairs)

    def as_value(self) -> dict[str, Any]:
        """Plain values for JSON: by case, source and figure."""
        return {
            case: {
                source: {"runs": len(runs)}
                | {name: self.spread(case, source, name) for name in self.names(case, source)}
                for source, runs in sources.items()
            }
            for case, sources in self._figures.items()
        }

    def _runs(self, case: str, source: str) -> Sequence[Mapping[str, Value]]:
        return self._figures.get(case, {}).get(source, [])


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


@dataclass(frozen=True)
class Demand:
    """What is demanded of a figure of the first of ``sources`` that was measured, or of its ratio to that of ``beside``.

    ``beside`` is a source, of the same case or of ``beside_case``; ``by`` compares in another way than by a ratio.
    """

    case: str
    figure: str
    what: str
    must: float | None
    sources: tuple[str, ...] = ("cohort",)
    beside: str = ""
    beside_case: str = ""
    at_least: bool = False
    aim: float | None = None
    by: Callable[[Value, Value], Value] = ratio

    def bound(self, part: str, samples: Samples) -> Bound | None:
        """None where it was not measured, or what it is compared with."""
        measured = samples.sources(self.case)
        source = next((source for source in self.sources if source in measured), None)
        other = (self.beside_case or self.case, self.beside or source or "")
        compared = bool(self.beside or self.beside_case)
        if source is None or (compared and other[1] not in samples.sources(other[0])):
            return None
        at = self.case, source, self.figure
        seen = samples.over(*at, other, self.by) if compared else samples.spread(*at)
        name = f"{self.case}, {source}" if len(self.sources) > 1 else self.case
        what = f"{part}, {name}: {self.what}" + (f" : {self.beside}'s" if self.beside else "")
        return Bound(what, middle(seen), self.must, self.at_least, self.aim)
