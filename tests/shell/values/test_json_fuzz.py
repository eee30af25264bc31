"""The JSON reader under AddressSanitizer and UndefinedBehaviorSanitizer, with the corpus and with what is like it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkcohort.runtime.shell.values.arrow_types import check_values
from sparkcohort.runtime.values.json.plan import JsonReason, plan
from sparkcohort.runtime.values.json.reader import JsonReader
from tests.kit import json_fuzz


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command, as it was built."""
    return json_fuzz.FUZZED.build(tmp_path_factory.mktemp("fuzz"))


def test_the_corpus_has_good_records_and_bad_ones_of_every_kind() -> None:
    """For every plan good ones, and every reason that a record can be bad for."""
    found: dict[int, set[JsonReason | None]] = {}
    for data in json_fuzz.FUZZED.inputs():
        number = data[0] % len(json_fuzz.TARGETS)
        _, fault = JsonReader(plan(json_fuzz.TARGETS[number]), check_values).read(data[1:])
        found.setdefault(number, set()).add(fault[0] if fault else None)
    assert set(found) == set(range(len(json_fuzz.TARGETS)))
    assert all(None in reasons for reasons in found.values())
    assert set().union(*found.values()) >= set(JsonReason)


@pytest.mark.timeout(600)
def test_the_corpus_does_no_harm(program: list[str]) -> None:
    """No byte behind an end is read or written, whatever the record says; nor by some thousand relatives of the corpus.

    And with every allocation failing once: what was read before stays, and the next attempt is as good as the first.
    """
    assert len(json_fuzz.FUZZED.run(program, 20_000, 0, 7, 500).kept) > 50


def test_the_program_would_tell(tmp_path: Path, program: list[str]) -> None:
    """A plan that is cut off ends it with an error: the harness is awake."""
    cut = tmp_path / "plans"
    cut.write_bytes(Path(program[1]).read_bytes()[:-1])
    with pytest.raises(AssertionError):
        json_fuzz.FUZZED.run([program[0], str(cut)], 0, 0, 1, 100)
