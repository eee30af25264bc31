"""What became of the records, in Jepsen's words; no clock, no broker, no file.

*lost*: the cluster holds it (and acknowledged it), the sink has it not.  *doubled*: the sink, which is idempotent by batch id,
has it in two batches.  *stepped back*: a batch begins before the end of the one before it, or the group's commit goes down.
*skipped*: a batch begins after the end of the one before it.  *unacknowledged* records that the cluster took are records all
the same.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

Ends = Mapping[str, int]
"""Offsets by partition, ``topic-number``."""


@dataclass(frozen=True)
class Evidence:
    """The history of one campaign.

    ``held``: offsets that the cluster has, by partition, ascending; ``acknowledged``: how many it said it has.  ``batches``: what
    each delivered, in order.  ``ranges``: the offset log, batch by batch.  ``commits``: the group's, as they were seen one after
    the other.  ``wrong``: what others have found (the delivery checker), a line each, which begins with its kind.
    """

    held: Mapping[str, Sequence[int]]
    acknowledged: Mapping[str, int]
    batches: Sequence[tuple[int, Mapping[str, Sequence[int]]]]
    ranges: Sequence[Ends]
    commits: Sequence[Ends]
    wrong: Sequence[str] = ()


@dataclass(frozen=True)
class Verdict:
    """What was found; each finding is one line."""

    records: int
    batches: int
    findings: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def well(self) -> bool:
        """Whether nothing is wrong."""
        return not any(self.findings.values())

    def lines(self) -> list[str]:
        """A count of each kind, then the findings, twenty of each at most."""
        counts = ", ".join(f"{name} {len(found)}" for name, found in self.findings.items())
        told = [f"  {name}: {line}" for name, found in self.findings.items() for line in found[:20]]
        return [f"{self.records:,} records in {self.batches:,} batches: {counts}", *told]


def judge(evidence: Evidence, ends: Sequence[str] = ()) -> Verdict:
    """The verdict on one campaign; ``ends``: ends of the query that nothing excuses."""
    lines = [*places(evidence.held, evidence.batches), *evidence.wrong]
    findings: dict[str, list[str]] = {
        name: [line for line in lines if line.startswith(name)] for name in ("lost", "doubled", "changed")
    }
    findings["lost"] += [
        f"lost by the cluster: {len(evidence.held.get(at, ()))} of {count} acknowledged records of {at}"
        for at, count in sorted(evidence.acknowledged.items())
        if len(evidence.held.get(at, ())) < count
    ]
    findings["stepped back"] = [*_back("batch", evidence.ranges), *_back("commit", evidence.commits)]
    findings["skipped"] = [line for line in lines if line.startswith("skipped")]
    findings["left open"] = [line for line in lines if line.startswith("left open")]
    findings["ended without a reason"] = list(ends)
    return Verdict(sum(map(len, evidence.held.values())), len(evidence.ranges), findings)


def _back(what: str, ends: Sequence[Ends]) -> list[str]:
    return [
        f"{what} {number + 1}: {at} from {before[at]} to {after[at]}"
        for number, (before, after) in enumerate(pairwise(ends))
        for at in sorted(before.keys() & after.keys())
        if after[at] < before[at]
    ]


def places(
    expected: Mapping[str, Sequence[int]], batches: Sequence[tuple[int, Mapping[str, Sequence[int]]]]
) -> list[str]:
    """Lost, doubled and skipped, from offsets alone: ``expected`` by partition, ascending, ``batches`` in order with what each delivered."""
    seen: dict[str, dict[int, int]] = {at: {} for at in expected}
    tops: dict[str, int] = {}
    found: list[str] = []
    for number, delivered in batches:
        for at, offsets in delivered.items():
            have = seen.setdefault(at, {})
            top, among = tops.get(at, -1), expected.get(at, ())
            found += [f"doubled: {at}@{o} in batches {have[o]} and {number}" for o in offsets if o in have]
            first = min(offsets, default=top)
            between = [o for o in among[bisect_right(among, top) : bisect_left(among, first)] if o not in have]
            if between:
                found.append(f"skipped: {at}@{between[0]} and {len(between) - 1} more before batch {number}")
            have.update(dict.fromkeys(offsets, number))
            tops[at] = max(top, *offsets) if offsets else top
    for at, offsets in expected.items():
        missing = [o for o in offsets if o not in seen[at]]
        if missing:
            found.append(f"lost: {at}@{missing[0]} and {len(missing) - 1} more")
    return found


def standstills(
    delivered_at: Sequence[float], faults: Iterable[tuple[str, float, float]], after_s: float
) -> dict[str, float]:
    """The longest time without a batch, by kind of fault: of all gaps that overlap a fault and the ``after_s`` that follow it."""
    gaps = list(pairwise(sorted(delivered_at)))

    def touched(begin: float, over: float) -> list[float]:
        return [min(late, over) - early for early, late in gaps if early < over and late > begin]

    return _longest(faults, after_s, touched)


def _longest(
    faults: Iterable[tuple[str, float, float]], after_s: float, touched: Callable[[float, float], Iterable[float]]
) -> dict[str, float]:
    """By kind of fault, the longest of what each has ``touched`` from its beginning until ``after_s`` behind its end."""
    longest: dict[str, float] = {}
    for name, begin, end in faults:
        longest[name] = max([longest.get(name, 0.0), *touched(begin, end + after_s)])
    return longest


class Sight(NamedTuple):
    """What a ``read_committed`` reader saw at one moment: of each partition the high watermark and the last stable offset."""

    at_s: float
    ends: tuple[int, ...]
    stable: tuple[int, ...]


def lateness(sights: Sequence[Sight], logged_at: Sequence[float]) -> list[tuple[float, float]]:
    """How long readers stood still although batches were committed: for each sight (when, s).

    What a partition held then is readable once the last stable offset has passed it, at the latest when the next batch is in Spark's
    log: the commit has ended all transactions by then, those of the dead, too.  Whatever comes later is late.
    """
    logged = sorted(logged_at)
    readable_at = [sight.at_s for sight in sights]
    for place in range(len(sights[0].ends) if sights else 0):
        reached = 0
        for number, sight in enumerate(sights):
            reached = max(reached, number)
            while reached < len(sights) - 1 and sights[reached].stable[place] < sight.ends[place]:
                reached += 1
            readable_at[number] = max(readable_at[number], sights[reached].at_s)
    found = []
    for sight, when in zip(sights, readable_at, strict=True):
        following = bisect_right(logged, sight.at_s)
        if following < len(logged):
            found.append((sight.at_s, max(0.0, when - logged[following])))
    return found


def latest(
    late: Sequence[tuple[float, float]], faults: Iterable[tuple[str, float, float]], after_s: float
) -> dict[str, float]:
    """The longest lateness by kind of fault, while it lasted and in the ``after_s`` that follow it."""
    return _longest(faults, after_s, lambda begin, over: [late_s for at_s, late_s in late if begin <= at_s <= over])


Samples = Sequence[tuple[float, float]]
"""A figure of one process: (when, s; how much), in order."""


def growth(lives: Iterable[Samples], long_s: float, warm_s: float) -> float | None:
    """By how much a figure grew in a life of a process, at most: the ratio of the medians of a long life's last third to its first.

    Lives shorter than ``long_s`` tell nothing: whatever grows begins anew with the next one.  The first ``warm_s`` of a life, or
    its third, is left out: caches fill.  None where no life is long enough.
    """
    return max((_grown(life, warm_s) for life in lives if _length_s(life) >= long_s), default=None)


def _length_s(life: Samples) -> float:
    return life[-1][0] - life[0][0] if life else 0.0


def _grown(life: Samples, warm_s: float) -> float:
    from_s = life[0][0] + min(warm_s, _length_s(life) / 3)
    values = [value for at_s, value in life if at_s >= from_s]
    third = max(1, len(values) // 3)
    first, last = (sorted(part)[len(part) // 2] for part in (values[:third], values[-third:]))
    return last / first if first else 1.0
