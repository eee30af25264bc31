"""Many partitions with little data: a batch has as many tasks as there are cores, not as there are partitions."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from statistics import median

import pytest

from sparkcohort.streaming.planner import SLOTS_WITHOUT_MEMBERS
from tests.kit import delivery
from tests.kit.broker import Broker
from tests.kit.produce import Steady
from tests.kit.spark import Driver

pytestmark = pytest.mark.thorough("a trickle over 300 partitions")

CORES = 2
FEW, MANY = 8, 300
RATE = 900  # records a second into each topic, however many partitions it has: the rows of a batch are the same
BATCHES = 15  # of each reading


@pytest.mark.timeout(300)
def test_a_trickle_over_many_partitions_takes_no_more_tasks_than_over_few(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    """No batch over 300 partitions has more than eight tasks, most have no more than there are cores, and every record arrives once.

    Spark's own source runs a task per partition.  What a trigger takes is measured by the bench's part ``partitions``.
    """
    topics = {f"{topic}-{partitions}": partitions for partitions in (FEW, MANY)}
    given = {"bootstrap": broker.bootstrap, "directory": tmp_path, "topics": list(topics), "batches": BATCHES}
    for name, partitions in topics.items():
        broker.admin.create_topic(name, partitions)
    with Driver("drivers/trickle.py", tmp_path / "driver", given, master=f"local[{CORES}]") as driver:
        with ExitStack() as producers:
            for name, partitions in topics.items():
                producers.enter_context(Steady(broker.bootstrap, name, partitions=partitions, rate=RATE))
            driver.wait_for("reading", 240, count=len(topics))
        (tmp_path / "stopped").touch()
        driver.wait(100)
        readings = driver.events("reading")
    for name in topics:
        seen = delivery.from_json(tmp_path / name / "out")
        delivery.check(seen, delivery.held(broker.bootstrap, [name])).assert_exact()
    for reading in readings:
        assert len(reading["tasks"]) >= BATCHES
        assert max(reading["tasks"]) <= SLOTS_WITHOUT_MEMBERS, reading  # the first ones find no members yet
        assert median(reading["tasks"]) <= CORES, reading
