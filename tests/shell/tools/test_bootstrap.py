"""What tools/bootstrap.sh says of a machine that it can't use, before it changes anything there."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "tools" / "bootstrap.sh"


def bootstrap(folder: Path, part: str, **more: str) -> tuple[int, list[str]]:
    """Status and lines of one part, in a tree that has the script alone; apt would tell that it was called."""
    for name in ("tools", "bin"):
        (folder / name).mkdir()
    shutil.copy(SCRIPT, folder / "tools")
    for name in ("apt-get", "sudo"):
        (folder / "bin" / name).write_text(f"#!/bin/sh\necho {name} >>'{folder}/called'\nexit 1\n")
        (folder / "bin" / name).chmod(0o755)
    env = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", **more}
    command = ["bash", str(folder / "tools" / "bootstrap.sh"), part]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert sorted(path.name for path in folder.iterdir()) == ["bin", "tools"], "it has called apt, or made something"
    return done.returncode, (done.stdout + done.stderr).splitlines()


@pytest.mark.parametrize("part", ["venv", "wheels"])
@pytest.mark.parametrize("compiler", ["1", "/nowhere/cc -O2", "false"])
def test_a_compiler_that_is_none(tmp_path: Path, part: str, compiler: str) -> None:
    """Named in one line; nothing is installed for it."""
    line = f"bootstrap: CC={compiler}: cannot be run; unset it or name a compiler"
    assert bootstrap(tmp_path, part, CC=compiler) == (1, [line])


@pytest.mark.parametrize("compiler", ["", "cc", "cc -pipe"])
def test_a_compiler_that_runs(tmp_path: Path, compiler: str) -> None:
    """Or none that is named: what is missing is the Python."""
    status, lines = bootstrap(tmp_path, "wheels", CC=compiler, PYTHON="/nowhere/python3")
    assert (status, lines) == (1, ["bootstrap: needs Python >= 3.11: install python3"])
