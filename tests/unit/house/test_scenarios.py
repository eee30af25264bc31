"""The table of scenarios: each names a test that is there, and one that runs both formats where it says so."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.kit.scenarios import parity, summary
from tests.kit.sources import nodes
from tests.kit.spark_scenarios import DIFFERENT, NOT_APPLICABLE, REFUSED, SAME, SCENARIOS, Result

ROOT = Path(__file__).resolve().parents[3]
# What a sentence that says what to do begins with, or goes on with behind a colon or "and".
REMEDY = re.compile(r"(?:^|: |and )(?:give|leave|use|load)\b")


def _functions(path: str) -> set[str]:
    return {node.name for node in nodes(ROOT / path) if isinstance(node, ast.FunctionDef)}


def _texts(path: str) -> set[str]:
    """All strings of a file; of an f-string its parts, without a colon at their ends."""
    constants = (node for node in nodes(ROOT / path) if isinstance(node, ast.Constant))
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


def test_each_row_has_a_result() -> None:
    """And says why, unless it is the same; a refusal says what to do; what is not applicable alone has no test."""
    assert {row.result for row in SCENARIOS} == set(Result)
    assert [row.name for row in SCENARIOS if row.result is not SAME and not row.words] == []
    assert [row.name for row in SCENARIOS if row.result is REFUSED and not REMEDY.search(row.words)] == []
    assert [row.name for row in SCENARIOS if bool(row.test) is (row.result is NOT_APPLICABLE)] == []


def test_the_page_shows_each_result() -> None:
    """It has what is refused or different, and counts the rest."""
    page = summary()
    named = {REFUSED, DIFFERENT}
    assert [row.name for row in SCENARIOS if row.result in named and row.name not in page] == []
    numbers = re.findall(r"(\d+) (?:same|better|not applicable)", page)
    assert sum(map(int, numbers)) == sum(row.result not in named for row in SCENARIOS)


def test_both_formats_are_run_where_it_says_so() -> None:
    """The test's file names Spark's own format, or asks for both."""
    paths = {test.partition("::")[0] for test in parity()}
    assert [
        path for path in sorted(paths) if not _texts(path) & {"kafka"} and "FORMS" not in (ROOT / path).read_text()
    ] == []
    assert len(paths) > 5
