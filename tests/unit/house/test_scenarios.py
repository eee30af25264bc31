"""The table of scenarios: each names a test that is there, and one that runs both formats where it says so."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.kit.scenarios import SCENARIOS, parity

ROOT = Path(__file__).resolve().parents[3]


def _functions(path: str) -> set[str]:
    return {node.name for node in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(node, ast.FunctionDef)}


def _texts(path: str) -> set[str]:
    """All strings of a file; of an f-string its parts, without a colon at their ends."""
    constants = (node for node in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(node, ast.Constant))
    return {node.value.removesuffix(": ") for node in constants if isinstance(node.value, str)}


def test_each_test_is_there() -> None:
    """The file, and the function in it."""
    named = {row.test.partition("[")[0].partition("::")[::2] for row in SCENARIOS if row.test}
    assert [path for path, _ in named if not (ROOT / path).is_file()] == []
    assert [name for path, name in named if name and name not in _functions(path)] == []


def test_each_id_is_there() -> None:
    """Of the parameters that a row names: in the file, as it stands or by its parts."""
    asked = {(row.test.partition("::")[0], row.test.partition("[")[2][:-1]) for row in SCENARIOS if "[" in row.test}
    assert [id_ for path, id_ in asked if not set(id_.split(": ")) <= _texts(path)] == []
    assert len(asked) > 20


def test_each_name_stands_once() -> None:
    """By suite."""
    places = [(row.suite, row.name) for row in SCENARIOS]
    assert len(places) == len(set(places)) > 95


def test_both_formats_are_run_where_it_says_so() -> None:
    """At least its file has Spark's own format in it; a row without a test says why."""
    assert [test for test in parity() if '"kafka"' not in (ROOT / test.partition("::")[0]).read_text()] == []
    assert len(parity()) > 12
    assert [row.name for row in SCENARIOS if not row.test and not row.words] == []
