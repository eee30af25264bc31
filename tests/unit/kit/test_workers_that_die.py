"""A test that takes too long, or that ends its process, costs the suite that test and no other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LIMIT_S = 1000  # of a run here whose workers wait for each other for good; beside all other tests it may take minutes
PASSES = "def test_passes(): pass\n"
DIES = "import os\ndef test_dies(): os._exit(3)\n"
HANGS = """
import ctypes, pytest

@pytest.mark.timeout(2)
def test_hangs():
    ctypes.PyDLL(None).pause()  # holds the interpreter's lock
"""
FAILS_AND_HANGS = """
import threading, pytest

@pytest.fixture
def endless():
    yield
    threading.Event().wait(60)

@pytest.mark.timeout(2)
def test_fails(endless):
    assert False
"""


@dataclass(frozen=True)
class Run:
    """What a run of pytest came to."""

    output: str

    @property
    def counts(self) -> dict[str, int]:
        """How many tests had which outcome, by the last line."""
        last = self.output.strip().rpartition("\n")[2]
        return {outcome: int(number) for number, outcome in re.findall(r"(\d+) (passed|failed|error)", last)}


def run(folder: Path, files: dict[str, str], workers: int) -> Run:
    """Run these files, each a group of its own, by the suite's workers."""
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(
            f"{text}\nimport pytest\npytestmark = pytest.mark.xdist_group('{name}')\n"
        )
    command = [sys.executable, "-P", "-m", "pytest", f"--rootdir={folder}", "-c", os.devnull, "-p", "no:cacheprovider"]
    hooks = ["-p", "tests.kit.watchdog", "-p", "tests.kit.scheduling"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    ended = subprocess.run(
        [*command, *hooks, "--dist", "loadgroup", "--no-loadscope-reorder", "-n", str(workers), "--timeout", "600", str(folder)],
        env=environment | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    return Run(ended.stdout + ended.stderr)


@pytest.mark.parametrize("workers", [1, 3])
def test_the_others_tests_run_once_each(tmp_path: Path, workers: int) -> None:
    """More groups have run in the worker that dies than are left for the others: pytest-xdist 3.8.0 waits there for good."""
    before = {f"a{number:02}": PASSES for number in range(20)}
    ended = run(tmp_path, before | {"b": DIES + PASSES} | {f"c{number}": PASSES for number in range(2)}, workers)
    assert ended.counts == {"passed": 23, "failed": 1}, ended.output
    assert ended.output.count("replacing crashed worker") == 1


@pytest.mark.parametrize(
    ("test", "place"), [(HANGS, "in test_hangs"), (FAILS_AND_HANGS, "in endless")], ids=["lock", "fixture"]
)
def test_a_test_over_its_limit_says_where_it_was(tmp_path: Path, test: str, place: str) -> None:
    """Also where the interpreter's lock is held, and after the test has failed."""
    ended = run(tmp_path, {"a": PASSES, "b": test, "c": PASSES}, 1)
    assert ended.counts["passed"] == 2, ended.output
    assert re.search(rf"over its limit: File .*test_b.py.* {place}\n", ended.output), ended.output
