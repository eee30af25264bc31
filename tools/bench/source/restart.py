"""A driver that is killed, with all that it started, and started again on its checkpoint."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.kit.broker import Broker
from tests.kit.processes import MARK, marked
from tests.kit.waiting import wait_until
from tools.bench.results import BenchError
from tools.bench.source.load import Load
from tools.bench.source.peers import PEERS, Peer, application

ROOT = Path(__file__).resolve().parents[3]
PARTITIONS, RATE = 8, 1_000
BATCHES = 5  # committed before the kill
TIMEOUT_S, GONE_S, KILLED_S = 180.0, 20.0, 10.0
# The tree comes last: workers have what is installed.
DRIVER = """
import sys
sys.path.append(sys.argv[1])
from tools.bench.source.restart import main
main(sys.argv[2])
"""


def seconds(broker: Broker, peer: Peer, topic: str, master: str) -> float:
    """From the kill to the first batch that the new driver commits; raises BenchError when there is none."""
    broker.admin.create_topic(topic, PARTITIONS)
    with tempfile.TemporaryDirectory(prefix="cohort-bench-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        conf = {"bootstrap": broker.bootstrap, "topic": topic, "peer": peer.name, "master": master, "directory": name}
        with Load(broker.bootstrap, topic, PARTITIONS, RATE), _reaped() as run:
            with _driver(run, directory, conf) as first:
                _wait(first, directory, BATCHES)
            # The block's end is the kill.
            began, before = time.time(), committed(directory)
            with _driver(run, directory, conf) as second:
                _wait(second, directory, len(before) + 1)
            fresh = committed(directory).keys() - before.keys()
            return committed(directory)[min(fresh)] - began


def committed(directory: Path) -> dict[int, float]:
    """The batches in the commit log, and when they came there."""
    files = (directory / "checkpoint" / "commits").glob("[0-9]*")
    return {int(file.name): file.stat().st_mtime for file in files}


def _wait(driver: subprocess.Popen[bytes], directory: Path, batches: int) -> None:
    def enough() -> bool:
        if driver.poll() is not None:
            raise BenchError(f"a driver ended: {(directory / 'driver.log').read_text()[-2000:]}")
        return len(committed(directory)) >= batches

    try:
        wait_until(enough, TIMEOUT_S, f"{batches} batches in the commit log")
    except AssertionError as error:
        raise BenchError(str(error)) from None


@contextmanager
def _driver(run: str, directory: Path, conf: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A driver in a process group of its own, which is killed at the end: the JVM too."""
    command = [sys.executable, "-P", "-c", DRIVER, str(ROOT), json.dumps(conf)]
    environment = os.environ | {MARK: run}
    with (directory / "driver.log").open("ab") as log:
        driver = subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True, env=environment
        )
    try:
        yield driver
    finally:
        with suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait(KILLED_S)


@contextmanager
def _reaped() -> Iterator[str]:
    """The name of a run, all of whose processes are gone at the end: what doesn't end by itself is killed."""
    run = uuid.uuid4().hex
    try:
        yield run
    finally:
        try:
            wait_until(lambda: not marked(run), GONE_S, "the end of a killed driver's processes")
        except AssertionError:
            for process in marked(run):
                process.kill()


def main(text: str) -> None:
    """The driver: one query with trigger 0, until it is killed."""
    conf = json.loads(text)
    directory = Path(conf["directory"])
    peer = next(peer for peer in PEERS if peer.name == conf["peer"])
    with application(conf["master"], directory) as spark:
        frame = peer.read(spark, conf["bootstrap"], conf["topic"], conf["topic"], startingOffsets="earliest")
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(directory / "checkpoint"))
        writer.trigger(processingTime="0 seconds").start().awaitTermination()
