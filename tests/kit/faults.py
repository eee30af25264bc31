"""Agents that fail at a chosen place: frozen or killed by themselves, where no signal from outside could hit.

Usage::

    faults = Faults(tmp_path / "faults")
    with Driver(..., env=faults.environment()):      # the executors inherit it
        faults.arm("within-range", "SIGKILL")        # half of a range's second batch is sent
        pid = faults.struck("within-range", 30)      # the agent that it hit
        os.kill(pid, signal.SIGCONT)
"""

from __future__ import annotations

import signal
from pathlib import Path

from tests.kit.waiting import wait_until

INSIDE = Path(__file__).parent / "inside"


class Faults:
    """Arms faults for the agents of one Spark application."""

    def __init__(self, directory: Path) -> None:
        """Make the directory in which agents look for faults."""
        directory.mkdir(exist_ok=True)
        self._directory = directory

    def environment(self) -> dict[str, str]:
        """What the application's environment has to have."""
        return {"COHORT_FAULTS": str(self._directory), "PYTHONPATH": str(INSIDE)}

    def arm(self, place: str, what: str) -> None:
        """The next agent to reach ``place`` gets the signal named ``what``; once."""
        fresh = self._directory / "new"
        fresh.write_text(signal.Signals[what].name)
        fresh.rename(self._directory / place)

    def struck(self, place: str, timeout_s: float) -> int:
        """The process id of the agent that was hit; waits for it."""
        found = wait_until(lambda: list(self._directory.glob(f"{place}.*")), timeout_s, f"an agent that fails {place}")
        marker = found[0]
        pid = int(marker.suffix[1:])
        marker.unlink()
        return pid
