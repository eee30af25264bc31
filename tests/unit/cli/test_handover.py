"""Checkpoints that ``cohort handover --to-checkpoint`` writes, and those that it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkcohort.cli.handover import writable, write_checkpoint
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.partitions import TopicPartition

ENDED = {TopicPartition("t", 1): 8, TopicPartition("t", 0): 7}
TEXT = '{"t":{"0":7,"1":8}}'


def lines(folder: Path, log: str, batch: int) -> list[str]:
    """What a log of the checkpoint has of a batch."""
    return (folder / log / str(batch)).read_text().splitlines()


def test_a_new_checkpoint(tmp_path: Path) -> None:
    """Batch 0 ends there, in a folder that is new or empty; doing it again changes nothing."""
    for folder in (tmp_path / "new", tmp_path / "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        assert write_checkpoint(folder, ENDED) == 0
        assert (lines(folder, "offsets", 0)[2], lines(folder, "commits", 0)[0]) == (TEXT, "v1")
        assert json.loads((folder / "metadata").read_text())["id"]
        assert write_checkpoint(folder, ENDED) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "new"]


def test_an_old_checkpoint_is_written_on(tmp_path: Path) -> None:
    """One batch more, with the metadata of the last; what was cut short between offsets and commit is completed."""
    write_checkpoint(tmp_path / "old", {TopicPartition("t", 0): 1})
    assert write_checkpoint(tmp_path / "old", ENDED) == 1
    assert lines(tmp_path / "old", "offsets", 1) == [*lines(tmp_path / "old", "offsets", 0)[:2], TEXT]
    assert lines(tmp_path / "old", "commits", 1) == lines(tmp_path / "old", "commits", 0)
    (tmp_path / "old" / "commits" / "1").unlink()
    assert write_checkpoint(tmp_path / "old", ENDED) == 1
    assert (tmp_path / "old" / "commits" / "1").exists()


def test_a_named_source_is_written_on(tmp_path: Path) -> None:
    """Spark 4.2's offset log by names: the source keeps its name, the log its version; two sources are refused as ever."""
    write_checkpoint(tmp_path / "old", {TopicPartition("t", 0): 1})
    offsets = tmp_path / "old" / "offsets"
    metadata = lines(tmp_path / "old", "offsets", 0)[1]
    (offsets / "0").write_text(f'v2\n{metadata}\norders:{{"t":{{"0":1}}}}')
    assert write_checkpoint(tmp_path / "old", ENDED) == write_checkpoint(tmp_path / "old", ENDED) == 1
    assert lines(tmp_path / "old", "offsets", 1) == ["v2", metadata, f"orders:{TEXT}"]
    (offsets / "1").write_text(f"v2\n{metadata}\norders:{TEXT}\nrefunds:-")
    with pytest.raises(CohortError, match="2 sources"):
        writable(tmp_path / "old")
    (offsets / "1").write_text(f"v3\n{metadata}\norders:{TEXT}")
    with pytest.raises(CohortError, match="version v3; v2 is the newest"):
        writable(tmp_path / "old")


def test_what_is_refused(tmp_path: Path) -> None:
    """Before anybody is stopped: state, several sources, what is no checkpoint; and a batch that is planned only."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(CohortError, match="is no checkpoint"):
        writable(tmp_path / "other")
    write_checkpoint(tmp_path / "old", ENDED)
    (tmp_path / "old" / "state").mkdir()
    with pytest.raises(CohortError, match="has state"):
        writable(tmp_path / "old")
    (tmp_path / "old" / "state").rmdir()
    (tmp_path / "old" / "offsets" / "0").write_text("v1\n{}\n{}\n{}")
    with pytest.raises(CohortError, match="2 sources"):
        writable(tmp_path / "old")
    write_checkpoint(tmp_path / "planned", ENDED)
    (tmp_path / "planned" / "offsets" / "1").write_text('v1\n{}\n{"t":{"0":9}}')
    with pytest.raises(CohortError, match="planned and not committed"):
        write_checkpoint(tmp_path / "planned", ENDED)


def test_a_checkpoint_that_is_too_long_is_not_cut(tmp_path: Path) -> None:
    """Its beginning would be taken for all of it, and written again; nothing is written."""
    write_checkpoint(tmp_path / "long", ENDED)
    path = tmp_path / "long" / "commits" / "0"
    path.write_text("v1\n" + "x" * (1 << 20))
    with pytest.raises(
        CohortError, match=rf"{path} has more than 1048576 characters, the most that are read: name a new"
    ):
        write_checkpoint(tmp_path / "long", {TopicPartition("t", 0): 999})
    assert [each.name for each in (tmp_path / "long" / "offsets").iterdir()] == ["0"]
