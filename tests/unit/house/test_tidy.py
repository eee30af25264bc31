"""The house style that no linter knows: sizes, words, docstrings, sleeps."""

from __future__ import annotations

import ast
import re
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from tests.kit.sources import nodes, tree

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ("assignors", "cli", "examples", "runtime", "sparkcohort", "streaming", "tests", "tools")
FILES = sorted(path for folder in SOURCES for path in (ROOT / folder).rglob("*.py")) + sorted(ROOT.glob("*.py"))
C_FILES = sorted(path for ending in ("*.c", "*.h") for path in (ROOT / "native").rglob(ending))
SCRIPTS = [ROOT / "Makefile", ROOT / ".ci" / "run", *sorted((ROOT / "tools").rglob("*.sh"))]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
MOST_LINES, MOST_DECODER_LINES, MOST_FUNCTION_LINES = 500, 400, 60
# In two parts each, so that this file passes its own test.
BANNED = ["TO" + "DO", "FIX" + "ME", "X" * 3, "NotImplemented" + "Error", "pytest." + "skip", "mark." + "skip"]
BANNED += ["x" + "fail", "importor" + "skip"]
MACHINE_PATHS = ["/wo" + "rk/", "/ho" + "me/", "/ro" + "ot/"]
UNWANTED = re.compile("|".join([rf"\b{re.escape(word)}\b" for word in BANNED] + MACHINE_PATHS))
SLEEP = "time." + "sleep"

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_files_fit_a_reading() -> None:
    """No file is longer than 500 lines."""
    lengths = {_name(path): len(path.read_text().splitlines()) for path in [*FILES, *C_FILES]}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}


def test_decoders_of_values_fit_a_sitting() -> None:
    """What reads one format in C can be read at once: 400 lines a file."""
    rooms = [path for path in C_FILES if path.parent.name == "values"]
    assert len(rooms) > 10
    lengths = {_name(path): len(path.read_text().splitlines()) for path in rooms}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_DECODER_LINES} == {}


def test_functions_fit_a_screen() -> None:
    """No function is longer than 60 lines."""
    functions = ((path, node) for path in FILES for node in nodes(path) if isinstance(node, Function))
    lengths = {(_name(path), node.name): (node.end_lineno or 0) - node.lineno + 1 for path, node in functions}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_FUNCTION_LINES} == {}


def test_c_functions_fit_a_screen() -> None:
    """Nothing that begins and ends at the left margin of a C file is longer than 60 lines, and there is such."""
    blocks = {
        (_name(path), block.group().splitlines()[0]): block.group().count("\n") + 1
        for path in C_FILES
        for block in re.finditer(r"^\w[^;{}]*\{\n.*?^\}", path.read_text(), re.MULTILINE | re.DOTALL)
    }
    assert len(blocks) > 50
    assert {name: lines for name, lines in blocks.items() if lines > MOST_FUNCTION_LINES} == {}


def test_c_files_compile_without_a_warning() -> None:
    """Every C file says what it is first, and the compiler has nothing to say with -Wall -Wextra."""
    assert [_name(path) for path in C_FILES if not path.read_text().startswith("/* ")] == []
    parsers = [f"-I{folder}" for folder in (ROOT / ".cache" / "sources").glob("yyjson-*/")]
    headers = [f"-I{sysconfig.get_path('include')}", f"-I{ROOT / 'native'}", *parsers]
    flags = ["-std=c11", "-D_GNU_SOURCE", "-DPy_LIMITED_API=0x030B0000", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    sources = [str(path) for path in C_FILES if path.suffix == ".c"]
    done = subprocess.run(["cc", *flags, *headers, *sources], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_rooms_of_c_include_downwards() -> None:
    """The reader of batches includes what is shared; ``arrow`` includes no reader (see native/module.c)."""
    included = {
        (path.parent.name, found.split("/")[0])
        for path in C_FILES
        for found in re.findall(r'^#include "(.+)"', path.read_text(), re.MULTILINE)
        if path.parent.name != "native" and ("/" in found or not (path.parent / found).is_file())
    }
    reader = {("kafka_batches", "arrow"), ("kafka_batches", "events.h")}
    assert included == reader | {("values", "arrow"), ("values", "yyjson.h")}


def test_nothing_is_left_for_later() -> None:
    """No file promises work, passes over a test, or names a place on somebody's machine."""
    words = {_name(path): UNWANTED.findall(path.read_text()) for path in [*FILES, *C_FILES, *SCRIPTS, *PAGES]}
    assert {name: found for name, found in words.items() if found} == {}


def test_no_test_sleeps() -> None:
    """Tests wait for a condition with a deadline (tests.kit.waiting), never for a time."""
    assert [_name(path) for path in FILES if _name(path).startswith("tests") and SLEEP in path.read_text()] == []


def test_public_things_say_what_they_are() -> None:
    """Every module, public class, and public function or method (so every test) has a docstring."""
    assert [_name(path) for path in FILES if not ast.get_docstring(tree(path))] == []
    public = [(path, node) for path in FILES for node in _defined(tree(path)) if not node.name.startswith("_")]
    assert [(_name(path), node.name) for path, node in public if not ast.get_docstring(node)] == []


def _defined(module: ast.Module) -> Iterator[Function | ast.ClassDef]:
    """The module's functions and classes, and its public classes' own functions."""
    for node in module.body:
        if isinstance(node, Function | ast.ClassDef):
            yield node
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from (part for part in node.body if isinstance(part, Function))
