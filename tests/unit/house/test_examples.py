"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ROOMS = ("assignors", "cli", "runtime", "streaming")
SOURCES = {
    str(path.relative_to(ROOT)): path.read_text() for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))
}
WITH_EXAMPLES = [name for name, text in SOURCES.items() if ">>> " in text]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_are_true(name: str) -> None:
    """Of each module that has any."""
    module = "sparkcohort." + name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def test_every_assignor_has_an_example() -> None:
    """A reader finds what it does; the solver's steps have theirs, too."""
    modules = {name for name in SOURCES if name.startswith("assignors/") and not name.endswith("__init__.py")}
    assert modules - set(WITH_EXAMPLES) == set()
