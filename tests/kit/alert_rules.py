"""The alerts and recording rules of ``dashboards/rules/cohort.yml``, read by its form: a string in single quotes a line."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from sparkcohort.dashboards import RULES, text

_RECORDING: Final = re.compile(r"# (.+)\n +- record: (\S+)\n +expr: '(.+)'\n")
_ALERT: Final = re.compile(r"- alert: (\w+)\n +expr: '(.+)'\n +for: (\w+)\n +labels:\n +severity: (\w+)\n")


class Alert(NamedTuple):
    """One alert: ``wait`` is Prometheus' ``for``; ``severity`` is page (now) or ticket (today)."""

    name: str
    expr: str
    wait: str
    severity: str


class Recording(NamedTuple):
    """A query that is kept under a name, by job and group."""

    meaning: str
    name: str
    expr: str


def alerts() -> list[Alert]:
    """Every alert, in the order of the file."""
    return [Alert(*(part.replace("''", "'") for part in found)) for found in _ALERT.findall(text(RULES))]


def recordings() -> list[Recording]:
    """Every recording rule, in the order of the file."""
    return [Recording(*(part.replace("''", "'") for part in found)) for found in _RECORDING.findall(text(RULES))]
