"""The part ``drain``: Kafka into seven Arrow columns in one process, without Spark, beside other ways to read Kafka.

Every run is a process of its own.  ``java`` is kafka-clients' own ConsumerPerformance, which makes objects and no columns;
its time is that of its fetching, its CPU that of its whole process.  ``fetching`` is the source's drain by sockets of its
own, ``consumer`` the one over confluent-kafka's consumer, for what only librdkafka has.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from tests.kit.broker import Cluster
from tests.kit.jars import class_path, java
from tests.kit.produce import value_of
from tools.bench.figures import Demand, Sample
from tools.bench.report import Column
from tools.bench.results import BenchError, order
from tools.bench.source.world import World, say

TOPIC, PARTITIONS = "drain", 12
OURS = "cohort, fetching"
PEERS = {OURS: "fetching", "consumer": "consumer", "java": "java"}
"""What each is called, and by ``drain_client``."""
CLIENT = Path(__file__).with_name("drain_client.py")
PERFORMANCE = "org.apache.kafka.tools.ConsumerPerformance"
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
RUN_TIMEOUT_S = 300
# What the source's own drain must do at least, in rows per second and per CPU-second of each peer.
MUSTS = {"consumer": 5.0, "java": 2.0}
TITLE = "Kafka into Arrow in one process, without Spark"
COLUMNS = (
    Column("rows_per_s", "M rows/s", 1e-6, compared=True),
    Column("rows_per_cpu_s", "M rows per CPU-s", 1e-6, compared=True),
)


def fill(cluster: Cluster, records: int) -> dict[str, list[int]]:
    """Write the topic, 100-byte values and short keys; returns each partition's sums (see ``drain_client.check``)."""
    cluster.admin.create_topic(TOPIC, PARTITIONS)
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "linger.ms": 20,
            "batch.size": 1 << 19,
            "max.in.flight": 1,
            "queue.buffering.max.messages": 2_000_000,
        }
    )
    sums = {str(partition): [0, 0, 0, 0] for partition in range(PARTITIONS)}
    for number in range(records):
        offset, partition = divmod(number, PARTITIONS)
        value, seen = value_of(partition, offset), sums[str(partition)]
        seen[:] = seen[0] + 1, seen[1] + offset, seen[2] + len(value), zlib.crc32(value, seen[3])
        producer.produce(TOPIC, value, b"%d" % number, partition)
        if not number & 0xFFFF:
            producer.flush()
    producer.flush()
    return sums


def measure(world: World) -> list[Sample]:
    """Every peer once a round, there and back, after all bytes have been checked; raises BenchError."""
    cluster, records = world.broker, world.plan.records
    records -= records % PARTITIONS
    say(f"filling a topic: {records:,} records of 100 bytes in {PARTITIONS} partitions")
    written = fill(cluster, records)
    for kind in ("check", "check-consumer"):
        if _run(kind, cluster.bootstrap, records) != written:
            raise BenchError(f"{kind}: what was read is not what was written")
    runs: list[Sample] = []
    todo = order(list(PEERS), world.plan.rounds)
    for number, peer in enumerate(todo, 1):
        of = PEERS[peer]
        took = _java(cluster.bootstrap, records) if of == "java" else _run(of, cluster.bootstrap, records)
        figures = {"rows_per_s": took["rows"] / took["wall_s"], "rows_per_cpu_s": took["rows"] / took["cpu_s"]}
        runs.append(Sample(f"{PARTITIONS} partitions", peer, figures))
        told = ", ".join(f"{name} {value / 1e6:.2f} M" for name, value in figures.items())
        say(f"[{number}/{len(todo)}] drain, {peer}: {told}")
    return runs


def _run(kind: str, bootstrap: str, records: int) -> dict[str, Any]:
    command = [sys.executable, "-P", str(CLIENT), kind, bootstrap, TOPIC, str(PARTITIONS), str(records)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise BenchError(f"{kind} failed: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _java(bootstrap: str, records: int) -> dict[str, Any]:
    command = [java(), "-Xmx512m", QUIET, "-cp", class_path("broker", "tools"), PERFORMANCE]
    command += ["--bootstrap-server", bootstrap, "--topic", TOPIC, "--messages", str(records), "--hide-header"]
    before = os.times()
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
    after = os.times()
    try:
        rows, fetch_ms = performance(done.stdout)
    except ValueError:
        raise BenchError(f"java failed: {done.stdout}{done.stderr}") from None
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return {"rows": rows, "wall_s": fetch_ms / 1000, "cpu_s": used}


def performance(printed: str) -> tuple[int, int]:
    """Records and milliseconds of fetching from ConsumerPerformance's line; raises ValueError when there is none.

    Its columns: start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms,
    fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec.
    """
    for line in printed.splitlines():
        columns = [column.strip() for column in line.split(",")]
        if len(columns) == 10 and columns[4].isdigit() and columns[7].isdigit():
            return int(columns[4]), int(columns[7])
    raise ValueError(printed)


def demands(cases: Sequence[str]) -> list[Demand]:
    """The source's own drain against each other way, by the wall's time and by that of the CPU."""
    return [
        Demand(case, figure, figure, must, (OURS,), peer, at_least=True)
        for case in cases
        for peer, must in MUSTS.items()
        for figure in ("rows_per_s", "rows_per_cpu_s")
    ]
