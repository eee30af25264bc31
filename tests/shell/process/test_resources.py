"""How many files a process of ours may have open."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = (
    "import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (64, {hard}));"
    "from sparkcohort.runtime.shell.rpc.resources import raise_limit; raise_limit(); print(*r.getrlimit(r.RLIMIT_NOFILE))"
)


@pytest.mark.parametrize("hard", [64, 512])
def test_the_hard_limit_is_taken(hard: int) -> None:
    """Whatever the shell has set as the soft one."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(hard=hard)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == [str(hard), str(hard)]
