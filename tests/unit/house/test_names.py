"""One name, one meaning: no class twice, no pair that differs by grammar only, no private word where there is Kafka's."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from itertools import combinations
from pathlib import Path

from tests.kit.sources import nodes

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted(
    path for folder in ("assignors", "cli", "runtime", "streaming") for path in (ROOT / folder).rglob("*.py")
)
ENDINGS = ("ings", "ing", "ers", "er", "ed", "es", "s", "e")
PRIVATE = """
departed grace memory promised granted heir honour_claims settled sort sort_join happen turn answers applying story
guessing guess taking chaining moving exchange levelling settling crowds eaters sorts measuring
mirror settle insist strangers holders reservation leading isolation isolating scout floors desk drain drains
drain_fetch spent spans slabs lender borrower layers hurry telling shipped patience overran trouble
said told heard seen shown asked wanted given found met
"""
"""Words of our own for what Kafka, Spark or Flink have a word for, and verbs that stand for a noun."""


@cache
def _defined() -> dict[str, list[str]]:
    """Where each class is defined, functions being left out: they are told apart by their modules."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in FILES:
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(str(path.relative_to(ROOT)))
    return found


def _functions() -> set[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for path in FILES for node in nodes(path) if isinstance(node, kinds)}


def _modules() -> set[str]:
    return {path.stem for path in FILES if path.stem != "__init__"} | {path.parent.name for path in FILES}


def _stem(name: str) -> str:
    """A name without what grammar adds to it."""
    name = name.strip("_").replace("_", "").lower()
    ending = next((end for end in ENDINGS if name.endswith(end) and len(name) - len(end) >= 4), "")
    return name.removesuffix(ending)


def _alike(names: set[str]) -> set[tuple[str, str]]:
    by_stem: defaultdict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        by_stem[_stem(name)].append(name)
    return {pair for names in by_stem.values() for pair in combinations(names, 2)}


def test_no_class_name_stands_twice() -> None:
    """Whoever searches for a class finds one."""
    assert {name for name, places in _defined().items() if len(places) > 1} == set()


def test_no_two_names_differ_by_grammar_only() -> None:
    """Neither two modules nor two classes: what is told apart by an ending is mixed up."""
    assert _alike(_modules()) | _alike(set(_defined())) == set()


def test_no_private_word_names_anything() -> None:
    """Who knows Kafka, Spark or Flink knows the words; a class, a module or a function is not called by another."""
    names = _modules() | set(_defined()) | _functions()
    assert {name for name in names if name.strip("_").lower() in PRIVATE.split()} == set()
