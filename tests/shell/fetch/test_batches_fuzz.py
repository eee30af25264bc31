"""The reader of record batches under AddressSanitizer and UndefinedBehaviorSanitizer, with the corpus and with what is like it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkcohort.native import _drain
from tests.kit import batches_fuzz
from tests.kit.parts import decoder


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command, as it was built."""
    return batches_fuzz.FUZZED.build(tmp_path_factory.mktemp("fuzz"))


def end(data: bytes) -> tuple[int, str] | None:
    """The event that a part ends with, and its words; None for the end of all batches."""
    plan, records = batches_fuzz.plan_of(data), data[1:]
    by = decoder(columns=plan.columns, largest=plan.largest, by=lambda _codec, packed, _largest: bytes(packed))
    arguments = (plan.position, plan.stop, plan.high_watermark, list(plan.aborted))
    part = by.part(records, 0, len(records), "t", 7, *arguments)
    while (event := part.take(plan.rows, plan.nbytes)) is not None and event[0] == _drain.RECORDS:
        continue
    return None if event is None else (event[0], str(event[5]))


def test_the_corpus_has_good_batches_and_bad_ones_of_every_kind() -> None:
    """Every event that a part can end with, and every word for damage; a good log for every plan but those that mend nothing."""
    ends = [end(data) for data in batches_fuzz.FUZZED.inputs()]
    kinds = {kind for kind, _ in filter(None, ends)}
    assert kinds == {_drain.ERROR, _drain.BAD_TIMESTAMP, _drain.BAD_HEADER, _drain.TOO_LARGE}
    assert None in ends
    words = " ".join(words for _, words in filter(None, ends))
    for each in (
        "checksum",
        "offsets",
        "again",
        "behind the end",
        "negative",
        "codec",
        "contradict",
        "headers",
        "older",
    ):
        assert each in words


@pytest.mark.timeout(600)
def test_the_corpus_does_no_harm(program: list[str]) -> None:
    """No byte behind an end is read or written, whatever a batch says, in whichever pieces it comes; offsets go up, and inside.

    And with every allocation failing once.
    """
    assert len(batches_fuzz.FUZZED.run(program, 20_000, 0, 7, 500).kept) > 50


def test_the_program_would_tell(tmp_path: Path, program: list[str]) -> None:
    """A plan that is cut off ends it with an error: the harness is awake."""
    cut = tmp_path / "plans"
    cut.write_bytes(Path(program[1]).read_bytes()[:-1])
    with pytest.raises(AssertionError):
        batches_fuzz.FUZZED.run([program[0], str(cut)], 0, 0, 1, 100)
