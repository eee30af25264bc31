"""What ``register`` advises: nothing that is so already."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from sparkcohort import registration
from sparkcohort.registration import Interpreter

MINE = sys.executable


def session(python: str) -> Any:
    """A session that runs its functions with this Python."""
    return SimpleNamespace(sparkContext=SimpleNamespace(pythonExec=python))


@pytest.mark.parametrize(("python", "mine"), [(MINE, True), ("/usr/bin/other/python3", False)])
def test_what_is_set_is_not_advised(python: str, mine: bool) -> None:
    """Where Spark's Python is the script's own, to set it is no remedy."""
    cannot = registration._cannot_run(Exception("java.io.IOException: no such file"), session(python))
    broken = Interpreter(python, "3.11.7", "host", "ImportError: cannot import name")
    without = registration._no_cohort(broken, "the driver", "as PYSPARK_PYTHON says")
    for text in (cannot, without):
        assert ("export PYSPARK_PYTHON=" in text) is not mine
        assert len(text.splitlines()) == 1
    assert (f"{MINE} -m pip install --force-reinstall sparkcohort" in without) is mine
    assert "exists on every host, with the same version" in cannot
