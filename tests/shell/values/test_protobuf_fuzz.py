"""The Protobuf interpreter under AddressSanitizer and UndefinedBehaviorSanitizer, with the corpus and what is like it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkcohort.runtime.values.protobuf.interpreter import ProtobufReader
from sparkcohort.runtime.values.protobuf.steps import FieldFlag, ProtobufOp, ProtobufReason
from tests.kit import protobuf_fuzz


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command, as it was built."""
    return protobuf_fuzz.FUZZED.build(tmp_path_factory.mktemp("fuzz"))


def test_every_operation_is_fed() -> None:
    """The plans have all of them, and all that is known of fields, so nothing goes without."""
    steps = [step for plan, _ in protobuf_fuzz.plans() for step in plan.steps]
    assert {step.op for step in steps} == set(ProtobufOp)
    assert {flag for step in steps for flag in FieldFlag if step.flags & flag} == set(FieldFlag)
    assert {step.column < 0 for step in steps if step.oneof} == {True, False}


def test_the_corpus_has_good_records_and_bad_ones_of_every_kind() -> None:
    """For each plan, and every reason that there is."""
    plans = protobuf_fuzz.plans()
    found: dict[int, set[ProtobufReason | None]] = {}
    for data in protobuf_fuzz.FUZZED.inputs():
        steps, framed = plans[data[0] % len(plans)]
        error = ProtobufReader(steps.target).read(data[1:], steps, framed=framed)
        found.setdefault(data[0] % len(plans), set()).add(error.reason if error else None)
    assert set(found) == set(range(len(plans)))
    assert all(None in reasons for reasons in found.values())
    assert set().union(*found.values()) >= set(ProtobufReason)


@pytest.mark.timeout(600)
def test_the_corpus_does_no_harm(program: list[str]) -> None:
    """No byte behind an end is read or written, whatever the record says; nor by some thousand relatives of the corpus.

    And with every allocation failing once: what was read before stays, and the next attempt is as good as the first.
    """
    assert len(protobuf_fuzz.FUZZED.run(program, 20_000, 0, 7, 500).kept) > 50


def test_the_program_would_tell(tmp_path: Path, program: list[str]) -> None:
    """A plan that is cut off ends it with an error: the harness is awake."""
    cut = tmp_path / "plans"
    cut.write_bytes(Path(program[1]).read_bytes()[:-1])
    with pytest.raises(AssertionError):
        protobuf_fuzz.FUZZED.run([program[0], str(cut)], 0, 0, 1, 100)
