"""Many partitions with little data: the trigger time grows far less than the number of partitions."""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import pytest

from tests.support import delivery
from tests.support.broker import Broker
from tests.support.produce import Steady
from tests.support.spark import Driver

FEW, MANY = 8, 300
RATE = 900  # records a second into each topic, however many partitions it has: the rows of a batch are the same
BATCHES, UNMEASURED = 25, 8  # of each reading; the first ones of a query find no members yet
MOST = 1.5


@pytest.mark.timeout(420)
def test_a_trickle_over_many_partitions_is_hardly_slower_than_over_few(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    """The median trigger time of 300 partitions is at most 1.5 x that of 8, and every record arrives once."""
    topics = {f"{topic}-{partitions}": partitions for partitions in (FEW, MANY)}
    few, many = topics
    given = {"bootstrap": broker.bootstrap, "directory": tmp_path, "topics": [many, few, many, many, few]}
    given |= {"batches": BATCHES, "unmeasured": UNMEASURED}
    for name, partitions in topics.items():
        broker.admin.create_topic(name, partitions)
    conf = {"spark.sql.streaming.numRecentProgressUpdates": "1000"}
    with Driver("drivers/trickle.py", tmp_path / "driver", given, conf=conf) as driver:
        with ExitStack() as producers:
            for name, partitions in topics.items():
                producers.enter_context(Steady(broker.bootstrap, name, partitions=partitions, rate=RATE))
            driver.wait_for("reading", 300, count=5)
        (tmp_path / "stopped").touch()
        driver.wait(100)
        readings = driver.events("reading")
    times: dict[str, list[int]] = defaultdict(list)
    for reading in readings[1:]:  # the first one finds cold code
        times[reading["topic"]] += reading["trigger_ms"]
    for name in topics:
        seen = delivery.from_json(tmp_path / name / "out")
        delivery.check(seen, delivery.held(broker.bootstrap, [name])).assert_exact()
    assert median(times[many]) <= MOST * median(times[few]), dict(times)
