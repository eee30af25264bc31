"""The outcome of a check, and how outcomes are printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from sparkcohort.cli.views import View, view_of

OK: Final = "ok"
FAILED: Final = "failed"
WARNING: Final = "warning"
NOT_ASKED: Final = "not asked"
SIGNS: Final = {OK: "✓", FAILED: "✗", WARNING: "!", NOT_ASKED: "-"}


@dataclass(frozen=True, slots=True)
class Check:
    """What was checked, the result, the finding, and the remedy if there is one."""

    check: str
    result: str
    found: str
    remedy: str = ""


def as_lines(checks: Sequence[Check]) -> list[str]:
    """A line for each, and one for its remedy."""
    lines = []
    for check in checks:
        lines.append(f"{SIGNS[check.result]} {check.check}: {check.found}")
        if check.remedy:
            lines.append(f"    do: {check.remedy}")
    return lines


def as_view(checks: Sequence[Check]) -> View:
    """A row for each, for JSON and csv."""
    return view_of(
        ("CHECK", "RESULT", "FOUND", "REMEDY"), map(asdict, checks), {"REMEDY": lambda each: each["remedy"] or None}
    )
