"""What a process takes that holds batches of all sizes, which come and go all the time."""

from __future__ import annotations

import subprocess
import sys

import pytest

BESIDES = 36 << 20  # blocks that are kept, and batches in larger ones than they need: 28 measured, 47 in malloc's heap


@pytest.mark.thorough("thousands of batches come and go")
def test_batches_that_come_and_go_leave_no_holes() -> None:
    """Whatever their sizes: memory is what is held and a little more, not twice as much after a while."""
    command = [sys.executable, "-m", "tests.kit.held_batches"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert int(said.stdout) < BESIDES
