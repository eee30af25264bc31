"""One measured run of a query: all of a topic, or so many batches of what is being written to it."""

from __future__ import annotations

import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery, StreamingQueryListener
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
)

from tests.kit.broker import Broker
from tests.kit.waiting import wait_until
from tools.bench.results import Batch, BenchError
from tools.bench.source import topics
from tools.bench.source.clients import Clients, between
from tools.bench.source.peers import ROW, Peer, View, group_of

LISTENER_TIMEOUT_S = 120.0  # with asynchronous progress events come faster than Python takes them
AGENTS_GONE_S = 75.0  # those of a query that was stopped wait a session for its next start
CHECK_BATCHES = 4
ERROR_CHARACTERS = 4000


class Progress(StreamingQueryListener):
    """Collects the batches of each query, with the CPU time at the end of each."""

    def __init__(self, clients: Clients | None) -> None:
        """``clients``, if given, is asked for its CPU time at every progress event."""
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
            spent = said.durationMs
            began = datetime.fromisoformat(said.timestamp).timestamp()
            ended = began + spent["triggerExecution"] / 1000
            sunk = ended - spent.get("commitOffsets", 0) / 1000  # which is what Spark does last
            observed = {name: row.asDict() for name, row in said.observedMetrics.items()}
            cpu = {} if self._clients is None else self._clients.cpu()
            self._batches[str(said.runId)].append(Batch(began, ended, said.numInputRows, cpu, sunk, observed))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  Spark's name
        """No batch comes after this."""
        self._ended[str(event.runId)].set()

    def count(self, query: StreamingQuery) -> int:
        """Batches with rows so far."""
        return len(self._batches[str(query.runId)])

    def newest(self, query: StreamingQuery) -> float:
        """When the last batch with rows began (epoch s), 0 before the first one."""
        seen = self._batches[str(query.runId)]
        return seen[-1].began if seen else 0.0

    def batches(self, query: StreamingQuery) -> list[Batch]:
        """All batches of a query that has ended; they arrive a moment later."""
        if not self._ended[str(query.runId)].wait(LISTENER_TIMEOUT_S):
            raise BenchError("Spark did not report the end of a query to its listener")
        return self._batches[str(query.runId)]


class Bench:
    """What every run needs: the application, the broker, the client processes and the listener."""

    def __init__(self, spark: SparkSession, broker: Broker, clients: Clients, *, counting: bool) -> None:
        """Register the listener; ``counting``: it notes the CPU time of each batch."""
        self.spark, self.broker, self.clients = spark, broker, clients
        self.progress = Progress(clients if counting else None)
        spark.streams.addListener(self.progress)
        self._runs = 0

    def throughput(self, peer: Peer, topic: str, records: int, batches: int, *, view: View = ROW) -> dict[str, float]:
        """Read all of ``topic`` with AvailableNow in ``batches`` batches; raises BenchError unless all rows came.

        Rates are of the steady batches, neither first nor last; what begins with ``query`` is of the whole query.
        """
        whole, seen = self.whole(peer, topic, records, batches, view)
        if len(seen) < 4:
            raise BenchError(f"{peer.name} delivered {records} records in {len(seen)} batches")
        return steady(seen) | {
            "query_s": whole["wall_s"],
            "query_rows_per_s": records / whole["wall_s"],
            "query_cpu_s_per_million": whole["cpu_s"] / records * 1e6,
            "first_batch_s": whole["first_batch_s"],
        }

    def whole(
        self, peer: Peer, topic: str, records: int, batches: int, view: View = ROW
    ) -> tuple[dict[str, float], list[Batch]]:
        """Read all of ``topic`` with AvailableNow: what it took from load() to the end of the query, its agents gone, and its batches.

        Raises BenchError unless all rows came.
        """
        before, began, epoch = sum(self.clients.cpu().values()), time.monotonic(), time.time()
        frame = self._all_of(peer, topic, records, batches, None, view)
        loaded = time.monotonic() - began
        with self._started(frame.writeStream.format("noop"), available_now=True) as query:
            query.awaitTermination()
            wall = time.monotonic() - began
            seen = self.progress.batches(query)
        self._settle(peer)
        delivered = sum(batch.rows for batch in seen)
        if delivered != records:
            raise BenchError(f"{peer.name} delivered {delivered} of {records} records in {len(seen)} batches")
        cpu = sum(self.clients.cpu().values()) - before
        return {"load_s": loaded, "first_batch_s": seen[0].ended - epoch, "wall_s": wall, "cpu_s": cpu}, seen

    def check(
        self, peer: Peer, topic: str, written: topics.Sums, *, view: View = ROW, bootstrap: str | None = None
    ) -> None:
        """Read all of ``topic``, unmeasured, and compare what came with what was written; raises BenchError."""
        records = sum(seen[0] for seen in written.values())
        rows = self._collected(peer, self._all_of(peer, topic, records, CHECK_BATCHES, bootstrap, view), topics.summed)
        topics.compare(f"{peer.name}, {topic}", topics.totals(rows), written)

    def check_values(self, peer: Peer, topic: str, written: topics.Values, view: View) -> None:
        """As ``check``, for views that don't tell places: number and values of all rows; raises BenchError."""
        frame = self._all_of(peer, topic, written.rows, CHECK_BATCHES, None, view)
        topics.compare_values(f"{peer.name}, {topic}", self._collected(peer, frame, topics.valued), written)

    def _collected(self, peer: Peer, frame: DataFrame, made: Callable[[DataFrame], DataFrame]) -> list[Row]:
        rows: list[Row] = []
        writer = frame.writeStream.foreachBatch(lambda batch, _: rows.extend(made(batch).collect()))
        with self._started(writer, available_now=True) as query:
            query.awaitTermination()
        self._settle(peer)
        return rows

    def await_batches(self, query: StreamingQuery, batches: int, cap_s: float) -> None:
        """Wait for so many batches with rows, or so long; raises BenchError when the query ends with an error."""
        self.wait(query, lambda: self.progress.count(query) >= batches, cap_s)

    def wait(self, query: StreamingQuery, enough: Callable[[], bool], cap_s: float) -> bool:
        """Wait until there is enough, or so long, and tell which; raises BenchError when the query ends with an error."""

        def asked() -> bool:
            failure = query.exception()
            if failure is not None:
                raise BenchError(str(failure)[:ERROR_CHARACTERS])
            return enough()

        try:
            return wait_until(asked, cap_s, "enough", every_s=0.25)
        except AssertionError:
            return False  # what was got through by then is the result

    def read(self, peer: Peer, topic: str, bootstrap: str | None = None, view: View = ROW, **options: str) -> DataFrame:
        """A stream of ``topic``, in a group of its own."""
        self._runs += 1
        return peer.read(self.spark, bootstrap or self.broker.bootstrap, topic, str(self._runs), view, **options)

    @property
    def group(self) -> str:
        """The group of the last ``read``."""
        return group_of(str(self._runs))

    @contextmanager
    def streaming(self, peer: Peer, writer: DataStreamWriter) -> Iterator[StreamingQuery]:
        """A query with trigger 0 that is stopped at the end, its agents gone."""
        with self._started(writer, available_now=False) as query:
            yield query
            query.stop()
        self._settle(peer)

    @contextmanager
    def together(
        self, peer: Peer, writers: Iterable[DataStreamWriter], every: str
    ) -> Iterator[tuple[StreamingQuery, ...]]:
        """A query of each writer, with a trigger every so often, all of them stopped at the end, their agents gone."""
        with ExitStack() as stack:
            started = (self._started(writer, available_now=False, every=every) for writer in writers)
            yield tuple(stack.enter_context(each) for each in started)
        self._settle(peer)

    def _all_of(
        self, peer: Peer, topic: str, records: int, batches: int, bootstrap: str | None, view: View
    ) -> DataFrame:
        limit = str(-(-records // batches))
        return self.read(peer, topic, bootstrap, view, maxOffsetsPerTrigger=limit, startingOffsets="earliest")

    @contextmanager
    def _started(
        self, writer: DataStreamWriter, *, available_now: bool, every: str = "0 seconds"
    ) -> Iterator[StreamingQuery]:
        with tempfile.TemporaryDirectory(prefix="cohort-bench-", ignore_cleanup_errors=True) as directory:
            writer = writer.option("checkpointLocation", str(Path(directory) / "checkpoint"))
            if available_now:
                query = writer.trigger(availableNow=True).start()
            else:
                query = writer.trigger(processingTime=every).start()
            try:
                yield query
            finally:
                query.stop()

    def _settle(self, peer: Peer) -> None:
        """Wait until this run's agents are gone: their CPU time is its own, and nobody else's."""
        try:
            wait_until(lambda: self.clients.agents() == 0, AGENTS_GONE_S, "the end of the agents")
        except AssertionError:
            raise BenchError(f"{peer.name} left {self.clients.agents()} agent(s) behind") from None


def steady(batches: Sequence[Batch]) -> dict[str, float]:
    """Rows per second, and CPU-seconds of all client processes per million rows, in whole and by process, between the first and the last batch."""
    first, last = batches[0], batches[-2]
    rows = sum(batch.rows for batch in batches[1:-1])
    cpu = {kind: used / rows * 1e6 for kind, used in between(first.cpu, last.cpu).items()}
    rates = {"rows_per_s": rows / (last.ended - first.ended), "cpu_s_per_million": sum(cpu.values())}
    return rates | {f"cpu/{kind}": used for kind, used in cpu.items()}
