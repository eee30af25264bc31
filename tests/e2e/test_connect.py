"""Sessions of a remote Spark: a Spark Connect server whose Python has Cohort, and clients whose Python has none."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sparkcohort.streaming.installation import jar_path
from tests.kit import consumer_groups, interpreters, processes
from tests.kit.broker import Broker
from tests.kit.connect_server import connect_server
from tests.kit.delivery import crc, held
from tests.kit.pages import DOCS, block, section
from tests.kit.produce import produce, value_of
from tests.kit.standalone import BIN, environment
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.thorough("needs a Spark Connect server")

SCRIPTS = Path(__file__).parent / "scripts"
RECORDS, PARTITIONS = 1_000, 2
LIMIT_S = 300.0


class Remote:
    """A server, and where its files lie."""

    def __init__(self, url: str, directory: Path, run: str) -> None:
        self.url, self.directory, self.run = url, directory, run


BY_READER = {
    "jvm": "the JVM reads the agents' rows",
    "python": "Python workers read the agents' rows, since Spark does not",
}
"""What the server's log says of each group."""
WRITES = ("batch", "stream")
WITHOUT_JAR = pytest.mark.parametrize("remote", ["python"], indirect=True)


@pytest.fixture(scope="module")
def remote(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    """A server for all tests of a reader; nothing brings Cohort's jar to one but its own settings."""
    directory, run = tmp_path_factory.mktemp("connect"), uuid.uuid4().hex
    env = environment(directory, run) | {"COHORT_HOME": str(directory / "home")}
    conf = {"spark.jars": str(jar_path())} if request.param == "jvm" else {}
    try:
        with connect_server(directory, env, conf) as url:
            yield Remote(url, directory, run)
        wait_until(lambda: not processes.marked(run), 20, "the end of every process of the server")
    finally:
        processes.kill_run(run)


def called(*command: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A client, run to its end."""
    at = interpreters.undisturbed(**env)
    return subprocess.run(command, env=at, capture_output=True, text=True, timeout=LIMIT_S, check=False)


def contents(broker: Broker, topic: str) -> list[tuple[int, int]]:
    """Partition and checksum of each record of a topic, sorted."""
    table = held(broker.bootstrap, [topic])
    return sorted(zip(table.column("partition").to_pylist(), table.column("crc").to_pylist(), strict=True))


def places(folder: Path) -> set[tuple[int, int]]:
    """Partition and offset of every row in Parquet files."""
    rows = [row for path in folder.rglob("*.parquet") for row in pq.ParquetFile(path).read().to_pylist()]
    found = {(row["partition"], row["offset"]) for row in rows}
    assert len(found) == len(rows), "no row twice"
    return found


ALL = {(partition, offset) for partition in range(PARTITIONS) for offset in range(RECORDS // PARTITIONS)}


@pytest.mark.timeout(500)
@pytest.mark.parametrize(("remote", "reads"), BY_READER.items(), indirect=["remote"])
def test_a_client_without_cohort_reads_with_it(
    remote: Remote, reads: str, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """Reads and writes, of batches and streams, to files, topics and foreachBatch: every record once, the groups at the end of the log."""
    broker.fill(topic, RECORDS, PARTITIONS)
    for way in WRITES:
        broker.admin.create_topic(f"{topic}-{way}", PARTITIONS)
    python = interpreters.without_cohort(tmp_path / "client")
    script = str(SCRIPTS / "connect_client.py")
    done = called(str(python), "-P", script, remote.url, broker.bootstrap, topic, str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert not said["has_cohort"]
    assert (said["batch"], said["filtered"]) == (RECORDS, list(range(10)))
    assert sum(said["files"]["progress"]) == RECORDS and sum(said["batches"]["progress"]) == RECORDS
    assert "option no.such is unknown" in said["refused"]
    assert places(tmp_path / "files") == places(tmp_path / "batches") == ALL
    assert len(list((tmp_path / "batches").iterdir())) >= 3
    for way in WRITES:
        assert contents(broker, f"{topic}-{way}") == contents(broker, topic)
    log = (remote.directory / "server.log").read_text()
    for group in (f"{topic}-files", f"{topic}-batches", f"{topic}-copy"):
        assert f"group {group}: {reads}" in log
        rows = consumer_groups.describe(broker.bootstrap, group)
        assert [(row.partition, row.lag) for row in rows] == [(number, 0) for number in range(PARTITIONS)]


PIPELINE = """
name: orders
libraries:
  - glob:
      include: transformations/**
storage: file://{storage}
"""


VIEW = """
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession


@dp.materialized_view
def {view}() -> DataFrame:
    spark = SparkSession.active()
    topic = spark.read.format("cohort").option("kafka.bootstrap.servers", "{brokers}").option("subscribe", "{topic}")
    return topic.load().select("partition", "offset")
"""


@pytest.mark.timeout(500)
@WITHOUT_JAR
def test_a_declarative_pipeline(remote: Remote, broker: Broker, topic: str, tmp_path: Path) -> None:
    """The documents' streaming table and sink, with which the second run goes on; a view of a batch read, which each run makes anew."""
    for name in (topic, f"{topic}-billed"):
        broker.admin.create_topic(name, PARTITIONS)
    table = "orders_" + uuid.uuid4().hex
    (tmp_path / "transformations").mkdir()
    text = block("streaming-table").replace("broker:9092", broker.bootstrap)
    assert text.count('"subscribe", "orders"') == text.count("def orders(") == 1
    text = text.replace('"subscribe", "orders"', f'"subscribe", "{topic}"').replace("def orders(", f"def {table}(")
    (tmp_path / "transformations" / "orders.py").write_text(text)
    text = section((DOCS / "guides/spark-connect.md").read_text(), "append-flow")
    text = text.removeprefix("```python\n").removesuffix("```").replace("broker:9092", broker.bootstrap)
    text = text.replace('"topic": "billed"', f'"topic": "{topic}-billed"').replace(
        'table("orders")', f'table("{table}")'
    )
    (tmp_path / "transformations" / "billed.py").write_text(text.replace('"billed"', f'"billed_{table}"'))
    view = "view_" + uuid.uuid4().hex
    text = VIEW.format(view=view, brokers=broker.bootstrap, topic=topic)
    (tmp_path / "transformations" / "view.py").write_text(text)
    (tmp_path / "spark-pipeline.yml").write_text(PIPELINE.format(storage=tmp_path / "storage"))
    command = [
        str(BIN / "spark-pipelines"),
        "--remote",
        remote.url,
        "run",
        "--spec",
        str(tmp_path / "spark-pipeline.yml"),
    ]
    for run in (1, 2):
        produce(broker.bootstrap, topic, RECORDS // 2, partitions=PARTITIONS, first=(run - 1) * RECORDS // 4)
        done = called(*command, PYSPARK_PYTHON=sys.executable)
        assert done.returncode == 0, done.stdout + done.stderr
        for name in (table, view):
            assert len(places(remote.directory / "warehouse" / name)) == run * RECORDS // 2
        sent = [value_of(partition, at) for partition in range(PARTITIONS) for at in range(run * RECORDS // 4)]
        assert sorted(held(broker.bootstrap, [f"{topic}-billed"]).column("crc").to_pylist()) == sorted(
            crc(None, value) for value in sent
        )
    assert places(remote.directory / "warehouse" / table) == ALL
    rows = consumer_groups.describe(broker.bootstrap, "billing")
    assert [(row.partition, row.lag) for row in rows if row.topic == topic] == [(n, 0) for n in range(PARTITIONS)]


REGISTERS = """
import sys
from pyspark.sql import SparkSession
import sparkcohort

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
try:
    print("told:", sparkcohort.register(spark))
except sparkcohort.CohortError as error:
    print("told:", error)
"""


def registered(url: str) -> str:
    """What ``register`` says of a server."""
    done = called(sys.executable, "-P", "-c", REGISTERS, url)
    lines = [line for line in done.stdout.splitlines() if line.startswith("told: ")]
    assert len(lines) == 1, done.stdout + done.stderr
    return lines[0].removeprefix("told: ")


@pytest.mark.timeout(300)
@WITHOUT_JAR
def test_register_asks_the_server(remote: Remote, tmp_path: Path) -> None:
    """It is content with one whose Python has Cohort, and says of another what to do there."""
    log = remote.directory / "server.log"
    before = len(log.read_text())
    assert registered(remote.url) == "None"
    told = log.read_text()[before:]
    assert not re.search(r"^\s+at |Exception|ERROR", told, re.MULTILINE), told
    python, run = interpreters.without_cohort(tmp_path / "server"), uuid.uuid4().hex
    env = environment(tmp_path, run) | {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
    try:
        with connect_server(tmp_path, env) as url:
            said = registered(url)
    finally:
        processes.kill_run(run)
    assert said.startswith("the Spark Connect server has no format('cohort'): its Python has no Cohort.")
    assert "install sparkcohort there, set PYSPARK_PYTHON to that Python, and start the server again" in said
    assert os.sep + "pyspark" not in said, "no traceback"
