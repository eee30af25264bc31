"""What a user imports comes from ``sparkcohort`` itself, and costs nothing before it is used."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest
from click.testing import CliRunner

import sparkcohort
from sparkcohort.cli.main import cli
from tests.kit.jars import ROOT

LOADED = (
    "import sys, sparkcohort; print(*sorted(name for name in sys.modules if name.startswith(('spark', 'importlib.m'))))"
)


def test_every_public_name_is_there() -> None:
    """Those of ``__all__``, and no others, in ``dir`` as well."""
    assert [name for name in sparkcohort.__all__ if getattr(sparkcohort, name, None) is None] == []
    assert dir(sparkcohort) == sorted(sparkcohort.__all__)
    with pytest.raises(AttributeError, match="module 'sparkcohort' has no attribute 'Coordinator'"):
        _ = sparkcohort.Coordinator


def test_the_front_door_imports_no_room() -> None:
    """A Python worker that imports one module of ours pays for that one only."""
    done = subprocess.run([sys.executable, "-P", "-c", LOADED], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["sparkcohort"]


def test_the_version_stands_in_one_place() -> None:
    """The package, the command and the project say the same."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert sparkcohort.__version__ == project["version"]
    assert CliRunner().invoke(cli, ["--version"]).output == f"cohort, version {sparkcohort.__version__}\n"
