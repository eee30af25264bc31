"""What ``make test-all`` adds: ``python -m tests.kit.tiers`` prints it.

Each use of the marker ``thorough`` is read from the tests' source.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache

from tests.kit.pages import ROOT


@dataclass(frozen=True)
class Use:
    """Where the marker stands, and its reason if that is one literal string."""

    file: str
    line: int
    reason: str | None


def uses_in(source: str, file: str) -> list[Use]:
    """Each use in one file: at a test, at a parameter, or for the file."""
    nodes = list(ast.walk(ast.parse(source, file)))
    calls = {node.func: node for node in nodes if isinstance(node, ast.Call)}
    marks = [node for node in nodes if isinstance(node, ast.Attribute) and node.attr == "thorough"]
    return [Use(file, mark.lineno, _reason(calls.get(mark))) for mark in sorted(marks, key=lambda mark: mark.lineno)]


def _reason(call: ast.Call | None) -> str | None:
    match call:
        case ast.Call(args=[ast.Constant(value=str(reason))], keywords=[]):
            return reason
    return None


@cache
def uses() -> list[Use]:
    """All of them, by file and line."""
    folders = [ROOT / "tests" / name for name in ("e2e", "shell", "unit")]
    files = [(path, str(path.relative_to(ROOT))) for folder in folders for path in sorted(folder.rglob("test_*.py"))]
    texts = ((path.read_text(), file) for path, file in files)
    return [use for text, file in texts if "thorough" in text for use in uses_in(text, file)]


def table() -> str:
    """A row for each file that has any, with its reasons."""
    reasons: dict[str, dict[str, None]] = {}
    for use in uses():
        reasons.setdefault(use.file, {})[str(use.reason)] = None
    rows = [f"| `{file}` | {'; '.join(each)} |" for file, each in reasons.items()]
    return "\n".join(["| file | what |", "|---|---|", *rows])


if __name__ == "__main__":
    print(table())  # noqa: T201  what the command is for
