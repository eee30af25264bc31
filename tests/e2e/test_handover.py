"""A new version of a job takes over from the old one: two applications, two checkpoints, sinks of their own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.kit.application import ALL, Application, Query
from tests.kit.broker import Broker
from tests.kit.produce import produce

PER_ROUND, PARTITIONS = 400, 2


@pytest.fixture
def old_and_new(tmp_path: Path) -> Iterator[tuple[Application, Application]]:
    """Two applications on one host."""
    with (
        Application(tmp_path / "one", master="local[1]") as one,
        Application(tmp_path / "two", master="local[1]") as two,
    ):
        yield one, two


def delivered(*queries: Query) -> Counter[tuple[int, int]]:
    """How often the plain sinks of these queries have each record."""
    files = [path for query in queries for path in query.out.glob("batch_id=*/*.parquet")]
    rows = [row for path in files for row in pq.ParquetFile(path).read(["partition", "offset"]).to_pylist()]
    return Counter((row["partition"], row["offset"]) for row in rows)


@pytest.mark.timeout(420)
def test_a_deployment_and_the_way_back(
    broker: Broker, topic: str, old_and_new: tuple[Application, Application]
) -> None:
    """Asked in the middle of a batch; back again by the command, on the first checkpoint: each record once."""
    one, two = old_and_new
    broker.admin.create_topic(topic, PARTITIONS)
    produce(broker.bootstrap, topic, PER_ROUND, partitions=PARTITIONS)
    options = {"kafka.bootstrap.servers": broker.bootstrap, "group.id": topic, "subscribe": topic}
    options["maxOffsetsPerTrigger"] = "100"
    old = one.start("job", options, gate=1)
    old.wait_for("begin", 2)
    new = two.start("job", {**options, "handover": "graceful", "value.format": "string"})
    new.wait(lambda: "looking -> asked" in two.driver.log(), 60, "the question")
    began = time.monotonic()
    old.allow(ALL)
    assert "HANDED_OVER" in str(old.end(60))
    new.wait_for("batch", 0)
    standstill_s = time.monotonic() - began  # from the end of the old one's batch to that of the new one's first
    print("standstill", round(standstill_s, 1), "s")  # noqa: T201  a figure
    assert standstill_s < 60
    produce(broker.bootstrap, topic, PER_ROUND, partitions=PARTITIONS)
    new.wait_for_no_lag()
    command = [sys.executable, "-P", "-m", "sparkcohort.runtime.shell.cli.main", "handover", "--group", topic]
    back = [*command, "--bootstrap-server", broker.bootstrap, "--to-checkpoint", str(old.checkpoint)]
    done = subprocess.run(back, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    assert "HANDED_OVER" in str(new.end(60))
    before = delivered(old, new)
    produce(broker.bootstrap, topic, PER_ROUND, partitions=PARTITIONS)
    again = one.start("job", options)
    again.wait_for_no_lag()
    again.stop()
    after = delivered(again, new)
    assert len(before) == 2 * PER_ROUND
    assert (len(after), set(after.values())) == (3 * PER_ROUND, {1})
