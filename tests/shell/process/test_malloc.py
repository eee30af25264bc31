"""What an agent's heap keeps is not asked of the kernel again."""

from __future__ import annotations

import subprocess
import sys

FAULTS = """
import resource, sys
from sparkcohort.runtime.shell.process import malloc as heap
if sys.argv[1] == "keep":
    heap.keep()
def cycle():
    blocks = [bytes(1 << 20) for _ in range(12)]  # about what is decoded while a batch is handed over
    del blocks
for _ in range(5):
    cycle()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    cycle()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(how: str) -> int:
    command = [sys.executable, "-P", "-c", FAULTS, how]
    return int(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout)


def test_pages_are_kept() -> None:
    """Twelve megabytes taken and given back fifty times: next to no page has to be had again."""
    assert _faults("keep") < 3_100
    assert _faults("not") > 10_000
