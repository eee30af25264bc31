"""A driver that is SIGKILLed anywhere in Spark's cycle and started again reads the same ranges, each record once."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from tests.kit import consumer_groups, delivery
from tests.kit.broker import Broker
from tests.kit.dying import DIES
from tests.kit.produce import produce
from tests.kit.spark import Driver
from tests.kit.streams import options

pytestmark = pytest.mark.timeout(240)  # a busy machine makes a query slow

PARTITIONS, PORTION = 3, 60  # records to each partition between two runs
LIFE_S = 200.0
LIMIT = 90  # per batch, so a partition gets 30


def run(directory: Path, arguments: Mapping[str, Any], master: str, dies: str) -> None:
    """One life of the driver, to its end at the place given; no process of it is left then."""
    with Driver("drivers/restarts.py", directory, arguments, master=master, env={DIES: dies}) as driver:
        ended = driver.end(LIFE_S)
        assert ended == (-signal.SIGKILL if dies else 0), driver.log_tail()
    assert [what for what in driver.left if what.startswith("pid")] == []


def logged(checkpoint: Path, log: str) -> set[str]:
    """The batches in the offset log or the commit log."""
    folder = checkpoint / log
    return {path.name for path in folder.iterdir() if path.name.isdigit()} if folder.exists() else set()


def end_of(checkpoint: Path, batch_id: int) -> list[int]:
    """The end of a batch in the offset log."""
    value = json.loads((checkpoint / "offsets" / str(batch_id)).read_text().splitlines()[-1])
    (ends,) = filter(None, value.values())
    return [ends[str(number)] for number in range(PARTITIONS)]


@pytest.mark.timeout(600)
def test_killed_at_every_place_of_the_cycle(broker: Broker, topic: str, tmp_path: Path) -> None:
    """From a pinned ``latest`` on, six lives on other numbers of executors give each record once, in equal ranges."""
    broker.admin.create_topic(topic, PARTITIONS)
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    source = options(broker, topic, startingOffsets="latest", maxOffsetsPerTrigger=LIMIT)
    arguments = {"options": source, "checkpoint": checkpoint, "out": out}
    written = 0

    def more() -> None:
        nonlocal written
        produce(broker.bootstrap, topic, PORTION * PARTITIONS, partitions=PARTITIONS, first=written)
        written += PORTION

    def committed() -> list[int]:
        found = broker.admin.committed(topic)
        return [found[topic, number] for number in range(PARTITIONS)]

    more()
    run(tmp_path / "pinned", arguments, "local[1]", "pinned 0")
    assert logged(checkpoint, "offsets") == set()
    assert committed() == [60] * PARTITIONS
    more()
    run(tmp_path / "logged", arguments, "local-cluster[2,1,1024]", "partitions 0")
    assert (logged(checkpoint, "offsets"), logged(checkpoint, "commits")) == ({"0"}, set())
    first_end = end_of(checkpoint, 0)
    assert first_end == [90] * PARTITIONS
    more()
    run(tmp_path / "written", arguments, "local[2]", "sink 0")
    assert (logged(checkpoint, "commits"), committed()) == (set(), [60] * PARTITIONS)
    assert sorted(delivery.from_parquet(out)["offset"].to_pylist()) == sorted([*range(60, 90)] * PARTITIONS)
    run(tmp_path / "planned", arguments, "local[1]", "planned 0")
    assert (logged(checkpoint, "commits"), end_of(checkpoint, 0)) == ({"0"}, first_end)
    assert logged(checkpoint, "offsets") == {"0"}
    # In Spark's commit log, and Kafka not told: it is behind, never ahead, until the next life tells it.
    run(tmp_path / "untold", arguments, "local[2]", "latestOffset 1")
    assert (logged(checkpoint, "commits"), committed()) == ({"0", "1"}, first_end)
    assert end_of(checkpoint, 1) == [120] * PARTITIONS
    run(tmp_path / "to-the-end", arguments, "local[3]", "")
    held = delivery.held(broker.bootstrap, [topic])
    delivery.check(delivery.from_parquet(out), held.filter(pc.field("offset") >= 60)).assert_exact()
    assert committed() == [3 * PORTION] * PARTITIONS
    assert [row.lag for row in consumer_groups.describe(broker.bootstrap, topic)] == [0] * PARTITIONS
