"""One name, one meaning: no class twice, no pair that differs by grammar only, no private word where there is Kafka's."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path

from tests.kit.sources import nodes

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted(
    path
    for folder in ("assignors", "cli", "runtime", "sparkcohort", "streaming")
    for path in (ROOT / folder).rglob("*.py")
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
NO_NAMES = """
found each known said given asked seen told of left over anew what who whom whose which where why how none nobody
nothing anybody somebody everybody everything other others another rest such same here there then since before after
between among beside behind beyond above below under within without with by for from to in on at off out up into onto
through against again until about mine ours theirs it its them they taken made kept sent gone lost held moved shown
named wanted needed used heard meant begun put cut shared promised answered asking waiting going coming owed picked
chosen drawn looked tried spent freed had has was were is be let only also too still already later soon once
"""
"""Function words and bare participles: they don't say what is found, known or asked.  ``each`` may stand in a comprehension."""
MOST_LEFT = 40


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


def _stored() -> Iterator[tuple[Path, str]]:
    """Every name that the product gives: to variables, parameters, attributes, functions and classes."""
    for path in FILES:
        targets = {
            id(name)
            for node in nodes(path)
            if isinstance(node, ast.comprehension)
            for name in ast.walk(node.target)
            if isinstance(name, ast.Name) and name.id == "each"
        }
        for node in nodes(path):
            if (
                isinstance(node, ast.Name | ast.Attribute)
                and isinstance(node.ctx, ast.Store)
                and id(node) not in targets
            ):
                yield path, node.id if isinstance(node, ast.Name) else node.attr
            elif isinstance(node, ast.arg):
                yield path, node.arg
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield path, node.name


def test_few_names_are_function_words_or_bare_participles() -> None:
    """A name is a noun, a verb with its object, or an adjective."""
    words = set(NO_NAMES.split())
    left = [f"{path.relative_to(ROOT)}: {name}" for path, name in _stored() if name.strip("_").lower() in words]
    assert len(left) <= MOST_LEFT, left
