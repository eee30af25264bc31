"""Negative controls: a campaign's own history, spoiled in one place, which the judge has to find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from tests.chaos.judge import Ends, Evidence, judge

Batches = list[tuple[int, dict[str, list[int]]]]


def missed(evidence: Evidence) -> list[str]:
    """The kinds that are not found although they are there now, a line each; also where there is nothing that could be spoiled."""
    before = judge(evidence).findings
    found = []
    for kind, what, spoil in _SPOILED:
        try:
            after = judge(spoil(evidence)).findings
        except (IndexError, StopIteration, ValueError):
            found.append(f"the judge has no {what} to look at")
            continue
        if len(after[kind]) <= len(before[kind]):
            found.append(f"the judge does not find {kind} ({what})")
    return found


def _batches(evidence: Evidence) -> Batches:
    return [
        (number, {at: list(offsets) for at, offsets in each.items() if offsets}) for number, each in evidence.batches
    ]


def _pair(batches: Batches) -> tuple[str, dict[str, list[int]], dict[str, list[int]]]:
    """A partition, an earlier batch with several records of it, and the last batch, which has some, too."""
    last = batches[-1][1]
    at, earlier = next((at, each) for at in last for _, each in reversed(batches[:-1]) if len(each.get(at, ())) > 1)
    return at, earlier, last


def _lost(evidence: Evidence) -> Evidence:
    batches = _batches(evidence)
    at, _, later = _pair(batches)
    later[at].pop()
    return replace(evidence, batches=batches)


def _doubled(evidence: Evidence) -> Evidence:
    batches = _batches(evidence)
    at, earlier, later = _pair(batches)
    later[at].insert(0, earlier[at][-1])
    return replace(evidence, batches=batches)


def _skipped(evidence: Evidence) -> Evidence:
    batches = _batches(evidence)
    at, earlier, later = _pair(batches)
    later[at].insert(0, earlier[at].pop(0))
    return replace(evidence, batches=batches)


def _back(ends: Sequence[Ends]) -> list[Ends]:
    *rest, before, last = ends
    at = next(iter(before.keys() & last.keys()))
    return [*rest, before, {**last, at: before[at] - 1}]


_SPOILED: Final[tuple[tuple[str, str, Callable[[Evidence], Evidence]], ...]] = (
    ("lost", "delivered records", _lost),
    ("doubled", "delivered records", _doubled),
    ("skipped", "delivered records", _skipped),
    ("stepped back", "batches of the offset log", lambda evidence: replace(evidence, ranges=_back(evidence.ranges))),
    ("stepped back", "commits of the group", lambda evidence: replace(evidence, commits=_back(evidence.commits))),
    (
        "lost",
        "acknowledged records",
        lambda evidence: replace(
            evidence, acknowledged={at: len(evidence.held[at]) + 1 for at in evidence.acknowledged if evidence.held[at]}
        ),
    ),
)
CONTROLS: Final = len(_SPOILED)
