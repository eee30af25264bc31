"""Spark 4.2's named sources, whose offset log (v2) has each by its name: both formats, and what ``cohort`` says of their checkpoints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.kit.broker import Broker
from tests.kit.command import cohort
from tests.kit.produce import produce
from tests.kit.streams import FORMS, Places, Stream, options

pytestmark = [
    pytest.mark.thorough("a query that is started four times"),
    pytest.mark.timeout(300),  # a busy machine makes a query slow
]

EVOLUTION = {
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
    "spark.sql.streaming.offsetLog.formatVersion": "2",
}
EACH = 20
"""Records that each topic gets before each run."""


@pytest.fixture(autouse=True)
def _evolving(spark: SparkSession) -> Iterator[None]:
    """Sources are named while a test of this file runs."""
    for name, value in EVOLUTION.items():
        spark.conf.set(name, value)
    yield
    for name in EVOLUTION:
        spark.conf.unset(name)


class NamedStream(Stream):
    """A query of a source for each topic, called as the topic ends."""

    def __init__(
        self, spark: SparkSession, broker: Broker, group: str, names: str, checkpoint: Path, form: str
    ) -> None:
        """``names``: a letter a source, in the query's order; their topics are ``group-letter``."""
        super().__init__(spark, {}, checkpoint, form=form, columns=("topic", "partition", "offset"))
        self._all = {
            name: options(broker, f"{group}-{name}", group__id=group if form == "cohort" else None) for name in names
        }

    def load(self) -> DataFrame:
        """The union of the sources."""
        frames = []
        for name, given in self._all.items():
            reader = self._spark.readStream.name(f"source_{name}").format(self._form)
            frames.append(reader.options(**given).load().select("topic", "partition", "offset"))
        return reduce(DataFrame.union, frames)


@pytest.mark.parametrize("form", FORMS)
def test_sources_come_and_go_by_name(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, form: str
) -> None:
    """One is added, they change places, one is removed: each record once; show, diff and repair read the log."""
    for name in "ab":
        broker.admin.create_topic(f"{topic}-{name}", 2)
    found: Places = []
    checkpoint = tmp_path / "checkpoint"
    for number, names in enumerate(("a", "ab", "ba", "b")):
        for name in "ab":
            produce(broker.bootstrap, f"{topic}-{name}", EACH, partitions=2, first=number * EACH // 2)
        run = NamedStream(spark, broker, topic, names, checkpoint, form).finish()
        found += [(row.topic, row.partition, row.offset) for row in run.rows]
        text = (checkpoint / "offsets" / str(number)).read_text()
        assert text.startswith("v2\n"), "as Spark writes it by these settings"
        assert_known(broker, checkpoint, {f"source_{name}" for name in names}, form)
    read = {"a": 3, "b": 4}  # runs whose records it has: b begins at the earliest one
    expected = [
        (f"{topic}-{name}", at, offset)
        for name, runs in read.items()
        for at in (0, 1)
        for offset in range(runs * EACH // 2)
    ]
    assert sorted(found) == sorted(expected)
    assert_repaired(spark, broker, topic, checkpoint, form)


def assert_known(broker: Broker, checkpoint: Path, names: set[str], form: str) -> None:
    """What the commands say of a checkpoint whose query has read all."""
    server = ("--bootstrap-server", broker.bootstrap)
    shown = json.loads(cohort("checkpoint", "show", str(checkpoint), "--offsets", "--output", "json").stdout)
    assert {row["source"] for row in shown} == names
    assert {row["format"] for row in shown} == {form}
    compared = cohort("checkpoint", "diff", str(checkpoint), *server, "--output", "json")
    assert compared.returncode == 0, compared.stderr
    rows = json.loads(compared.stdout)
    assert {(row["source"], row["records"], row["verdict"]) for row in rows} == {(name, 0, "ok") for name in names}
    assert "nothing to repair" in cohort("checkpoint", "repair", str(checkpoint)).stderr


def assert_repaired(spark: SparkSession, broker: Broker, topic: str, checkpoint: Path, form: str) -> None:
    """Of a last batch that is cut off, Spark goes on with what the repair leaves: its records once more."""
    last = max((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    last.write_bytes(last.read_bytes()[:-5])
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    assert cohort("checkpoint", "show", str(checkpoint)).returncode == 1
    done = cohort("checkpoint", "repair", str(checkpoint), "--execute")
    assert done.returncode == 0, done.stderr
    again = NamedStream(spark, broker, topic, "b", checkpoint, form).finish()
    assert len(again.rows) == EACH
