"""What reads bytes from outside, fed with its corpus and with what is like it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.values.avro_resolution import resolve
from sparkcohort.runtime.values.avro_steps import Op
from sparkcohort.runtime.values.protobuf_columns import column_type
from sparkcohort.runtime.values.protobuf_compilation import compile_steps
from sparkcohort.runtime.values.protobuf_steps import FieldFlag, ProtobufOp
from tests.kit import avro_fuzz, protobuf_fuzz, targets
from tests.kit.fuzzing import READERS
from tests.kit.targets import Broken, Target, attempt, escaped, feed, replay, unescaped
from tests.kit.tier import of_tier

MOST_BYTES = 250_000


@pytest.mark.parametrize("name", READERS)
def test_no_input_does_harm(name: str) -> None:
    """Nothing but the errors that are documented comes out, in time; what can be written is read again as it was."""
    assert replay(READERS[name]) > 1
    feed(READERS[name], of_tier(quick=0.1, thorough=10), 1)


def test_the_corpora_are_small() -> None:
    """All together, so that they can be reviewed; and none is of a target that is gone."""
    assert {path.stem for path in targets.HERE.iterdir()} == set(READERS)
    assert sum(path.stat().st_size for path in targets.HERE.iterdir()) < MOST_BYTES


def test_the_page_names_every_fuzzer() -> None:
    """And none that is gone."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "audit" / "how-it-is-tested.md").read_text()
    table = page.partition("| what | fuzzers |")[2].partition("```")[0]
    assert set(re.findall(r"`(\w+)`", table)) == set(READERS)


@given(st.binary())
def test_a_line_is_any_input(data: bytes) -> None:
    """Whatever bytes it has."""
    assert unescaped(escaped(data)) == data
    assert len(escaped(data).splitlines()) == bool(data)


def test_every_operation_is_fed() -> None:
    """The plans have all of them, and all that is known of Protobuf's fields, so nothing goes without."""
    lists = [resolve(writer, reader, target) for writer, reader, target in avro_fuzz.plans()]
    assert {step.op for each in lists for step in each.steps} == set(Op)
    messages = [compile_steps(of, target or column_type(of)) for of, target, _ in protobuf_fuzz.plans()]
    steps = [step for each in messages for step in each.steps]
    assert {step.op for step in steps} == set(ProtobufOp)
    assert {flag for step in steps for flag in FieldFlag if step.flags & flag} == set(FieldFlag)
    assert {step.column < 0 for step in steps if step.oneof} == {True, False}


def _planted(data: bytes) -> None:
    assert not data.endswith(b"]:7")


def test_what_breaks_a_target_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its input, which is the proof; also what takes too long."""
    monkeypatch.setattr(targets, "HERE", tmp_path)
    (tmp_path / "planted.txt").touch()
    with pytest.raises(Broken, match=r"input: (.*\]:7)"):
        feed(Target("planted", _planted, lambda: [b"h:9092"], (b"]:7",)), 60, 1)
    monkeypatch.setattr(targets, "MOST_CPU_S", 0)
    with pytest.raises(Broken, match="more than"):
        attempt(Target("slow", len, list), b"")
