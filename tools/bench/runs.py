"""One measured run: all of a topic (throughput), or a trickle for a while (trigger time)."""

from __future__ import annotations

import tempfile
import threading
import time
from collections import defaultdict
from datetime import datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery, StreamingQueryListener
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
)

from tests.support.broker import Broker
from tests.support.produce import Steady
from tests.support.waiting import wait_until
from tools.bench.clients import Clients
from tools.bench.peers import Peer
from tools.bench.results import Batch, BenchError, Throughput, Trickle

VALUE_BYTES = 100
LISTENER_TIMEOUT_S = 30.0
AGENTS_GONE_S = 15.0
TRICKLE_RATE = 900  # records a second, however many partitions: the rows of a batch are the same
UNMEASURED = 5  # first batches of a trickle


class Progress(StreamingQueryListener):
    """Collects the batches of each query, with the CPU time at the end of each."""

    def __init__(self, clients: Clients) -> None:
        """``clients`` is asked for its CPU time at every progress event."""
        self._clients = clients
        self._batches: dict[str, list[Batch]] = defaultdict(list)
        self._ended: dict[str, threading.Event] = defaultdict(threading.Event)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  Spark's name
        """Nothing to note."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802  Spark's name
        """Nothing to note."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  Spark's name
        """Note a batch that has rows."""
        said = event.progress
        if said.numInputRows > 0:
            began = datetime.fromisoformat(said.timestamp).timestamp()
            ended = began + said.durationMs["triggerExecution"] / 1000
            self._batches[str(said.runId)].append(Batch(began, ended, said.numInputRows, self._clients.cpu()))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  Spark's name
        """No batch comes after this."""
        self._ended[str(event.runId)].set()

    def count(self, query: StreamingQuery) -> int:
        """Batches with rows so far."""
        return len(self._batches[str(query.runId)])

    def batches(self, query: StreamingQuery) -> list[Batch]:
        """All batches of a query that has ended; they arrive a moment later."""
        if not self._ended[str(query.runId)].wait(LISTENER_TIMEOUT_S):
            raise BenchError("Spark did not report the end of a query to its listener")
        return self._batches[str(query.runId)]


class Bench:
    """What every run needs: the application, the broker, the client processes and the listener."""

    def __init__(self, spark: SparkSession, broker: Broker, clients: Clients) -> None:
        """Register the listener."""
        self.spark, self.broker, self.clients = spark, broker, clients
        self.progress = Progress(clients)
        spark.streams.addListener(self.progress)
        self._runs = 0

    def fill(self, topic: str, records: int, partitions: int) -> None:
        """Create ``topic`` with ``records`` records of 100-byte values, evenly over its partitions."""
        self.broker.admin.create_topic(topic, partitions)
        rows = self.spark.range(records).selectExpr(
            "cast(id as string) as key",
            f"rpad(concat(id, ':'), {VALUE_BYTES}, uuid()) as value",
            f"cast(id % {partitions} as int) as partition",
        )
        client = {"linger.ms": "20", "batch.size": "524288", "buffer.memory": "134217728"}
        options = {f"kafka.{key}": value for key, value in client.items()}
        asked = {"kafka.bootstrap.servers": self.broker.bootstrap, "topic": topic, **options}
        rows.write.format("kafka").options(**asked).save()
        held = sum(self.broker.admin.ends(topic).values())
        if held != records:
            raise BenchError(f"{topic} holds {held} records instead of {records}")

    def throughput(self, peer: Peer, topic: str, records: int, batches: int) -> Throughput:
        """Read all of ``topic`` with AvailableNow in ``batches`` batches; raises BenchError unless all rows came."""
        before, began = self.clients.cpu(), time.monotonic()
        epoch = time.time()
        limit = str(-(-records // batches))
        frame = self._read(peer, topic, startingOffsets="earliest", maxOffsetsPerTrigger=limit)
        with tempfile.TemporaryDirectory(prefix="cohort-bench-", ignore_cleanup_errors=True) as directory:
            query = self._start(frame, directory, available_now=True)
            query.awaitTermination()
            wall = time.monotonic() - began
            seen = self.progress.batches(query)
        self._settle(peer)
        delivered = sum(batch.rows for batch in seen)
        if delivered != records or len(seen) < 4:
            raise BenchError(f"{peer.name} delivered {delivered} of {records} records in {len(seen)} batches")
        first, last = seen[0], seen[-2]
        return Throughput(
            peer=peer.name,
            rows=sum(batch.rows for batch in seen[1:-1]),
            wall_s=last.ended - first.ended,
            cpu_s={kind: used - first.cpu.get(kind, 0.0) for kind, used in last.cpu.items()},
            query_rows=delivered,
            query_wall_s=wall,
            query_cpu_s=sum(self.clients.cpu().values()) - sum(before.values()),
            first_batch_s=first.ended - epoch,
        )

    def trickle(self, peer: Peer, topic: str, partitions: int, batches: int, cap_s: float) -> Trickle:
        """Run with trigger 0 while a producer writes to every partition, for so many batches or ``cap_s`` seconds."""
        frame = self._read(peer, topic, startingOffsets="latest")
        began = time.monotonic()
        with (
            tempfile.TemporaryDirectory(prefix="cohort-bench-", ignore_cleanup_errors=True) as directory,
            Steady(self.broker.bootstrap, topic, partitions=partitions, rate=TRICKLE_RATE),
        ):
            query = self._start(frame, directory, available_now=False)
            self._await_batches(query, batches + UNMEASURED, cap_s)
            seconds = time.monotonic() - began
            query.stop()
            seen = self.progress.batches(query)
        self._settle(peer)
        measured = tuple(batch.seconds * 1000 for batch in seen[UNMEASURED:])
        return Trickle(peer.name, partitions, measured, min(UNMEASURED, len(seen)), seconds)

    def _await_batches(self, query: StreamingQuery, batches: int, cap_s: float) -> None:
        def enough() -> bool:
            failure = query.exception()
            if failure is not None:
                raise BenchError(str(failure))
            return self.progress.count(query) >= batches

        try:
            wait_until(enough, cap_s, f"{batches} batches", every_s=0.25)
        except AssertionError:
            return  # what was got through by then is the result

    def _read(self, peer: Peer, topic: str, **options: str) -> DataFrame:
        self._runs += 1
        return peer.read(self.spark, self.broker.bootstrap, topic, str(self._runs), **options)

    def _start(self, frame: DataFrame, directory: str, *, available_now: bool) -> StreamingQuery:
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(Path(directory) / "checkpoint"))
        if available_now:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime="0 seconds").start()

    def _settle(self, peer: Peer) -> None:
        """Wait until this run's agents are gone: their CPU time is its own, and nobody else's."""
        try:
            wait_until(lambda: self.clients.agents() == 0, AGENTS_GONE_S, "the end of the agents")
        except AssertionError:
            raise BenchError(f"{peer.name} left {self.clients.agents()} agent(s) behind") from None
