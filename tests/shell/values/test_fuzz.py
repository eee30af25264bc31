"""What reads bytes in C, under AddressSanitizer and UndefinedBehaviorSanitizer, with its corpus and with what is like it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkcohort.runtime.values.avro_steps import Op
from sparkcohort.runtime.values.protobuf_steps import FieldFlag, ProtobufOp
from tests.kit import avro_fuzz, protobuf_fuzz
from tests.kit.fuzz import DECODERS, Fuzzed, fuzzed


@pytest.fixture(scope="module", params=DECODERS)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Fuzzed, list[str]]:
    """A harness, and its command."""
    harness = fuzzed(request.param)
    return harness, harness.build(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.thorough("built with sanitizers")
@pytest.mark.timeout(600)
def test_the_corpus_does_no_harm(built: tuple[Fuzzed, list[str]]) -> None:
    """No byte outside is touched, by the corpus and some thousand relatives, and with every allocation failing once."""
    harness, program = built
    assert len(harness.run(program, 20_000, 0, 7, 500).kept) > 50


@pytest.mark.thorough("built with sanitizers")
def test_the_program_would_tell(tmp_path: Path, built: tuple[Fuzzed, list[str]]) -> None:
    """A plan that is cut off ends it with an error: the harness is awake."""
    harness, program = built
    cut = tmp_path / "plans"
    cut.write_bytes(Path(program[1]).read_bytes()[:-1])
    with pytest.raises(AssertionError):
        harness.run([program[0], str(cut)], 0, 0, 1, 100)


def test_every_operation_is_fed() -> None:
    """The plans have all of them, and all that is known of Protobuf's fields, so nothing goes without."""
    assert {step.op for each in avro_fuzz.plans() for step in each.steps} == set(Op)
    steps = [step for each, _ in protobuf_fuzz.plans() for step in each.steps]
    assert {step.op for step in steps} == set(ProtobufOp)
    assert {flag for step in steps for flag in FieldFlag if step.flags & flag} == set(FieldFlag)
    assert {step.column < 0 for step in steps if step.oneof} == {True, False}
