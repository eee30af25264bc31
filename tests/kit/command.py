"""``cohort``, the command: in this process, where a pipe would read it, or as a process of its own."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout

import pytest

from sparkcohort.cli import main

COMMAND = (sys.executable, "-m", "sparkcohort.cli.main")


def cohort(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What the command prints, without the second that a process takes to start."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["cohort", *arguments])
        with pytest.raises(SystemExit) as ended:
            main.main()
    return subprocess.CompletedProcess(arguments, int(str(ended.value.code)), out.getvalue(), err.getvalue())


def process(*arguments: str, within: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """The command as a process; ``within`` is a command that runs it."""
    return subprocess.run([*within, *COMMAND, *arguments], capture_output=True, text=True, timeout=60, check=False)
