"""The Avro interpreter under AddressSanitizer and UndefinedBehaviorSanitizer, with the corpus and with what is like it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkcohort.runtime.values.avro.interpreter import AvroReader
from sparkcohort.runtime.values.avro.steps import AvroReason, Op
from tests.kit import avro_fuzz


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command, as it was built."""
    return avro_fuzz.FUZZED.build(tmp_path_factory.mktemp("fuzz"))


def test_every_operation_is_fed() -> None:
    """The plans have all of them, so no operation goes without."""
    assert {step.op for plan in avro_fuzz.plans() for step in plan.steps} == set(Op)


def test_the_corpus_has_good_records_and_bad_ones_of_every_kind() -> None:
    """Those that reach the end of a plan, and nearly every reason that a record itself can be bad for."""
    plans = avro_fuzz.plans()
    found: dict[int, set[AvroReason | None]] = {}
    for data in avro_fuzz.FUZZED.inputs():
        steps = plans[data[0] % len(plans)]
        error = AvroReader(steps.target).read(data[1:], steps)
        found.setdefault(data[0] % len(plans), set()).add(error.reason if error else None)
    assert set(found) == set(range(len(plans)))
    assert all(None in reasons for reasons in found.values())
    assert set().union(*found.values()) >= set(AvroReason) - {AvroReason.FRAME, AvroReason.NO_SCHEMA, AvroReason.DEPTH}


@pytest.mark.timeout(600)
def test_the_corpus_does_no_harm(program: list[str]) -> None:
    """No byte behind an end is read or written, whatever the record says; nor by some thousand relatives of the corpus.

    And with every allocation failing once: what was read before stays, and the next attempt is as good as the first.
    """
    assert len(avro_fuzz.FUZZED.run(program, 20_000, 0, 7, 500).kept) > 50


def test_the_program_would_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: list[str]) -> None:
    """A plan that is cut off ends it with an error: the harness is awake."""
    cut = tmp_path / "plans"
    cut.write_bytes(Path(program[1]).read_bytes()[:-1])
    with pytest.raises(AssertionError):
        avro_fuzz.FUZZED.run([program[0], str(cut)], 0, 0, 1, 100)
