"""Grafana's dashboard, and Prometheus' rules with their tests: files that ``cohort dashboards write`` and ``rules write`` copy.

``cohort.json`` is made by ``tools/dashboards``; ``rules/cohort.yml`` is written by hand, and ``rules/cohort_test.yml``, about
the group ``billing``.  Nothing here runs.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

EVERY_GROUP: Final = 'group=~".+"'
"""The selector that each query of the rules has, so that rules for one group can be made of them."""

RUNBOOK: Final = "runbook: 'docs/operate/on-call.md"
"""How the alerts send who is called to a place in this repository; ``--runbooks`` makes ``runbook_url`` and an address of it."""

TESTED_GROUP: Final = "billing"
DASHBOARD: Final = "cohort.json"
RULES: Final = "rules/cohort.yml"
RULES_TEST: Final = "rules/cohort_test.yml"


def text(name: str) -> str:
    """One of the files above."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
