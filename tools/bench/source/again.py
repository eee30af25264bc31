"""A query that flows, is stopped, and is started again in the same application on its checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql.streaming import StreamingQuery

from tests.kit.waiting import wait_until
from tools.bench.results import BenchError
from tools.bench.source.load import Load
from tools.bench.source.peers import Peer
from tools.bench.source.restart import committed
from tools.bench.source.runs import Bench

PARTITIONS, RATE = 16, 2_000
FLOWS_S = 6.0  # between a start and the stop after it: agents have come up, and have fetched
TIMEOUT_S = 120.0


def measure(bench: Bench, peer: Peer, topic: str, times: int) -> tuple[float, list[float]]:
    """Seconds from ``start()`` to the first batch in the commit log, in a new application, and of so many starts after it.

    Raises BenchError where no batch comes.
    """
    bench.broker.admin.create_topic(topic, PARTITIONS)
    with (
        TemporaryDirectory(prefix="cohort-bench-", ignore_cleanup_errors=True) as name,
        Load(bench.broker.bootstrap, topic, PARTITIONS, RATE),
    ):
        directory = Path(name)

        def start() -> StreamingQuery:
            frame = peer.read(bench.spark, bench.broker.bootstrap, topic, topic, startingOffsets="earliest")
            writer = frame.writeStream.format("noop").option("checkpointLocation", str(directory / "checkpoint"))
            return writer.trigger(processingTime="0 seconds").start()

        cold, *again = [_first_batch(start, directory) for _ in range(1 + times)]
        return cold, again


def _first_batch(start: Callable[[], StreamingQuery], directory: Path) -> float:
    before, began = committed(directory).keys(), time.time()
    query = start()
    try:
        wait_until(lambda: committed(directory).keys() - before, TIMEOUT_S, "a batch in the commit log", every_s=0.005)
        after = committed(directory)
        wait_until(lambda: time.time() - began > FLOWS_S, TIMEOUT_S, "it to have flowed for a while")
    except AssertionError as error:
        raise BenchError(str(error)) from None
    finally:
        query.stop()
    return after[min(after.keys() - before)] - began
