"""Each row of the page on switching has a test that runs it."""

from __future__ import annotations

import ast
import re

from tests.kit.pages import DOCS, ROOT

MODULE = ROOT / "tests" / "e2e" / "test_switching.py"
ROW = re.compile(r"^\| (.+?) \| .+ \|$", re.MULTILINE)


def test_each_row_is_run() -> None:
    """The rows of the tables and the keys of ROWS are the same; what a key names is there."""
    page = (DOCS / "migrate-from-spark-kafka.md").read_text()
    rows = [row for row in ROW.findall(page) if row not in ("Spark's source", "Spark's sink")]
    tree = ast.parse(MODULE.read_text())
    tests = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    (mapped,) = [
        node.value for node in tree.body if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "ROWS"
    ]
    assert mapped is not None
    places: dict[str, str] = ast.literal_eval(mapped)
    assert list(places) == rows
    missing = {place for place in places.values() if place not in tests and not (ROOT / place).is_file()}
    assert missing == set()
