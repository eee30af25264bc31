"""The lines of Spark's Python processes, where nobody has set logging up."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

SCRIPT = """
import logging
from sparkcohort.runtime.shell.rpc.log_lines import log_to_stderr
for group in ("billing", "orders"):
    log_to_stderr(group)
log = logging.getLogger("sparkcohort.task")
for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
    log.log(level, "t-0 at 7: syntax")
"""


@pytest.mark.parametrize(
    ("chosen", "levels"),
    [
        (None, ["INFO", "WARNING", "ERROR"]),
        ("nonsense", ["INFO", "WARNING", "ERROR"]),
        ("debug", ["DEBUG", "INFO", "WARNING", "ERROR"]),
        ("WARN", ["WARNING", "ERROR"]),
        (" warning ", ["WARNING", "ERROR"]),
        ("ERROR", ["ERROR"]),
    ],
)
def test_each_line_has_time_level_logger_and_group(chosen: str | None, levels: list[str]) -> None:
    """Those of a worker that serves one query after the other, too; ``COHORT_LOG_LEVEL`` chooses."""
    env = {name: text for name, text in os.environ.items() if name != "COHORT_LOG_LEVEL"}
    env |= {} if chosen is None else {"COHORT_LOG_LEVEL": chosen}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True, env=env)
    line = r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (\w+) sparkcohort\.task: \[orders\] t-0 at 7: syntax"
    assert [found[1] for each in done.stderr.splitlines() if (found := re.fullmatch(line, each))] == levels
    assert len(done.stderr.splitlines()) == len(levels)
