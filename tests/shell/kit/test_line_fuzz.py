"""What reads bytes from outside, in Python, fed with its corpus; and the fuzzer that the corpora come from."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.kafka.addresses import servers
from tests.kit import line_fuzz
from tests.kit.fuzzing import FUZZERS, TARGETS
from tests.kit.line_fuzz import MOST_MEMORY, Broken, Lines, Target, attempt, escaped, grow, replay, unescaped

MOST_BYTES = 120_000
LEAST = {
    "metadata": 97, "fetched": 87, "epoch_ends": 97, "login": 91, "frames": 83, "scram": 97, "bearer": 97, "run_epoch": 92, "handover": 97,
    "codecs": 94, "subscription": 82, "assignment": 97, "messages": 75, "calls": 75, "loads": 97, "task_request": 84, "agent_config": 97,
    "agent_answer": 75, "offsets": 88, "checkpoint": 95, "journal": 85, "avro_schema": 90, "descriptors": 92,
}  # fmt: skip
"""Of a target's lines, in percent: a little less than there were when this was written.  What is missing needs no input: errors of others."""


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_does_no_harm(name: str) -> None:
    """Nothing but the errors that are documented comes out, in time; what can be written is read again as it was."""
    assert replay(TARGETS[name]) > 1
    assert TARGETS[name].inputs()


@pytest.mark.thorough("each line is traced")
@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_reaches_at_least_three_quarters_of_the_code(name: str) -> None:
    """As many of the target's lines as there were, and no fewer than the examples that the fuzzer begins with."""
    target = TARGETS[name]
    reached = []
    for inputs in (target.seeds(), target.inputs()):
        lines = Lines(target)
        for data in inputs:
            attempt(target, data, lines)
        reached.append(lines.reached())
    assert reached[0] <= reached[1]
    assert LEAST[name] <= 100 * reached[1] / len(lines.all)


def test_the_corpora_are_small() -> None:
    """All together, so that they can be reviewed; and none is of a target that is gone."""
    files = [*line_fuzz.HERE.iterdir(), *line_fuzz.HERE.parent.glob("*_corpus.txt")]
    assert {path.stem.removesuffix("_corpus") for path in files} == set(FUZZERS)
    assert sum(path.stat().st_size for path in line_fuzz.HERE.iterdir()) < MOST_BYTES


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
    with suppress(ValueError):
        found = servers(data.decode(errors="replace"))
        assert not any(each.port == 7 and ":" in each.host for each in found)


@pytest.mark.thorough("a search")
def test_it_finds_what_is_planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From an input that is far from it, within a bounded time; the input is told, and is the proof."""
    monkeypatch.setattr(line_fuzz, "HERE", tmp_path)
    target = Target("planted", (servers,), _planted, lambda: [b"h:9092"], (b"[", b"]:7"))
    with pytest.raises(Broken, match="input: ") as caught:
        grow(target, 60, 1)
    data = unescaped(str(caught.value).rpartition("input: ")[2])
    with pytest.raises(AssertionError):
        _planted(data)


def _endless(_data: bytes) -> None:
    while True:
        pass


def test_what_does_not_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bounded time for each input."""
    monkeypatch.setattr(line_fuzz, "MOST_CPU_S", 0.1)
    with pytest.raises(Broken, match="more than"):
        attempt(Target("endless", (servers,), _endless, list), b"")


def _large(_data: bytes) -> None:
    assert b"x" * (line_fuzz._most_resident() + 2 * MOST_MEMORY)


def test_what_takes_much_memory_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than any bound of a reader.  On a busy machine the pages alone take seconds, which is not what is asked here."""
    monkeypatch.setattr(line_fuzz, "MOST_CPU_S", 60)
    target = Target("large", (servers,), _large, list)
    with pytest.raises(Broken, match="more in memory"):
        attempt(target, b"", Lines(target))
