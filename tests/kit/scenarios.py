"""The scenarios of Spark's own Kafka suites, by their names there: what becomes of each, and which test shows it.

``python -m tests.kit.pages`` makes docs/audit/scenarios.md of it.
``make parity`` runs the tests that run both formats and compare them: all but those whose row says why it is on ours ``alone``.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby

from tests.kit.spark_scenarios import DIFFERENT, REFUSED, SCENARIOS


def parity() -> list[str]:
    """The tests that run both formats, once each."""
    return sorted({row.test.partition("[")[0] for row in SCENARIOS if row.beside})


def summary() -> str:
    """What docs/audit/scenarios.md shows: each suite's counts, and by name what is refused or different."""
    lines = ["| scenarios | result | why, or what to do |", "|---|---|---|"]
    for suite, rows in groupby(SCENARIOS, lambda row: row.suite):
        counts: Counter[str] = Counter()
        alike: dict[tuple[str, str], list[str]] = {}
        for row in rows:
            if row.result in {REFUSED, DIFFERENT}:
                alike.setdefault((row.result, row.words), []).append(row.name)
            else:
                counts[row.result] += 1
        counted = ", ".join(f"{count} {result}" for result, count in counts.items())
        lines.append(f"| **{suite}** | {counted} | |")
        lines += [f"| {'<br>'.join(names)} | {' | '.join(cells)} |" for cells, names in alike.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    print("\n".join(parity()))  # noqa: T201  for make parity
