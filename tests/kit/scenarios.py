"""The scenarios of Spark's own Kafka suites and of Flink's, by their names there: what becomes of each, and which test shows it.

``python -m tests.kit.pages`` makes docs/reference/scenarios.md of it; ``make parity`` runs the tests that run both formats and
compare them: all but those whose row says why it is on ours ``alone``.
"""

from __future__ import annotations

from typing import Final

from tests.kit import flink_scenarios, spark_scenarios
from tests.kit.scenario import Scenario

SCENARIOS: Final = (*spark_scenarios.SCENARIOS, *flink_scenarios.SCENARIOS)


def parity() -> list[str]:
    """The tests that run both formats, once each."""
    return sorted({row.test.partition("[")[0] for row in SCENARIOS if row.beside})


def table() -> str:
    """A row for each, by suite."""
    lines = ["| scenario | result | why, or what to do | run by |", "|---|---|---|---|"]
    suite = ""
    for row in SCENARIOS:
        if row.suite != suite:
            suite = row.suite
            lines.append(f"| **{suite}** | | | |")
        lines.append(f"| {row.name} | {row.result} | {row.words} | {_run_by(row)} |")
    return "\n".join(lines)


def _run_by(row: Scenario) -> str:
    if not row.test:
        return ""
    path, _, name = row.test.partition("::")
    shown = f"`{path.removeprefix('tests/')}`" + (f" `{name}`" if name else "")
    return shown + (f", ours alone: {row.alone}" if row.alone else ", both formats")


if __name__ == "__main__":
    print("\n".join(parity()))  # noqa: T201  for make parity
