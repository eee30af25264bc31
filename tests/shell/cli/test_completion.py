"""``cohort completion`` in a real bash, CSV, and commands that are imported when they are asked for."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from sparkcohort.cli import views
from sparkcohort.cli.main import LAZY
from tests.kit.command import cohort
from tests.kit.status import a_status


def test_bash_completes_commands_and_options(tmp_path: Path) -> None:
    """The script is evaluated, and its function asked as bash asks it."""
    command = tmp_path / "cohort"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m sparkcohort.cli.main "$@"\n')
    command.chmod(0o755)
    script = """
        eval "$(cohort completion bash)"
        asked() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _cohort_completion cohort; echo "${COMPREPLY[*]}"; }
        asked cohort reset
        asked cohort reset-offsets --to-
        complete -p cohort
    """
    path = f"{tmp_path}:/usr/bin:/bin"
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env={"PATH": path}, capture_output=True, text=True, timeout=60, check=True
    )
    first, second, known = done.stdout.splitlines()
    assert (first, done.stderr) == ("reset-offsets", "")
    assert second.split() == ["--to-earliest", "--to-latest", "--to-current", "--to-offset", "--to-datetime"]
    assert known.endswith("_cohort_completion cohort")


def test_zsh_gets_a_script_and_other_shells_a_line() -> None:
    """Exit status 2 for a shell that isn't known."""
    assert "#compdef cohort" in cohort("completion", "zsh").stdout
    other = cohort("completion", "tcsh")
    assert (other.returncode, other.stderr.count("\n")) == (2, 1)


def test_lazy_commands_are_where_the_table_says() -> None:
    """Each has its name, and help with examples."""
    for name, place in LAZY.items():
        module, attribute = place.split(":")
        command = getattr(import_module(module), attribute)
        assert command.name == name
        assert "Examples:" in cohort(name, "--help").stdout


def test_csv_has_the_columns_of_the_table() -> None:
    """Unknown is empty; text with commas and quotes stays one cell."""
    view = views.offsets(a_status(group='a,"b"'))
    header, *rows = csv.reader(io.StringIO(views.as_csv(view)))
    assert tuple(header) == views.OFFSETS
    assert rows[2][:6] == ['a,"b"', "orders", "2", "", "", ""]
    assert len(rows) == 3
