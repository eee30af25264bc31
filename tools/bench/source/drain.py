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
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from rich.table import Table

from tests.kit.broker import Cluster
from tests.kit.jars import class_path, java
from tests.kit.produce import value_of
from tools.bench.figures import Bound, middle, paired, shown, spread
from tools.bench.results import BenchError, Drained, order
from tools.bench.source.world import Found, World, say

TOPIC, PARTITIONS = "drain", 12
OURS = "fetching"
PEERS = (OURS, "consumer", "java")
CLIENT = Path(__file__).with_name("drain_client.py")
PERFORMANCE = "org.apache.kafka.tools.ConsumerPerformance"
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
RUN_TIMEOUT_S = 300
# What the source's own drain must do at least, in rows per second and per CPU-second of each peer.
MUSTS = {"consumer": 5.0, "java": 2.0}


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


def measure(world: World) -> Found:
    """Every peer once a round, there and back, after all bytes have been checked; raises BenchError."""
    return summary(_runs(world.broker, world.plan.records, world.plan.rounds))


def _runs(cluster: Cluster, records: int, rounds: int) -> list[Drained]:
    records -= records % PARTITIONS
    say(f"filling a topic: {records:,} records of 100 bytes in {PARTITIONS} partitions")
    written = fill(cluster, records)
    for kind in ("check", "check-consumer"):
        if _run(kind, cluster.bootstrap, records) != written:
            raise BenchError(f"{kind}: what was read is not what was written")
    runs: list[Drained] = []
    todo = order(PEERS, rounds)
    for number, peer in enumerate(todo, 1):
        run = _java(cluster.bootstrap, records) if peer == "java" else _measured(peer, cluster.bootstrap, records)
        runs.append(run)
        say(
            f"[{number}/{len(todo)}] drain, {peer}: {run.rows_per_s / 1e6:.2f} M rows/s, "
            f"{run.rows_per_cpu_s / 1e6:.2f} M rows per CPU-s"
        )
    return runs


def _measured(peer: str, bootstrap: str, records: int) -> Drained:
    found = _run(peer, bootstrap, records)
    return Drained(peer, int(found["rows"]), found["wall_s"], found["cpu_s"])


def _run(kind: str, bootstrap: str, records: int) -> dict[str, Any]:
    command = [sys.executable, "-P", str(CLIENT), kind, bootstrap, TOPIC, str(PARTITIONS), str(records)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise BenchError(f"{kind} failed: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _java(bootstrap: str, records: int) -> Drained:
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
    return Drained("java", rows, fetch_ms / 1000, used)


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


def summary(runs: Iterable[Drained]) -> Found:
    """Per peer: rows per second of wall time and of CPU; and the source's own drain against each, round by round."""
    by_peer: dict[str, list[Drained]] = {}
    for run in runs:
        by_peer.setdefault(run.peer, []).append(run)
    rates = {
        peer: {
            "rows_per_s": [run.rows_per_s for run in found],
            "rows_per_cpu_s": [run.rows_per_cpu_s for run in found],
        }
        for peer, found in by_peer.items()
    }
    ours = rates.get(OURS, {})
    return {
        "peers": {
            peer: {"runs": len(by_peer[peer]), **{name: spread(values) for name, values in found.items()}}
            for peer, found in rates.items()
        },
        "fetching_over": {
            peer: {name: paired(ours[name], values) for name, values in found.items()}
            for peer, found in rates.items()
            if ours and peer != OURS
        },
    }


def bounds(found: Found) -> list[Bound]:
    """The source's own drain against each peer, by the wall's time and by that of the CPU."""
    held: list[Bound] = []
    for peer, over in found["fetching_over"].items():
        if peer not in MUSTS:
            continue
        held += [
            Bound(f"drain: {name} fetching / {peer}", middle(over[name]), MUSTS[peer])
            for name in ("rows_per_s", "rows_per_cpu_s")
        ]
    return held


def tables(found: Found) -> list[Table]:
    """Everybody's rates, and what our own's are of each."""
    table = Table(title="Kafka into Arrow in one process, without Spark (median, least to greatest)")
    for name in ("who", "M rows/s", "M rows per CPU-s", "ours : its rows/s", "ours : its rows per CPU-s"):
        table.add_column(name, justify="left" if name == "who" else "right")
    for peer, seen in found["peers"].items():
        over = found["fetching_over"].get(peer, {})
        rates = [shown(seen[name], 1e-6) for name in ("rows_per_s", "rows_per_cpu_s")]
        table.add_row(peer, *rates, shown(over.get("rows_per_s")), shown(over.get("rows_per_cpu_s")))
    return [table]
