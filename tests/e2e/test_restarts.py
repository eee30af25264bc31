"""A driver that is SIGKILLed anywhere in Spark's cycle and started again reads the same ranges, each record once."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from tests.kit import delivery
from tests.kit.broker import Broker
from tests.kit.dying import DIES
from tests.kit.produce import produce
from tests.kit.spark import Driver
from tests.kit.streams import options

pytestmark = pytest.mark.timeout(240)  # a busy machine makes a query slow

SCRIPT = Path(__file__).parent / "drivers" / "restarts.py"
PARTITIONS, PORTION = 3, 60  # records to each partition between two runs
LIFE_S = 200.0
LIMIT = 90  # per batch, so a partition gets 30


def run(directory: Path, arguments: Mapping[str, Any], master: str, dies: str) -> None:
    """One life of the driver, to its end at the place given; no process of it is left then."""
    with Driver(SCRIPT, directory, arguments, master=master, env={DIES: dies}) as driver:
        ended = driver.end(LIFE_S)
        assert ended == (-signal.SIGKILL if dies else 0), driver.log_tail()
    assert driver.left == []


def logged(checkpoint: Path, log: str) -> set[str]:
    """The batches in the offset log or the commit log."""
    folder = checkpoint / log
    return {path.name for path in folder.iterdir() if path.name.isdigit()} if folder.exists() else set()


def end_of(checkpoint: Path, batch_id: int) -> list[int]:
    """The end of a batch in the offset log."""
    value = json.loads((checkpoint / "offsets" / str(batch_id)).read_text().splitlines()[-1])
    (ends,) = filter(None, value.values())
    return [ends[str(number)] for number in range(PARTITIONS)]


# Where the driver dies, on which master, whether records come before, and then: batches in both logs, what Kafka has.
LIVES: tuple[tuple[str, str, bool, set[str], set[str], int | None], ...] = (
    ("pinned 0", "local[1]", True, set(), set(), 60),
    ("partitions 0", "local-cluster[2,1,1024]", True, {"0"}, set(), 60),
    ("sink 0", "local[2]", True, {"0"}, set(), 60),
    ("planned 0", "local[1]", False, {"0"}, {"0"}, None),
    # In Spark's commit log, and Kafka not told: it is behind, never ahead, until the next life tells it.
    ("latestOffset 1", "local[2]", False, {"0", "1"}, {"0", "1"}, 90),
    ("", "local[3]", False, {"0", "1", "2", "3"}, {"0", "1", "2", "3"}, 180),
)


@pytest.mark.thorough("six lives of a driver")
@pytest.mark.timeout(600)
def test_killed_at_every_place_of_the_cycle(broker: Broker, topic: str, tmp_path: Path) -> None:
    """From a pinned ``latest`` on, lives on other numbers of executors give each record once, in equal ranges."""
    broker.admin.create_topic(topic, PARTITIONS)
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    source = options(broker, topic, startingOffsets="latest", maxOffsetsPerTrigger=LIMIT)
    arguments = {"options": source, "checkpoint": checkpoint, "out": out}
    written = 0
    for dies, master, more, offsets, commits, committed in LIVES:
        if more:
            produce(broker.bootstrap, topic, PORTION * PARTITIONS, partitions=PARTITIONS, first=written)
            written += PORTION
        run(tmp_path / (dies or "to the end"), arguments, master, dies)
        assert (logged(checkpoint, "offsets"), logged(checkpoint, "commits")) == (offsets, commits), dies
        assert committed in {None, *broker.admin.committed(topic).values()}, dies
        for number in offsets & {"0", "1"}:
            assert end_of(checkpoint, int(number)) == [90 + 30 * int(number)] * PARTITIONS, dies
    held = delivery.held(broker.bootstrap, [topic])
    delivery.check(delivery.from_parquet(out), held.filter(pc.field("offset") >= 60)).assert_exact()


def test_killed_between_sink_and_commit(broker: Broker, topic: str, tmp_path: Path) -> None:
    """What the dead driver wrote of a batch is written again, the same, and then the rest."""
    broker.fill(topic, PORTION * PARTITIONS, PARTITIONS)
    source = options(broker, topic, maxOffsetsPerTrigger=LIMIT)
    arguments = {"options": source, "checkpoint": tmp_path / "checkpoint", "out": tmp_path / "out"}
    for dies, ends in (("sink 0", {0}), ("", {PORTION})):
        run(tmp_path / (dies or "to the end"), arguments, "local[1]", dies)
        assert set(broker.admin.committed(topic).values()) == ends
    delivery.check(delivery.from_parquet(tmp_path / "out"), delivery.held(broker.bootstrap, [topic])).assert_exact()


@pytest.mark.thorough("seven lives of a driver; tests/shell/produce/test_exactly_once.py has the steps without Spark")
@pytest.mark.timeout(900)
def test_killed_at_every_step_of_an_exactly_once_commit(broker: Broker, topic: str, tmp_path: Path) -> None:
    """The next life commits what was decided, writes again what was not, and each record is visible once."""
    broker.fill(topic, PORTION * PARTITIONS, PARTITIONS)
    copy = f"{topic}-copy"
    broker.admin.create_topic(copy, PARTITIONS)
    sink = {"kafka.bootstrap.servers": broker.bootstrap, "topic": copy}
    sink |= {"delivery.guarantee": "exactly-once", "sink.id": copy}
    source = options(broker, topic, maxOffsetsPerTrigger=LIMIT)
    arguments = {"options": source, "checkpoint": tmp_path / "checkpoint", "sink": sink}
    lives = [(f"{phase}-0 0", 0) for phase in ("CLAIM", "READ", "CHECK", "DECIDE", "COMMIT")]
    for dies, visible in (*lives, ("COMMIT-1 0", LIMIT), ("", 2 * LIMIT)):
        run(tmp_path / (dies or "to the end"), arguments, "local[2]", dies)
        seen = delivery.held(broker.bootstrap, [copy]).column("crc").to_pylist()
        assert (dies, len(seen), len(set(seen))) == (dies, visible, visible)
    wanted = delivery.held(broker.bootstrap, [topic]).column("crc").to_pylist()
    found = delivery.held(broker.bootstrap, [copy]).column("crc").to_pylist()
    assert sorted(found) == sorted(wanted)
