"""What reads bytes from outside, in Python, fed with its corpus and with what is like it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit import targets
from tests.kit.fuzzing import FUZZERS, TARGETS
from tests.kit.targets import Broken, Target, attempt, escaped, feed, replay, unescaped
from tests.kit.tier import of_tier

MOST_BYTES = 120_000


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_does_harm(name: str) -> None:
    """Nothing but the errors that are documented comes out, in time; what can be written is read again as it was."""
    assert replay(TARGETS[name]) > 1
    feed(TARGETS[name], of_tier(quick=0.1, thorough=10), 1)


def test_the_corpora_are_small() -> None:
    """All together, so that they can be reviewed; and none is of a target that is gone."""
    files = [*targets.HERE.iterdir(), *targets.HERE.parent.glob("*_corpus.txt")]
    assert {path.stem.removesuffix("_corpus") for path in files} == set(FUZZERS)
    assert sum(path.stat().st_size for path in targets.HERE.iterdir()) < MOST_BYTES


def test_the_page_names_every_fuzzer() -> None:
    """And none that is gone."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "audit" / "how-it-is-tested.md").read_text()
    table = page.partition("| what | fuzzers |")[2].partition("```")[0]
    assert set(re.findall(r"`(\w+)`", table)) == set(FUZZERS)


@given(st.binary())
def test_a_line_is_any_input(data: bytes) -> None:
    """Whatever bytes it has."""
    assert unescaped(escaped(data)) == data
    assert len(escaped(data).splitlines()) == bool(data)


def _planted(data: bytes) -> None:
    assert not data.endswith(b"]:7")


def _large(_data: bytes) -> None:
    assert b"x" * (targets._most_resident() + 2 * targets.MOST_MEMORY)


def test_what_breaks_a_target_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its input, which is the proof; also what takes too long, or too much memory."""
    monkeypatch.setattr(targets, "HERE", tmp_path)
    (tmp_path / "planted.txt").touch()
    with pytest.raises(Broken, match=r"input: (.*\]:7)"):
        feed(Target("planted", _planted, lambda: [b"h:9092"], (b"]:7",)), 60, 1)
    with pytest.raises(Broken, match="more in memory"):
        attempt(Target("large", _large, list), b"")
    monkeypatch.setattr(targets, "MOST_CPU_S", 0)
    with pytest.raises(Broken, match="more than"):
        attempt(Target("slow", len, list), b"")
