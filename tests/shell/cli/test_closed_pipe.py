"""The command where whoever reads what it prints has gone: it ends quietly, and what it was to do is done."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.kit.command import COMMAND
from tests.kit.status import a_status
from tests.shell.cli.test_checkpoint import made
from tests.shell.cli.test_main import a_run, home

__all__ = ["home"]


def unread(*arguments: str, both: bool = False) -> tuple[int, str]:
    """The exit status, and what is said on standard error, with nobody at the other end of standard output, or of both."""
    command = [*COMMAND, *arguments]
    errors = subprocess.STDOUT if both else subprocess.PIPE
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors) as child:
        assert child.stdout is not None
        child.stdout.close()
        said = child.stderr.read().decode() if child.stderr else ""
        return child.wait(timeout=60), said


def test_a_reader_that_has_seen_enough_is_no_error(home: Path) -> None:
    """Whatever it reads: a view, or help."""
    with a_run("r1", a_status):
        status, said = unread("describe")
    assert (status, [line for line in said.splitlines() if not line.startswith("group billing: orders-")]) == (0, [])
    assert unread("lag", "--help", both=True) == (0, "")


def test_all_files_are_written(tmp_path: Path) -> None:
    """Before any is told of."""
    assert unread("rules", "write", str(tmp_path)) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cohort.yml", "cohort_test.yml"]


@pytest.mark.parametrize("both", [False, True])
def test_a_checkpoint_is_repaired(tmp_path: Path, both: bool) -> None:
    """Nothing is left undone; what is refused is a failure still."""
    at = made(tmp_path / "checkpoint")
    (at / "offsets" / "8").write_text("")
    assert unread("checkpoint", "repair", str(at), "--execute", both=both)[0] == 0
    assert not (at / "offsets" / "8").exists()
    (at / "offsets" / "7").write_text("v9\n{}\n{}")
    assert unread("checkpoint", "repair", str(at), "--execute", both=both)[0] == 1
