"""The demo from start to verdict."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NoReturn

import psutil
from confluent_kafka import Consumer, TopicPartition
from rich.table import Table

from tests.kit.mock import MockCluster
from tests.kit.ports import free_port
from tools.demo import flights
from tools.demo.camera import camera
from tools.demo.producer import FlightProducer
from tools.demo.sink import Sink, delivered
from tools.demo.verdict import LABELS, Verdict, compare, longest_gap
from tools.demo.view import Screen
from tools.demo.watch import Watch, numbers, partitions

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

TOPIC: Final = "flights"
PARTITIONS: Final = 12
GROUP_ID: Final = "cohort-demo"
AT_ONCE: Final = 60_000
RATE: Final = 4_500
KILL_AT: Final = 0.4
"""The share of the flights delivered after which an executor is killed."""
INTERRUPTED: Final = "interrupted"
PATIENCE_S: Final = 300.0


class DemoFailed(Exception):
    """The demo can't go on; the message says why."""


@dataclass(frozen=True, slots=True)
class Killed:
    """The executor that was killed: when (the day's clock, ms), and what the group was then."""

    executor: str
    at_ms: int
    owned: frozenset[int]
    rebalances: int
    moved: int


class Demo:
    """One run of the demo."""

    def __init__(self, out: IO[str], directory: Path, bootstrap: str, arguments: Namespace) -> None:
        self._directory, self._arguments = directory, arguments
        self._bootstrap, self._port = bootstrap, free_port()
        self._page = f"http://127.0.0.1:{self._port}/"
        self.screen = Screen(out, self._facts)
        self._producer = FlightProducer(bootstrap, TOPIC, PARTITIONS, at_once=AT_ONCE, rate=RATE)
        self._sink = Sink(directory / "sink", "value.*")
        self._watch = Watch(GROUP_ID, self.screen.say)
        self._query: StreamingQuery | None = None
        self._ends: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        self._killed: Killed | None = None
        self._settled_ms = 0
        self._moved: frozenset[int] = frozenset()
        self._slots: dict[str, int] = {}

    def _facts(self) -> dict[str, Any]:
        return {
            "status": self._watch.status,
            "streaming": self._watch.asking,
            "rows_per_second": self._watch.rows_per_second,
            "produced": self._producer.count,
            "delivered": self._sink.delivered,
        }

    def run(self) -> Verdict:
        """From the first flight written to the verdict.  Raises DemoFailed."""
        from tools.demo import spark  # noqa: PLC0415  Spark's import takes a second, in which something is seen already
        from tools.spark import kill_executor  # noqa: PLC0415  as above

        self.screen.say(f"the live page, from when the query has begun: {self._page}")
        self.screen.phase(f"writing the first {AT_ONCE:,} of {flights.FLIGHTS:,} flights to {PARTITIONS} partitions")
        self._producer.fill()
        self.screen.phase(f"starting Spark: a driver and {spark.EXECUTORS} executors (takes about 20 s)")
        with spark.cluster(self._directory) as session:
            self.screen.phase("starting the query: format('cohort'); its first tasks bring the members up")
            checkpoint = self._directory / "checkpoint"
            self._query = spark.stream(session, self._bootstrap, TOPIC, GROUP_ID, self._sink, checkpoint, self._port)
            self._watch.start()
            try:
                self._stream(spark.EXECUTORS, kill_executor)
                self._watch.refresh()
                self._slots = spark.slots_read(self._query)
                self.screen.say(f"the {'JVM' if self._slots else 'Python workers'} read the agents' rows")
                if self._arguments.stay:
                    self.screen.phase(f"done; {self._page} stays until you press Enter")
                    sys.stdin.readline()
            finally:
                self.screen.phase("stopping the query and Spark")
                self._producer.stop()
                self._watch.stop()
                self._query.stop()
        self.screen.phase("comparing what was written with what was delivered")
        return self._verdict()

    def _stream(self, executors: int, kill: Callable[[str], int]) -> None:
        self._until(lambda: self._all_owned(executors), f"all {PARTITIONS} partitions owned by {executors} members")
        self._producer.start()
        self.screen.phase(f"streaming; the producer goes on at {RATE:,} flights per second")
        self._until(lambda: self._sink.delivered >= KILL_AT * flights.FLIGHTS, "two fifths of the flights delivered")
        with camera(self._page, self._arguments.picture) as take_picture:
            self._kill(kill)
            self._until(self._departed, "the group to notice", every_s=0.05)
            self.screen.phase(f"{self._waiting()}; Spark starts a replacement")
            self._until(lambda: self._all_owned(executors), "the replacement to join")
            self._settled_ms = _now_ms()
            take_picture()
        self._producer.release()
        self.screen.phase("the replacement has what was lost; the producer goes on to the last flight")
        self._until(lambda: self._producer.finished, "the producer to write all flights")
        self._ends = {number: len(offsets) for number, offsets in self._producer.acknowledged.items()}
        self.screen.phase("all flights are written; draining")
        self._until(lambda: self._sink.delivered >= self._producer.count, "all flights delivered")
        self.screen.phase("all delivered; waiting for the last commit to the Kafka group")
        with _consumer(self._bootstrap) as consumer:
            self._until(lambda: self._committed_all(consumer), "the last commit", patience_s=20, fail=False)

    # --- conditions ------------------------------------------------------------------------------------

    def _until(
        self,
        condition: Callable[[], bool],
        what: str,
        *,
        patience_s: float = PATIENCE_S,
        every_s: float = 0.1,
        fail: bool = True,
    ) -> None:
        deadline, nobody = time.monotonic() + patience_s, threading.Event()
        while not condition():
            self._check()
            if time.monotonic() > deadline:
                if fail:
                    raise DemoFailed(f"waited {patience_s:.0f} s for {what}")
                return
            nobody.wait(every_s)

    def _check(self) -> None:
        if self._producer.error is not None:
            raise DemoFailed(f"the producer failed: {self._producer.error}")
        if self._query is not None and not self._query.isActive:
            raise DemoFailed(f"the query ended: {_cause(self._query)}")

    def _all_owned(self, members: int) -> bool:
        status = self._watch.status
        if not status or status["state"] != "Stable" or len(status["members"]) != members:
            return False
        share = PARTITIONS // members
        return all(len(member["owned"]) == share == len(member["target"]) for member in status["members"])

    def _kill(self, kill: Callable[[str], int]) -> None:
        status = self._watch.refresh()
        victim = status["members"][0]
        owned = partitions(victim["owned"])
        self._killed = Killed(
            executor=victim["executor"],
            at_ms=_now_ms(),
            owned=frozenset(owned),
            rebalances=len(status["rebalances"]),
            moved=status["partitions_moved"],
        )
        pid = kill(str(victim["executor"]))
        self.screen.phase(f"SIGKILL to executor {victim['executor']} (pid {pid}), which owned {numbers(owned)}")

    def _departed(self) -> bool:
        status = self._watch.refresh()
        assert self._killed is not None  # noqa: S101  asked after the kill only
        gone = all(member["executor"] != self._killed.executor for member in status["members"])
        return gone and status["state"] == "Stable"

    def _waiting(self) -> str:
        waiting = self._watch.status["scheduled_rebalance"]
        if waiting is None:
            return "its partitions have new owners"
        return f"{numbers(partitions(waiting['partitions']))} wait for a replacement, read directly meanwhile"

    def _committed_all(self, consumer: Consumer) -> bool:
        asked = [TopicPartition(TOPIC, number) for number in self._ends]
        self._committed = {item.partition: item.offset for item in consumer.committed(asked, timeout=10)}
        return self._committed == self._ends

    # --- the verdict -----------------------------------------------------------------------------------

    def _verdict(self) -> Verdict:
        deliveries = list(delivered(self._sink))
        count, lost, duplicated = compare(self._producer.acknowledged, deliveries)
        last: dict[int, int] = {}
        for partition, offset, _, _ in deliveries:
            last[partition] = max(offset + 1, last.get(partition, 0))
        status, killed = self._watch.status, self._killed
        assert killed is not None  # noqa: S101  or there would be no verdict
        after = status["rebalances"][killed.rebalances :]
        given = {tp[1] for done in after for tp in (*done["moved"], *done["revoked"])}
        stayed = frozenset(range(PARTITIONS)) - killed.owned - given
        return Verdict(
            produced=self._producer.count,
            delivered=count,
            lost=lost,
            duplicated=duplicated,
            rebalances=len(after),
            partitions_moved=status["partitions_moved"] - killed.moved,
            partitions_stayed=len(stayed),
            longest_gap_ms=longest_gap(deliveries, stayed, killed.at_ms, self._settled_ms),
            usual_gap_ms=longest_gap(deliveries, stayed, killed.at_ms - 5_000, killed.at_ms - 1),
            committed_equals_end=self._committed == last == self._ends,
            generation=status["generation"],
            slots_by_jvm=self._slots.get("slotsByAgent", 0) + self._slots.get("slotsDirectly", 0),
            slots_by_python=self._slots.get("slotsByPython", 0),
            agents_left=self._agents_left(),
            seconds=round(self.screen.seconds, 1),
        )

    def _agents_left(self) -> int:
        """Member agents that outlived the query; they have a moment to go."""
        agents = [psutil.Process(pid) for pid in self._watch.agents if psutil.pid_exists(pid)]
        _, alive = psutil.wait_procs(agents, timeout=5)
        return len(alive)


@contextmanager
def _consumer(bootstrap: str) -> Iterator[Consumer]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP_ID, "log_level": 0})
    try:
        yield consumer
    finally:
        consumer.close()


def _cause(query: StreamingQuery) -> str:
    """The last line of the innermost traceback; the rest is in Spark's log."""
    text, _, _ = str(query.exception()).partition("=== Streaming Query ===")
    return next((line for line in reversed(text.splitlines()) if line.strip()), "without an error")


def _now_ms() -> int:
    return int(time.time() * 1000)


@contextmanager
def _own_terminal(log: Path) -> Iterator[IO[str]]:
    """The real standard output for us alone; what Spark and its children say goes to a file."""
    sys.stdout.flush()
    kept = os.dup(1), os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        with os.fdopen(os.dup(kept[0]), "w", buffering=1) as out:
            yield out
    finally:
        for number, descriptor in enumerate(kept, start=1):
            os.dup2(descriptor, number)
            os.close(descriptor)


def _printed(screen: Screen, verdict: Verdict) -> None:
    table = Table(title="verdict", title_justify="left", show_header=False)
    for name, value in verdict.as_value().items():
        wrong = (name in ("lost", "duplicated") and value) or value is False
        text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
        table.add_row(LABELS[name], text, style="bold red" if wrong else "")
    screen.console.print(table)
    moved, stayed = verdict.partitions_moved, verdict.partitions_stayed
    screen.console.print(
        f"what the page showed: {moved} cells on their way to another lane, {stayed} that stayed in place"
    )
    screen.console.print("passed" if verdict.passed else "FAILED", style="bold green" if verdict.passed else "bold red")


def _terminated(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    """Run the demo; 0 when nothing was lost or doubled and the committed offsets are the ends delivered.

    ``--stay`` keeps the page until Enter is pressed, ``--picture`` takes one of it right after the moves.
    """
    parser = ArgumentParser(prog="make demo ARGS=")
    parser.add_argument("--stay", action="store_true", help="keep the query and its page until Enter is pressed")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="take a picture of the page after the moves")
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _terminated)
    directory = Path(tempfile.mkdtemp(prefix="cohort-demo-"))
    log = directory / "spark.log"
    failure = ""
    value: dict[str, object] = {}
    passed = False
    # It keeps about 5 MB of each partition: as much as one year of flights takes when compressed, not more.
    with _own_terminal(log) as out, MockCluster(brokers=3) as broker:
        broker.create_topic(TOPIC, PARTITIONS)
        demo = Demo(out, directory, broker.bootstrap, chosen)
        try:
            with demo.screen.showing():
                verdict = demo.run()
            _printed(demo.screen, verdict)
            value, passed = verdict.as_value(), verdict.passed
        except KeyboardInterrupt:
            failure = INTERRUPTED
        except Exception as error:  # noqa: BLE001  whatever it was, the last line is the verdict
            failure = f"{type(error).__name__}: {error}"
    if failure:
        value = {"error": failure}
    if passed or failure == INTERRUPTED:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        print(f"{failure or 'not passed'}; logs are in {directory}", file=sys.stderr)
    print(json.dumps(value), flush=True)
    return 0 if passed else 1
