"""One Spark application for many queries: a JVM start is dear, a query is not.

Usage::

    with Application(tmp_path / "app", master="local-cluster[3,1,1024]") as app:
        query = app.start("orders", {"kafka.bootstrap.servers": ..., "subscribe": "orders", "group.id": "billing"})
        query.wait_for("batch", 3)
        query.wait_for_members(3)
        query.assert_exact(broker)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import pytest

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.rpc import connection_file
from tests.kit.broker import Cluster
from tests.kit.delivery import check, from_parquet, held
from tests.kit.faults import Faults
from tests.kit.jars import ROOT
from tests.kit.processes import kill_run
from tests.kit.spark import Driver
from tests.kit.waiting import wait_until

SCRIPT = ROOT / "tests" / "e2e" / "drivers" / "application.py"
READY_S = 300.0
LIMIT_S = 240.0  # for a machine that does much else
STOP_S = 60.0
ALL = 1 << 60
HOME = "COHORT_HOME"

Status = dict[str, Any]
T = TypeVar("T")


class Query:
    """One query of an application; ``out`` is where its sink writes, ``checkpoint`` Spark's checkpoint."""

    def __init__(self, app: Application, name: str, options: Mapping[str, Any], folder: Path) -> None:
        """Made by ``Application.start``."""
        self.app, self.name, self.group, self.topic = app, name, str(options["group.id"]), str(options.get("subscribe"))
        self.out, self.checkpoint = folder / "out", folder / "checkpoint"

    def allow(self, batch_id: int) -> None:
        """Open the gate for all batches up to this one."""
        fresh = self.out / "_gate.new"
        fresh.write_text(str(batch_id))
        fresh.rename(self.out / "_gate")

    def events(self, name: str) -> list[dict[str, Any]]:
        """What the application told of this query: ``begin``, ``open`` and ``batch`` of each batch, ``ended``."""
        return [event for event in self.app.driver.events(name) if event["query"] == self.name]

    def wait(self, predicate: Callable[[], T | None], timeout_s: float, what: str, *, every_s: float = 0.1) -> T:
        """``wait_until``; raises AssertionError with the error as soon as the query has ended, or with the log's end."""

        def asked() -> T | None:
            ended = self.events("ended")
            value = predicate()
            if ended and not value:
                raise AssertionError(f"query {self.name} ended before {what}: {ended[0]['error']}")
            return value

        try:
            return wait_until(asked, timeout_s, f"{what} (query {self.name})", every_s=every_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.app.driver.log_tail()}") from None

    def wait_for(self, name: str, batch_id: int, timeout_s: float = LIMIT_S) -> None:
        """Wait until a batch has got so far."""
        self.wait(lambda: any(e["batch"] >= batch_id for e in self.events(name)), timeout_s, f"{name} of {batch_id}")

    def last_batch(self) -> int:
        """The number of the last batch written, -1 before the first."""
        return max((event["batch"] for event in self.events("batch")), default=-1)

    def next_batches(self, count: int, timeout_s: float = LIMIT_S) -> list[dict[str, Any]]:
        """Wait for so many more batches and return their events."""
        last = self.last_batch()
        self.wait_for("batch", last + count, timeout_s)
        return [event for event in self.events("batch") if last < event["batch"] <= last + count]

    def stop(self) -> None:
        """Stop it and wait for its end; raises AssertionError when it ended with an error."""
        self.app.command(do="stop", name=self.name)
        error = self.end(STOP_S)
        if error is not None:
            raise AssertionError(f"query {self.name}: {error}")

    def end(self, timeout_s: float = LIMIT_S) -> str | None:
        """Wait for its end and return its error, None when there was none."""
        ended = self.wait(lambda: self.events("ended"), timeout_s, f"the end of query {self.name}")
        error: str | None = ended[0]["error"]
        return error

    def live(self) -> connection_file.Connection | None:
        """Its live coordinator."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(HOME, str(self.app.directory / "home"))
            return next((found for found in connection_file.live() if found.group_id == self.group), None)

    def status(self) -> Status | None:
        """The group as its coordinator sees it now; None while there is no coordinator."""
        found = self.live()
        try:
            return None if found is None else connection_file.fetch_status(found)
        except CohortError:
            return None

    def wait_for_status(self, accept: Callable[[Status], object], what: str, timeout_s: float = LIMIT_S) -> Status:
        """Wait for a status that is accepted."""

        def accepted() -> Status | None:
            status = self.status()
            return status if status is not None and accept(status) else None

        return self.wait(accepted, timeout_s, what, every_s=0.25)  # each a connection with TLS

    def wait_for_members(self, count: int) -> Status:
        """Wait until so many agents are in the settled group and own every partition, as evenly as can be."""
        return self.wait_for_status(lambda status: settled(status, count), f"{count} members with their share")

    def wait_for_no_lag(self) -> Status:
        """Wait until everything that the brokers have is read, written and committed to Kafka."""
        return self.wait_for_status(lambda status: all(row["lag"] == 0 for row in status["partitions"]), "no lag")

    def assert_exact(self, cluster: Cluster) -> None:
        """Let it read everything, stop it, and compare what its sink has with what the brokers hold of its topic."""
        self.wait_for_no_lag()
        self.stop()
        check(from_parquet(self.out), held(cluster.bootstrap, [self.topic])).assert_exact()


class Application:
    """A running Spark application; leaving the block ends it."""

    def __init__(self, directory: Path, **options: Any) -> None:
        """``options`` are those of ``tests.kit.spark.Driver``."""
        self.directory = directory
        self.faults: Faults | None = None  # set by whoever gives it an environment with faults
        self._commands = directory / "commands"
        self._commands.mkdir(parents=True)
        self._count = 0
        self._queries: list[Query] = []
        env = {HOME: str(directory / "home"), **options.pop("env", {})}
        self.driver = Driver(SCRIPT, directory, {"commands": self._commands}, env=env, **options)

    def __enter__(self) -> Self:
        """Start it and wait until Spark is up."""
        self.driver.start()
        try:
            self.driver.wait_for("ready", READY_S)
        except BaseException:
            kill_run(self.driver.run_id)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End it, with all of its queries."""
        self.command(do="exit")
        try:
            self.driver.end(STOP_S)
        finally:
            self.driver.__exit__(kind, error, at)

    def stop_all(self) -> None:
        """Stop the queries that still run, as a test that failed leaves them; how they end is not looked at."""
        running = [query for query in self._queries if not query.events("ended")]
        for query in running:
            query.allow(ALL)
            self.command(do="stop", name=query.name)
        for query in running:
            wait_until(lambda: query.events("ended"), LIMIT_S, f"the end of query {query.name}")  # noqa: B023

    def command(self, **said: Any) -> None:
        """Tell the script what to do."""
        fresh = self._commands / "new"
        fresh.write_text(json.dumps(said))
        fresh.rename(self._commands / f"{self._count}.json")
        self._count += 1

    def start(
        self,
        name: str,
        options: Mapping[str, Any],
        *,
        form: str = "cohort",
        trigger: Mapping[str, Any] | None = None,
        gate: int = ALL,
        sink: Mapping[str, str] | None = None,
    ) -> Query:
        """Start a query of these source options; batches after ``gate`` wait for ``Query.allow``.  Returns at once.

        The name of a query that has ended starts it again, from its checkpoint.  ``form``: the source's format.
        ``sink``: the options of a write to Kafka, which then is all that the query does: without gate, and without events of batches.
        """
        folder = self.directory / name
        runs = 1 + sum(query.out == folder / "out" for query in self._queries)
        query = Query(self, f"{name}.{runs}", options, folder)
        query.out.mkdir(parents=True, exist_ok=True)
        query.allow(gate)
        self._queries.append(query)
        self.command(
            do="start",
            name=query.name,
            form=form,
            options={key: str(value) for key, value in options.items()},
            trigger=dict(trigger or {"processingTime": "0 seconds"}),
            sink=dict(sink or {}),
            out=str(query.out),
            gate=str(query.out / "_gate"),
            checkpoint=str(query.checkpoint),
        )
        return query


def settled(status: Status, members: int) -> bool:
    """Whether the group is stable and so many agents own each partition once, as evenly as can be."""
    loads = sorted(len(member["owned"]) for member in status["members"])
    owned = [tuple(tp) for member in status["members"] for tp in member["owned"]]
    everything = [(row["topic"], row["partition"]) for row in status["partitions"]]
    even = bool(loads) and loads[-1] - loads[0] <= 1
    return status["state"] == "Stable" and len(loads) == members and sorted(owned) == sorted(everything) and even


def owners(status: Status) -> dict[int, str]:
    """The owner (member id) of each partition of the only topic."""
    return {number: member["member_id"] for member in status["members"] for _, number in member["owned"]}
