"""Other interpreters than the one that runs the tests: what a newcomer's machine, or another host, has.

Usage::

    python = without_cohort(tmp_path / "plain")     # PySpark and all else that is here, and no Cohort
    python = linked(tmp_path / "whole")             # all that is here
    python = bare(tmp_path / "bare")                # nothing but Python
    path = in_path(python)                          # a PATH whose python3 is that one
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

OURS = ("sparkcohort", "pyspark_cohort", "cohort_tree")  # the last is a path to this tree, which has the package too
DISTURBING = ("PYSPARK_", "PYTHON", "VIRTUAL_ENV", "SPARK_HOME")


def bare(directory: Path) -> Path:
    """The interpreter of a new environment with nothing in it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True, timeout=60)
    return directory / "bin" / "python3"


def linked(directory: Path, without: tuple[str, ...] = ()) -> Path:
    """The interpreter of a new environment that has what this one has, linked, except for what is so called."""
    python = bare(directory)
    theirs = next(directory.glob("lib/python*/site-packages"))
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not (without and entry.name.startswith(without)) and not (theirs / entry.name).exists():
            (theirs / entry.name).symlink_to(entry)
    return python


def without_cohort(directory: Path) -> Path:
    """The interpreter of a new environment that has what this one has, except for Cohort."""
    return linked(directory, OURS)


def in_path(python: Path) -> str:
    """``PATH`` with this interpreter's folder first."""
    return f"{python.parent}{os.pathsep}{os.environ['PATH']}"


def undisturbed(**more: str) -> dict[str, str]:
    """This process's environment without a word on which Python to take, and what is added."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(DISTURBING)}
    return {**plain, "SPARK_LOCAL_IP": "127.0.0.1", **more}
