"""The direction of imports, and what the pure parts may know (the coarse contracts are in pyproject.toml)."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

import grimp
import pytest

from tests.kit.sources import nodes

PACKAGES = ("sparkcohort.assignors", "sparkcohort.runtime", "sparkcohort.streaming", "sparkcohort.native")
NATIVE = PACKAGES[3]
FRONT_DOOR = {"sparkcohort", "sparkcohort.registration", "sparkcohort.tokens"}
SHELL = "sparkcohort.runtime.shell"
PURE_MODULES = {
    "sparkcohort.streaming.narrowing",
    "sparkcohort.streaming.planner",
    "sparkcohort.streaming.source_offsets",
    *(f"sparkcohort.cli.checkpoint.{name}" for name in ("logs", "positions", "repairs")),
    *(f"sparkcohort.cli.simulate.{name}" for name in ("case", "changes", "outcome")),
}
VALUES = {"msgspec.Struct", "msgspec.field", "msgspec.structs.replace"}
CLOCKS_AND_WORLD = {"time", "random", "threading", "socket", "logging", "subprocess", "os"}
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """Every import of the packages as installed, those for type checking included."""
    return grimp.build_graph("sparkcohort", include_external_packages=True, cache_dir=None)


def _pure(module: str) -> bool:
    return module in PURE_MODULES or (module.startswith(PACKAGES[:2]) and not module.startswith(SHELL))


def test_the_pure_parts_reach_nothing_but_pure_parts_and_arithmetic(graph: grimp.ImportGraph) -> None:
    """Directly or through others, pure modules import no clock, chance, thread, network, log or third party.

    But for two: numpy, and msgspec, by which the protocol describes its messages and states are frozen.
    """
    allowed = (sys.stdlib_module_names - CLOCKS_AND_WORLD) | {"__future__", "numpy", "msgspec"}
    wrong = {
        (module, reached)
        for module in graph.modules
        if _pure(module)
        for reached in graph.find_upstream_modules(module)
        if reached not in allowed and (not reached.startswith("sparkcohort.") or reached.startswith((SHELL, NATIVE)))
    }
    assert not wrong


RECORDS = {f"sparkcohort.runtime.{name}" for name in ("group.journal", "kafka.run_epoch", "kafka.handover")}


def test_only_the_protocol_describes_messages() -> None:
    """Of the pure parts: what is sent and how it is checked stands in one room; others have msgspec's frozen values.

    But for the journal, and for what stands in Kafka's commits: they are to records what that room is to messages.
    """
    wrong, messages = set(), 0
    for path in sorted((ROOT / "runtime").rglob("*.py")):
        module = ".".join(("sparkcohort", *path.relative_to(ROOT).with_suffix("").parts))
        for node in nodes(path) if _pure(module) else ():
            names = (
                {f"{node.module}." + alias.name for alias in node.names} if isinstance(node, ast.ImportFrom) else set()
            )
            names |= {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()
            taken = {name for name in names if name.partition(".")[0] == "msgspec"}
            if module.startswith("sparkcohort.runtime.protocol.") or module in RECORDS:
                messages += len(taken)
            elif taken - VALUES:
                wrong.add((module, *taken))
    assert messages
    assert not wrong


@pytest.mark.parametrize("module", ["sparkcohort", *PACKAGES, "pyspark_cohort"])
def test_what_is_tested_is_what_ships(module: str) -> None:
    """The packages come from the installed wheel never from the tree."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    assert "site-packages" in spec.origin
