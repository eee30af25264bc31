"""What is imported is declared, what is declared is imported, and nobody reaches into a dependency's private modules."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from tests.kit.sources import nodes

ROOT = Path(__file__).resolve().parents[3]
SHIPPED = ("assignors", "cli", "runtime", "sparkcohort", "streaming", "pyspark_cohort.py")
DEVELOPED = ("tests", "tools")
OURS = {"sparkcohort", "pyspark_cohort", "tests", "tools", "__future__"}
BROUGHT = {"grimp": "import-linter", "py4j": "pyspark", "elftools": "pyelftools"}
"""Packages that a declared dependency brings along as its own interface, or under another name in an environment of its own."""

UNPROMISED = {
    "pyspark": ("jvm/src/sparkcohort/PythonSource.java", "Spark's inner classes"),
}
"""What a dependency has not promised to keep, and where we rely on it."""


def _imports(parts: tuple[str, ...]) -> Iterator[tuple[Path, str]]:
    """Every module that is imported, and every name that is imported from one, wherever in a file it stands."""
    files = [
        path for part in parts for path in ([ROOT / part] if part.endswith(".py") else (ROOT / part).rglob("*.py"))
    ]
    for path in files:
        for node in nodes(path):
            if isinstance(node, ast.Import):
                yield from ((path, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield from ((path, f"{node.module}.{alias.name}") for alias in node.names)


def _third_party(parts: tuple[str, ...]) -> dict[str, set[str]]:
    """Modules of others, and by whom they are imported."""
    found: dict[str, set[str]] = {}
    for path, name in _imports(parts):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in OURS:
            found.setdefault(name, set()).add(str(path.relative_to(ROOT)))
    return found


@cache
def _installed() -> Mapping[str, list[str]]:
    """Who brings each package; to ask takes seconds."""
    return packages_distributions()


def _distributions(modules: dict[str, set[str]]) -> set[str]:
    known = _installed()
    tops = {name.partition(".")[0] for name in modules}
    return {BROUGHT.get(top) or _distribution(top, known.get(top, [top])) for top in tops}


def _distribution(top: str, brought_by: list[str]) -> str:
    """Whose package it is; several may share one (google), of which others bring some along."""
    names = [_plain(each) for each in brought_by]
    shipped, developed = _declared()
    return next((name for name in names if name in shipped | developed), names[0] if names else top)


def _declared() -> tuple[set[str], set[str]]:
    """What a user gets, PySpark included, and what a developer gets besides."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = [each for group in project["project"]["optional-dependencies"].values() for each in group]
    shipped = {_plain(each) for each in [*project["project"]["dependencies"], *extras]}
    return shipped, {_plain(each) for group in ("dev", "wheels") for each in project["dependency-groups"][group]}


def _plain(requirement: str) -> str:
    return re.split(r"[<>=!~\[; ]", requirement)[0].lower().replace("_", "-")


def test_what_ships_imports_what_it_declares_and_nothing_else() -> None:
    """A dependency of a dependency may go any day; one that nobody imports is a download for nothing."""
    assert _distributions(_third_party(SHIPPED)) == _declared()[0]


def test_tests_and_tools_import_what_is_declared() -> None:
    """For developers, too."""
    shipped, dev = _declared()
    assert _distributions(_third_party(DEVELOPED)) <= shipped | dev


def test_nobody_imports_a_private_module_of_a_dependency() -> None:
    """What begins with an underscore may change with any release."""
    private = {
        name: files
        for name, files in _third_party(SHIPPED + DEVELOPED).items()
        if any(part.startswith("_") for part in name.split("."))
    }
    assert private == {}


def test_every_dependency_has_a_lower_bound_and_an_upper_one_where_we_rely_on_what_is_not_promised() -> None:
    """The lower ones are tried: tests/shell/tools/test_oldest.py."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [each for group in project["optional-dependencies"].values() for each in group]
    declared = [*project["dependencies"], *extras]
    assert [each for each in declared if ">=" not in each] == []
    assert {_plain(each) for each in declared if "<" in each} == set(UNPROMISED)
    for file, words in UNPROMISED.values():
        assert words in (ROOT / file).read_text()


def test_every_declared_dependency_says_what_it_is_for() -> None:
    """A comment behind each."""
    text = (ROOT / "pyproject.toml").read_text()
    block = text[text.index("dependencies = [") :]
    lines = block[: block.index("\n]")].splitlines()[1:]
    assert lines
    assert [line for line in lines if "# " not in line] == []
