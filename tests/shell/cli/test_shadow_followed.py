"""``cohort shadow --follow`` where the checkpoint can't be listed or read for a while; no broker is asked."""

from __future__ import annotations

import io
import json
from collections.abc import Collection
from pathlib import Path

import pytest

from sparkcohort.cli.checkpoint import folder, shadow
from sparkcohort.cli.checkpoint.shadow_ranges import EQUAL, RangeComparison, ReadTotals
from sparkcohort.runtime.errors import CohortError
from tests.kit.command import cohort
from tests.shell.cli.test_shadow import planned


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between looks; each range of a batch is equal."""
    found: list[float] = []
    monkeypatch.setattr(shadow.time, "sleep", found.append)  # type: ignore[attr-defined]
    monkeypatch.setattr(shadow, "open_group", lambda *_: None)
    monkeypatch.setattr(shadow, "TwoReaders", lambda _: io.StringIO())
    monkeypatch.setattr(
        shadow,
        "_compare_ranges",
        lambda number, source, ranges, _: [RangeComparison(number, source, r, ReadTotals(), EQUAL) for r in ranges],
    )
    return found


def followed(
    at: Path, monkeypatch: pytest.MonkeyPatch, name: str, failures: Collection[int]
) -> tuple[int, list[int], str]:
    """Status, the batches that were compared, and what was said; each look brings a batch, some looks fail in ``name``."""
    act, looks = getattr(folder.Folder, name), 0

    def look(one: folder.Folder, log: str) -> object:
        nonlocal looks
        if log == "offsets" or name == "read":
            looks += 1
            planned(at, "t", *({"0": number} for number in range(2 + looks)))
            if looks in failures:
                raise CohortError(f"{log}: Slow Down")
        return act(one, log)

    monkeypatch.setattr(folder.Folder, name, look)
    planned(at, "t", {"0": 0})
    said = cohort(
        "shadow", str(at), "--bootstrap-server", "127.0.0.1:1", "--follow", "--batches", "12", "--output", "json"
    )
    return said.returncode, [row["batch"] for row in json.loads(said.stdout)], said.stderr


@pytest.mark.parametrize("name", ["_list_files", "read"])
def test_some_looks_that_fail_end_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pauses: list[float], name: str
) -> None:
    """Every batch is compared once; one line tells of the failures; the tries are ever farther apart."""
    status, batches, said = followed(tmp_path, monkeypatch, name, range(5, 10))
    assert (status, batches) == (0, list(range(1, 13)))
    assert said.count("it is tried again") == 1
    assert pauses[pauses.index(2.0) :][:4] == [2, 4, 8, 16]


def test_it_ends_where_they_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pauses: list[float]) -> None:
    """After so many in a row, with what was compared until then."""
    status, batches, said = followed(tmp_path, monkeypatch, "_list_files", range(2, 99))
    assert (status, batches) == (1, [1, 2])
    assert said.splitlines()[-1] == "cohort: offsets: Slow Down"
    assert (len(pauses), max(pauses)) == (11, 30)
