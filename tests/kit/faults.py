"""Agents that fail at a place that no signal from outside could hit: half of a range's second batch is sent.

Usage::

    faults = Faults(tmp_path / "faults")
    with Driver(..., env=faults.environment()):      # the executors inherit it
        faults.arm("SIGKILL")                        # or SIGSTOP: frozen
        pid = faults.struck(30)                      # the agent that it hit
        os.kill(pid, signal.SIGCONT)
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.kit.waiting import wait_until

INSIDE = Path(__file__).parent / "inside"
OVERWRITTEN = {
    "COHORT_OVERWRITE": "1",
    "PYTHONPATH": os.pathsep.join(filter(None, (str(INSIDE), os.environ.get("PYTHONPATH")))),
}
"""The environment of agents that write 0xFF over all memory that a task gives back: who keeps a reference finds no record's bytes."""


class Faults:
    """Arms faults for the agents of one Spark application."""

    def __init__(self, directory: Path) -> None:
        """Make the directory in which agents look for a fault."""
        directory.mkdir(exist_ok=True)
        self._directory = directory

    def environment(self) -> dict[str, str]:
        """What the application's environment has to have."""
        return OVERWRITTEN | {"COHORT_FAULTS": str(self._directory)}

    def arm(self, what: str) -> None:
        """The next agent to come there gets the signal of this name; once."""
        fresh = self._directory / "new"
        fresh.write_text(signal.Signals[what].name)
        fresh.rename(self._directory / "fault")

    def struck(self, timeout_s: float) -> int:
        """The process id of the agent that was hit; waits for it."""
        (marker,) = wait_until(lambda: list(self._directory.glob("fault.*")), timeout_s, "an agent that fails")
        marker.unlink()
        return int(marker.suffix[1:])
