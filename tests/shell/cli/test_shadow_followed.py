"""``cohort shadow --follow`` where the checkpoint can't be listed or read for a while; no broker is asked."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkcohort.cli.checkpoint import folder, shadow
from sparkcohort.cli.checkpoint.shadow_ranges import EQUAL, RangeComparison, ReadTotals
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.partitions import Range
from tests.kit.command import cohort

NOBODY = "127.0.0.1:1"
MORE = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}}


def plan(at: Path, count: int) -> None:
    """So many batches of one partition."""
    (at / "offsets").mkdir(parents=True, exist_ok=True)
    (at / "metadata").write_text('{"id":"a-query"}')
    for number in range(count):
        (at / "offsets" / str(number)).write_text(f"v1\n{json.dumps(MORE)}\n{json.dumps({'t': {'0': number}})}")


class Looks:
    """The looks at a checkpoint; some fail as an object store does, in the listing or in a file."""

    def __init__(self, at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at = at
        self.fails: Callable[[int], str] = lambda _: ""  # by the number of the look: "listing", "file" or ""
        self.count = 0
        self.pauses: list[float] = []
        self._patch(monkeypatch)
        monkeypatch.setattr(shadow.time, "sleep", self.pauses.append)  # type: ignore[attr-defined]
        monkeypatch.setattr(shadow, "_compare_ranges", self._equal)
        monkeypatch.setattr(shadow, "open_group", lambda *_: None)
        monkeypatch.setattr(shadow, "TwoReaders", lambda _: io.StringIO())

    def _patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        listed, read = folder.Folder._list_files, folder.Folder.read

        def entries(one: folder.Folder, log: str) -> list[folder.LogFile]:
            self.count += log == "offsets"
            plan(self.at, 2 + self.count)
            self._fail("listing")
            return listed(one, log)

        def text(one: folder.Folder, name: str) -> str:
            self._fail("file")
            return read(one, name)

        monkeypatch.setattr(folder.Folder, "_list_files", entries)
        monkeypatch.setattr(folder.Folder, "read", text)

    def _fail(self, what: str) -> None:
        if self.fails(self.count) == what:
            raise CohortError(f"{what}: Slow Down")

    def _equal(self, number: int, source: int, wanted: list[Range], _: object) -> list[RangeComparison]:
        return [RangeComparison(number, source, each, ReadTotals(), EQUAL) for each in wanted]


@pytest.fixture
def looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Looks:
    """Each brings one more batch."""
    return Looks(tmp_path / "checkpoint", monkeypatch)


def followed(looks: Looks, batches: int) -> tuple[int, list[int], str]:
    """Status, the batches that were compared, and what was said."""
    more = ("--bootstrap-server", NOBODY, "--follow", "--batches", str(batches), "--output", "csv")
    said = cohort("shadow", str(looks.at), *more)
    return said.returncode, [int(line.split(",")[0]) for line in said.stdout.splitlines()[1:]], said.stderr


@pytest.mark.parametrize("what", ["listing", "file"])
def test_some_looks_that_fail_end_nothing(looks: Looks, what: str) -> None:
    """Every batch is compared once; one line tells of the failures; the tries are ever farther apart."""
    looks.fails = lambda number: what if number in range(3, 8) else ""
    status, batches, said = followed(looks, 12)
    assert (status, batches) == (0, list(range(1, 13)))
    assert said.count("it is tried again") == 1
    assert looks.pauses == [1, 1, 1, 2, 4, 8, 16, *[1] * (len(looks.pauses) - 7)]


def test_it_ends_where_they_go_on(looks: Looks) -> None:
    """After so many in a row, with what was compared until then."""
    looks.fails = lambda number: "listing" if number >= 2 else ""
    status, batches, said = followed(looks, 12)
    assert (status, batches) == (1, [1, 2])
    assert said.splitlines()[-1] == "cohort: listing: Slow Down"
    assert (looks.count, max(looks.pauses)) == (12, 30)


def test_the_first_look_may_not_fail(looks: Looks) -> None:
    """A name that is mistyped is told at once."""
    looks.fails = lambda _: "listing"
    status, batches, said = followed(looks, 12)
    assert (status, batches, looks.count, looks.pauses) == (1, [], 1, [])
    assert said.splitlines()[-1] == "cohort: listing: Slow Down"
