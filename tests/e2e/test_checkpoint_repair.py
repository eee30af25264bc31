"""Checkpoints that Spark itself wrote, damaged as file systems and clusters damage them: what Spark says, and what it does after the repair.

Both formats; the command runs as it is installed, without Spark.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.kit.broker import Broker
from tests.kit.command import cohort
from tests.kit.produce import produce
from tests.kit.streams import FORMS, Stream, options

pytestmark = [
    pytest.mark.timeout(900),  # nine damages, and two queries of each
    pytest.mark.usefixtures("sparks_checkpoint_files"),
]
LAST = 3


def written(spark: SparkSession, broker: Broker, topic: str, checkpoint: Path, form: str) -> dict[str, str]:
    """Four batches of 50 records of each of two partitions, and 20 more of each that no batch has; the query's options."""
    broker.fill(topic, 400, 2)
    source = options(broker, topic, maxOffsetsPerTrigger=100)
    assert max(Stream(spark, source, checkpoint, form=form).finish().batches) == LAST
    produce(broker.bootstrap, topic, 40, partitions=2, first=200)
    return source


def cut(at: Path, name: str, keep: int = 0) -> None:
    """Cut a file off as a crash of the file system does, from behind where that is negative; its checksum stays."""
    (at / name).write_bytes((at / name).read_bytes()[:keep])


def remove(at: Path, name: str) -> None:
    """A file and its checksum."""
    (at / name).unlink()
    (at / name).with_name(f".{(at / name).name}.crc").unlink(missing_ok=True)


# How it is damaged, of the last batch where nothing else is said.
Damage = tuple[Callable[..., None], str, int] | tuple[Callable[..., None], str]
LOST_COMMIT: Damage = (remove, f"commits/{LAST}")
DAMAGES: Mapping[str, tuple[list[Damage], str, int]] = {
    "empty offsets, in flight": ([LOST_COMMIT, (cut, f"offsets/{LAST}")], "Incomplete log file", 150),
    "cut offsets, in flight": ([LOST_COMMIT, (cut, f"offsets/{LAST}", -5)], "Expected e.g.|is not JSON|JSON", 150),
    "empty offsets, done": ([(cut, f"offsets/{LAST}")], "Incomplete log file", 150),
    "empty commit": ([(cut, f"commits/{LAST}")], "Incomplete log file", 150),
    "cut commit": ([(cut, f"commits/{LAST}", 8)], "Unexpected end-of-input", 150),
    "commit without offsets": ([(remove, f"offsets/{LAST}")], "CONCURRENT_STREAM_LOG_UPDATE", 150),
    # Which Spark wants also where it has no use for them.
    "offsets before the last": ([(remove, f"offsets/{LAST - 1}")], f"batch {LAST - 1} doesn't exist", 200),
    "no metadata": ([(remove, "metadata")], "MISSING_METADATA_FILE", 200),
    "empty metadata": ([(cut, "metadata")], "No content to map", 200),
}
"""The damage, what Spark says to it, and the first offset of each partition that is read after the repair."""


@pytest.mark.thorough("tests/shell/cli repairs each damage without Spark")
@pytest.mark.parametrize("form", FORMS)
def test_damaged_logs_are_repaired(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, form: str) -> None:
    """Spark fails; the dry run changes nothing; after the repair it delivers what the repair said, up to the end."""
    whole = tmp_path / "whole"
    source = written(spark, broker, topic, whole, form)
    failed: dict[str, str] = {}
    for name, (damage, words, first) in DAMAGES.items():
        at = tmp_path / name.replace(" ", "-").replace(",", "")
        shutil.copytree(whole, at)
        for how, *about in damage:
            how(at, *about)
        trial = tmp_path / f"{at.name}-trial"
        shutil.copytree(at, trial)  # what Spark tries, it may change
        with pytest.raises(Exception, match=words):  # of the query, or of its start
            Stream(spark, source, trial, form=form).finish()
        before = {path: path.read_bytes() for path in at.rglob("*") if path.is_file()}
        assert cohort("checkpoint", "repair", str(at)).returncode == 0
        assert {path: path.read_bytes() for path in at.rglob("*") if path.is_file()} == before
        said = cohort("checkpoint", "repair", str(at), "--execute")
        assert said.returncode == 0, said.stderr
        (backup,) = tmp_path.glob(f"{at.name}.backup-*")
        assert str(backup) in said.stderr
        kept = {path.relative_to(backup): path.read_bytes() for path in backup.rglob("*") if path.is_file()}
        assert kept == {path.relative_to(at): data for path, data in before.items() if "sources" not in path.parts}
        rows = Stream(spark, source, at, form=form).finish().rows
        read = sorted((row.partition, row.offset) for row in rows)
        if read != [(number, offset) for number in (0, 1) for offset in range(first, 220)]:
            failed[name] = f"{read[:1]} to {read[-1:]}, {len(read)} records"
    assert not failed


@pytest.mark.thorough("both formats, and what Spark says of each")
@pytest.mark.parametrize("form", FORMS)
def test_offsets_that_the_log_has_no_more(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, form: str
) -> None:
    """Retention passed the checkpoint: diff counts what is lost; with failOnDataLoss=false the query goes on from the log's start."""
    at = tmp_path / "checkpoint"
    source = written(spark, broker, topic, at, form)
    brokers = ("--bootstrap-server", broker.bootstrap, "--group", topic)
    said = cohort("checkpoint", "diff", str(at), *brokers, "--output", "json")
    assert [(row["lost"], row["restart_from"], row["records"]) for row in json.loads(said.stdout)] == [(0, 200, 20)] * 2
    assert said.returncode == 0, said.stderr
    assert {row["group"] for row in json.loads(said.stdout)} == {"equal" if form == "cohort" else "none"}
    broker.admin.delete_records(topic, {0: 207})
    said = cohort("checkpoint", "diff", str(at), *brokers, "--output", "json")
    assert said.returncode == 1
    assert [(row["lost"], row["restart_from"]) for row in json.loads(said.stdout)] == [(7, 207), (0, 200)]
    trial = tmp_path / "trial"
    shutil.copytree(at, trial)  # what Spark tries, it may change
    assert "DATA_LOSS" in (told := Stream(spark, source, trial, form=form).failure()) or "lost" in told
    rows = Stream(spark, source | {"failOnDataLoss": "false"}, at, form=form).finish().rows
    wanted = [(0, offset) for offset in range(207, 220)] + [(1, offset) for offset in range(200, 220)]
    assert sorted((row.partition, row.offset) for row in rows) == wanted
