"""Our log lines where logging isn't configured: one line each, whatever text they quote.

Spark's ``setLogLevel`` is about the JVM, and reaches no Python process: ``COHORT_LOG_LEVEL`` in the environment does.
"""

from __future__ import annotations

import logging
import os
import sys
from contextvars import ContextVar
from typing import Any, Final

from sparkcohort.runtime.text import printable

MOST = 10_000
LEVEL_VARIABLE: Final = "COHORT_LOG_LEVEL"
GROUP: Final[ContextVar[str]] = ContextVar("cohort-group", default="")
"""The group of the member that logs; empty where a process has one query, or none."""


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


def stderr_handler() -> logging.Handler:
    """The handler that writes the lines of this process to its standard error, in Spark's form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine("%(asctime)s %(levelname)s %(name)s: %(message)s", "%y/%m/%d %H:%M:%S"))
    return handler


def chosen_level() -> int:
    """The level that the environment names; INFO where it names none, or nonsense."""
    name = os.environ.get(LEVEL_VARIABLE, "").strip().upper()
    return logging.getLevelNamesMapping().get(name, logging.INFO)


def log_to_stderr(group: str = "") -> None:
    """Where logging isn't configured, send Cohort's own lines to the log of Spark's process; ``group`` begins each."""
    GROUP.set(group)
    logger = logging.getLogger("sparkcohort")
    if not logging.getLogger().handlers and not logger.handlers:
        logger.addHandler(stderr_handler())
        logger.setLevel(chosen_level())
