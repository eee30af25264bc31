"""Our log lines where nobody else has set logging up: one line each, whoever is quoted in them."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import Any, Final

from sparkcohort.runtime.text import printable

MOST = 10_000
GROUP: Final[ContextVar[str]] = ContextVar("cohort-group", default="")
"""The group of whose member the lines are that are written now; empty where a process has one query, or none."""


class OneLine(logging.Formatter):
    """A message is one printable line; a traceback's lines stand under it, indented, so that none passes for a message."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging's name
        """The line."""
        group = GROUP.get()
        record.message = printable(f"[{group}] {record.message}" if group else record.message, MOST)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802  logging's name
        """The lines under it."""
        return "\n".join(f"  {printable(line)}" for line in super().formatException(ei).splitlines())
