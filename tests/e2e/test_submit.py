"""The pipeline that README shows, as a user would run it: spark-submit, a standalone master, two workers, a real broker."""

from __future__ import annotations

import re
import subprocess
import sys
import uuid
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.kit import consumer_groups, delivery, processes, tokens
from tests.kit.broker import Broker
from tests.kit.jars import ROOT
from tests.kit.pages import block
from tests.kit.standalone import environment, standalone
from tests.kit.waiting import wait_until

RECORDS, PARTITIONS, GROUP = 200_000, 12, "submitted"
SUBMIT_TIMEOUT_S = 180.0


LOAD = "    .load()\n"


def pipeline(limit: int = RECORDS // 25) -> str:
    """The pipeline that README shows, with the listener and the assignor of the guides."""
    plain = block("pipeline")
    assert plain.count(LOAD) == 1
    more = '    .option("rebalance.listener", "audit.Listener")\n'
    more += '    .option("partition.assignment.strategy", "whole_topics.WholeTopics")\n'
    # Batches enough for members to join and be told: a single one has none.
    more += f'    .option("maxOffsetsPerTrigger", {limit})\n'
    return plain.replace(LOAD, more + LOAD)


def archive(directory: Path) -> Path:
    """The guides' listener and assignor, and a provider of tokens, in a zip file, which PySpark's workers of data sources don't look into."""
    path = directory / "users.zip"
    with zipfile.ZipFile(path, "w") as archived:
        archived.writestr("audit.py", block("listener"))
        archived.writestr("whole_topics.py", block("assignor"))
        archived.write(tokens.__file__, "shipped_tokens.py")
    return path


def heard(directory: Path) -> list[list[int]]:
    """The partitions that the listeners on all executors were told to read at a time, from the executors' logs."""
    logs = "".join(path.read_text(errors="replace") for path in directory.glob("work-*/app-*/*/stderr"))
    told = [re.findall(r", (\d+)\)", line) for line in re.findall(r"audit: \[submitted\] reading (.*)", logs)]
    return [sorted(map(int, numbers)) for numbers in told]


def submit(command: Sequence[str], env: Mapping[str, str], log: Path) -> None:
    """Run spark-submit to its end; raises AssertionError with the end of its output unless it succeeds in time."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=dict(env), cwd=log.parent, stdout=output, stderr=output)
    try:
        status: int | None = process.wait(SUBMIT_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        status = None  # the run's processes are killed at the end of the test
    assert status == 0, f"spark-submit ended with {status}:\n{log.read_text(errors='replace')[-8000:]}"


def agents(run: str) -> list[psutil.Process]:
    """The member agents of this run."""
    return processes.matching("sparkcohort.runtime.shell.agent.agent", processes.marked(run))


def test_the_documented_pipeline_runs_in_a_session(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same as it stands: every record once, lag 0 in the group."""
    broker.fill(topic, 1_000, 2)
    spark.sparkContext.addPyFile(str(archive(tmp_path)))
    monkeypatch.setattr(sys, "argv", ["pipeline.py", broker.bootstrap, topic, topic, str(tmp_path)])
    exec(pipeline(limit=300), {"__name__": "__main__"})  # noqa: S102
    delivery.check(delivery.from_pipeline(tmp_path / "orders"), delivery.held(broker.bootstrap, [topic])).assert_exact()
    rows = consumer_groups.describe(broker.bootstrap, topic)
    assert [(row.partition, row.lag) for row in rows] == [(0, 0), (1, 0)]


@pytest.mark.thorough("spark-submit with another Python")
@pytest.mark.timeout(240)
def test_the_pipeline_where_no_environment_is_activated(broker: Broker, topic: str, tmp_path: Path) -> None:
    """PATH's python3 hasn't got Cohort, PYSPARK_PYTHON isn't set: run by the right Python it works, by the other it says so."""
    broker.fill(topic, 100)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    (tmp_path / "pipeline.py").write_text(block("pipeline"))
    env, run = environment(tmp_path, uuid.uuid4().hex), [str(tmp_path / "pipeline.py"), broker.bootstrap, topic, topic]
    env = {name: value for name, value in env.items() if not name.startswith(("PYSPARK_", "PYTHON", "VIRTUAL_ENV"))}
    env |= {
        "PATH": f"{tmp_path / 'bare' / 'bin'}:{env['PATH']}",
        "PYSPARK_SUBMIT_ARGS": "--master local[2] pyspark-shell",
    }
    submit([sys.executable, "-P", *run, str(tmp_path)], env, tmp_path / "right.log")
    assert pq.read_table(tmp_path / "orders").num_rows == 100
    home = Path(str(pyspark.__file__)).parent  # a Spark that isn't pip's finds its own PySpark with any Python
    command = [str(home / "bin" / "spark-submit"), *run, str(tmp_path)]
    with pytest.raises(AssertionError) as wrong:
        submit(command, env | {"SPARK_HOME": str(home)}, tmp_path / "wrong.log")
    assert "ModuleNotFoundError: No module named 'sparkcohort'" in str(wrong.value)
    assert "DATA_SOURCE_NOT_FOUND" not in str(wrong.value)
    assert len((tmp_path / "wrong.log").read_text().splitlines()) < 30


@pytest.mark.thorough("spark-submit to a standalone cluster")
@pytest.mark.timeout(400)
def test_the_documented_pipeline_runs_through_spark_submit(guarded: Broker, topic: str, tmp_path: Path) -> None:
    """The pipeline, listener and assignor of the documents, with tokens of a provider: every record once, lag 0, whole topics, no agent left.

    The driver's processes and both executors find what --py-files ships, and no log has a token.
    """
    guarded.fill(topic, RECORDS, PARTITIONS)
    guarded.admin.allow("alice", "topic", topic, "read", "describe")
    guarded.admin.allow("alice", "group", GROUP, "read", "describe")
    run, desk = uuid.uuid4().hex, tokens.Desk(tmp_path, lifetime_s=8)
    address = guarded.at["SASL_PLAINTEXT"]
    login = tokens.token_options(address, desk, "shipped_tokens:unsecured")
    lines = "".join(f'    .option("{name}", "{value}")\n' for name, value in login.items() if "bootstrap" not in name)
    (tmp_path / "pipeline.py").write_text(pipeline().replace(LOAD, lines + LOAD))
    env = environment(tmp_path, run)
    try:
        with standalone(tmp_path, env, hosts=["127.0.0.1"] * 2) as master:
            command = [str(ROOT / "conf" / "submit.sh"), "--conf", "spark.ui.enabled=false"]
            command += ["--py-files", str(archive(tmp_path)), str(tmp_path / "pipeline.py")]
            submit([*command, address, topic, GROUP, str(tmp_path)], {**env, "MASTER": master}, tmp_path / "driver.log")
            wait_until(lambda: not agents(run), 15, "the end of the agents")
            executors = sorted(path.name for path in tmp_path.glob("work-*/app-*/*") if path.is_dir())
        assert executors == ["0", "1"], "one executor on each worker"
        told = heard(tmp_path)
        assert told, "some listener was told"
        assert told == [list(range(PARTITIONS))] * len(told), "the topic was somebody's as a whole, whoever had it"
        delivered = delivery.from_pipeline(tmp_path / "orders")
        delivery.check(delivered, delivery.held(guarded.bootstrap, [topic])).assert_exact()
        rows = consumer_groups.describe(guarded.bootstrap, GROUP)
        assert [(row.partition, row.lag) for row in rows if row.topic == topic] == [(n, 0) for n in range(PARTITIONS)]
        assert len({pid for pid, _, _ in desk.calls()}) >= 3
        logs = [*tmp_path.glob("*.log"), *tmp_path.glob("work-*/app-*/*/stderr")]
        assert [path.name for path in logs if "eyJ" in path.read_text(errors="replace")] == []
        wait_until(lambda: not processes.marked(run), 15, "the end of every process of the run")
    finally:
        processes.kill_run(run)
