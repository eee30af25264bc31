"""The time of day that the driver's side or the executors' see: one clock each, which a fault sets, and a time server sets right.

What is started with ``environment`` is preloaded with ``clock.c``, compiled here; the file that holds a clock's error is shared
with all of its processes, and so they see it at once.
"""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_suffix(".c")
FILE: Final = "COHORT_CHAOS_CLOCK"
JUMPS_S: Final = (-86_400.0, -3_600.0, -30.0, 30.0, 3_600.0, 86_400.0)
"""By how much a clock is wrong: a battery, a time zone, a time server that steps."""


def build(folder: Path) -> Path:
    """The library to preload.  Raises subprocess.CalledProcessError: no C compiler."""
    library = folder / "clock.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl", "-lpthread"], check=True)
    return library


class Clock:
    """One host's clock; right until it is set."""

    def __init__(self, library: Path, file: Path) -> None:
        """``file`` is made."""
        self._library, self._file = library, file
        file.write_bytes(struct.pack("q", 0))

    def environment(self) -> dict[str, str]:
        """What a process that goes by it is started with."""
        return {"LD_PRELOAD": str(self._library), FILE: str(self._file)}

    def set(self, wrong_s: float) -> None:
        """Have it wrong by so much; 0 is right."""
        with self._file.open("r+b") as file:
            file.write(struct.pack("q", int(wrong_s * 1_000_000_000)))
