"""The README's pipeline, as a user would run it: spark-submit, a standalone master, two workers, a real broker."""

from __future__ import annotations

import re
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support import consumer_groups, delivery, processes
from tests.support.broker import Broker
from tests.support.jars import ROOT
from tests.support.produce import place_of, produce
from tests.support.standalone import environment, standalone
from tests.support.waiting import wait_until

RECORDS, PARTITIONS, GROUP = 200_000, 12, "submitted"
SUBMIT_TIMEOUT_S = 180.0


def pipeline() -> str:
    """The Python block between the README's markers."""
    block = re.search(
        r"<!-- pipeline:begin -->\s*```python\n(.*?)```\s*<!-- pipeline:end -->",
        (ROOT / "README.md").read_text(),
        re.DOTALL,
    )
    assert block, "README.md has no python block between <!-- pipeline:begin --> and <!-- pipeline:end -->"
    return block[1]


def submit(command: Sequence[str], env: Mapping[str, str], log: Path) -> None:
    """Run spark-submit to its end; raises AssertionError with the end of its output unless it succeeds in time."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=dict(env), cwd=log.parent, stdout=output, stderr=output)
    try:
        status: int | None = process.wait(SUBMIT_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        status = None  # the run's processes are killed at the end of the test
    assert status == 0, f"spark-submit ended with {status}:\n{log.read_text(errors='replace')[-8000:]}"


def delivered(path: Path) -> pa.Table:
    """What the pipeline's sink holds, as the delivery checker wants it; the keys are what ``produce`` made of them."""
    rows = pq.read_table(path).to_pylist()
    sums = ((row["topic"], row["partition"], row["offset"], _crc(row["order"].encode()), 0) for row in rows)
    return delivery.table(sums, delivery.DELIVERED)


def _crc(value: bytes) -> int:
    return delivery.crc(b"%d" % place_of(value)[1], value)


def agents(run: str) -> list[psutil.Process]:
    """The member agents of this run."""
    return processes.matching("sparkcohort.runtime.shell.agent", processes.marked(run))


@pytest.mark.timeout(400)
def test_the_readme_pipeline_runs_through_spark_submit(broker: Broker, topic: str, tmp_path: Path) -> None:
    """The README's pipeline delivers every record once, commits to lag 0, and leaves no agent behind."""
    broker.admin.create_topic(topic, PARTITIONS)
    produce(broker.bootstrap, topic, RECORDS, partitions=PARTITIONS)
    script, run = tmp_path / "pipeline.py", uuid.uuid4().hex
    script.write_text(pipeline())
    env = environment(tmp_path, run)
    try:
        with standalone(tmp_path, env, hosts=["127.0.0.1"] * 2) as master:
            command = [str(ROOT / "conf" / "submit.sh"), "--conf", "spark.ui.enabled=false"]
            command += [str(script), broker.bootstrap, topic, GROUP, str(tmp_path)]
            submit(command, {**env, "MASTER": master}, tmp_path / "driver.log")
            wait_until(lambda: not agents(run), 15, "the end of the agents")
            executors = sorted(path.name for path in tmp_path.glob("work-*/app-*/*") if path.is_dir())
        assert executors == ["0", "1"], "one executor on each worker"
        delivery.check(delivered(tmp_path / "orders"), delivery.held(broker.bootstrap, [topic])).assert_exact()
        rows = consumer_groups.describe(broker.bootstrap, GROUP)
        assert [(row.partition, row.lag) for row in rows if row.topic == topic] == [(n, 0) for n in range(PARTITIONS)]
        wait_until(lambda: not processes.marked(run), 15, "the end of every process of the run")
    finally:
        processes.kill_run(run)
