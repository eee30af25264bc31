"""The native parts as Python loads them, under AddressSanitizer and UndefinedBehaviorSanitizer, fed with the corpora."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit import sanitized

ROOT = Path(__file__).resolve().parents[3]
AS_MUCH = """
import ctypes
from sparkcohort.native import _json
decoder = _json.JsonDecoder(bytes(16), b"\\0")
print(ctypes.CDLL(_json.__file__).__asan_region_is_poisoned is not None)
"""


@pytest.mark.timeout(600)
def test_the_corpora_do_no_harm(tmp_path: Path) -> None:
    """Columns whole and in slices, with nulls, with frames and without: no byte outside is touched, no rule of C broken."""
    environment = {
        **os.environ,
        "LD_PRELOAD": sanitized.runtime(),
        "PYTHONPATH": f"{sanitized.build(tmp_path)}{os.pathsep}{ROOT}",
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0",  # Python's own
    }
    for program in (["-m", "tests.kit.sanitized"], ["-c", AS_MUCH]):
        done = subprocess.run(
            [sys.executable, "-P", *program], env=environment, capture_output=True, text=True, timeout=500, check=False
        )
        assert done.returncode == 0, done.stderr[-5000:]
        if program[0] == "-m":
            assert all(int(good) > 10 for good in done.stdout.split()), done.stdout
        else:
            assert done.stdout == "True\n"
