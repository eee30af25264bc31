"""Grafana's dashboard, Prometheus' rules with their tests, and the live page of the driver's port: files, nothing that runs.

``cohort dashboards write`` and ``cohort rules write`` copy the first two.  ``cohort.json`` is made by ``tools/dashboards``;
``rules/cohort.yml`` is written by hand, and ``rules/cohort_test.yml``, about the group ``billing``.  ``page/`` is served as
one document; its ``runbook.json`` is made of docs/operate/on-call.md.
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
PAGE: Final = "page/page.html"
PAGE_STYLE: Final = "page/page.css"
PAGE_SCRIPTS: Final = ("page/model.js", "page/lanes.js", "page/panels.js", "page/page.js")
"""In the order in which they are joined."""
RUNBOOK_WORDS: Final = "page/runbook.json"


def text(name: str) -> str:
    """One of the files above."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
