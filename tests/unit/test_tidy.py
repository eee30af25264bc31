"""The house style that no linter knows: sizes, words, docstrings, sleeps."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("assignors", "runtime", "streaming", "tests", "tools")
FILES = sorted(path for folder in SOURCES for path in (ROOT / folder).rglob("*.py")) + sorted(ROOT.glob("*.py"))
SCRIPTS = [ROOT / "Makefile", ROOT / ".ci" / "run", *sorted((ROOT / "tools").rglob("*.sh"))]
MOST_LINES, MOST_FUNCTION_LINES = 500, 60
# In two parts each, so that this file passes its own test.
BANNED = ["TO" + "DO", "FIX" + "ME", "X" * 3, "NotImplemented" + "Error", "pytest." + "skip", "mark." + "skip"]
BANNED += ["x" + "fail", "importor" + "skip"]
BANNED_WORDS = re.compile("|".join(rf"\b{re.escape(word)}\b" for word in BANNED))
MACHINE_PATHS = re.compile("|".join(["/wo" + "rk/", "/ho" + "me/", "/ro" + "ot/"]))
SLEEP = "time." + "sleep"

Function = ast.FunctionDef | ast.AsyncFunctionDef
each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))


def _functions(path: Path) -> Iterator[Function]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, Function):
            yield node


def _is_test(path: Path) -> bool:
    return path.is_relative_to(ROOT / "tests")


@each_file
def test_files_fit_a_reading(path: Path) -> None:
    """No file is longer than 500 lines."""
    assert len(path.read_text().splitlines()) <= MOST_LINES


@each_file
def test_functions_fit_a_screen(path: Path) -> None:
    """No function is longer than 60 lines."""
    long = {node.name: (node.end_lineno or 0) - node.lineno + 1 for node in _functions(path)}
    assert {name: lines for name, lines in long.items() if lines > MOST_FUNCTION_LINES} == {}


@pytest.mark.parametrize("path", [*FILES, *SCRIPTS], ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_is_left_for_later(path: Path) -> None:
    """No file promises work, passes over a test, or names a place on somebody's machine."""
    text = path.read_text()
    assert BANNED_WORDS.findall(text) == []
    assert MACHINE_PATHS.findall(text) == []


@each_file
def test_no_test_sleeps(path: Path) -> None:
    """Tests wait for a condition with a deadline (tests.support.waiting), never for a time."""
    if _is_test(path):
        assert SLEEP not in path.read_text()


@each_file
def test_public_things_say_what_they_are(path: Path) -> None:
    """Every module, public class and public function has a docstring; every test a one-sentence one."""
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), "the module has no docstring"
    public = [node for node in _defined(tree) if not node.name.startswith("_")]
    assert [node.name for node in public if not ast.get_docstring(node)] == []


def _defined(tree: ast.Module) -> Iterator[Function | ast.ClassDef]:
    """The module's functions and classes, and its classes' own."""
    for node in tree.body:
        if isinstance(node, Function | ast.ClassDef):
            yield node
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from (part for part in node.body if isinstance(part, Function))
