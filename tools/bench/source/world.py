"""What the parts share: how much to measure, the broker, and a Spark application at a time."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import click
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.kit.broker import Broker
from tools.bench.figures import Demand, Sample
from tools.bench.report import Column
from tools.bench.results import BenchError
from tools.bench.source.clients import MARK, Clients
from tools.bench.source.peers import Peer, application
from tools.bench.source.runs import ERROR_CHARACTERS, Bench


@dataclass(frozen=True)
class Plan:
    """How much to measure; what a part makes of it stands there."""

    records: int
    rounds: int
    batches: int
    cap_s: float
    stretch_s: float
    window_s: float
    parts: tuple[str, ...]
    peers: tuple[Peer, ...]
    masters: tuple[str, ...]
    recommended: bool | None = None  # None: with the recommended configuration and without it


def say(text: str) -> None:
    """A progress line, out of the result's way."""
    click.echo(text, err=True)


@dataclass(frozen=True)
class World:
    """The plan and the broker."""

    plan: Plan
    broker: Broker

    @contextmanager
    def application(
        self, master: str, settings: Mapping[str, str] | None = None, *, counting: bool = True
    ) -> Iterator[Bench]:
        """A Spark application of its own, with ``settings`` besides.

        ``counting``: a watch over its processes counts their CPU time, four times a second and at the end of each batch.
        Without, nothing but the queries uses the cores: for parts that measure milliseconds.
        """
        mark = os.environ[MARK] = uuid.uuid4().hex
        say(f"starting Spark: {master}")
        with (
            tempfile.TemporaryDirectory(prefix="cohort-bench-", ignore_cleanup_errors=True) as directory,
            application(master, Path(directory), settings) as spark,
            Clients(mark, _jvm(spark), watching=counting) as clients,
        ):
            try:
                yield Bench(spark, self.broker, clients, counting=counting)
            except (PySparkException, Py4JError) as error:  # which only the JVM can tell
                raise BenchError(f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS]) from None

    def chosen(self, *peers: Peer) -> tuple[Peer, ...]:
        """Those of ``peers`` that are asked for."""
        return tuple(peer for peer in peers if peer in self.plan.peers)


def _jvm(spark: SparkSession) -> int:
    gateway: Any = spark.sparkContext._gateway
    return int(gateway.proc.pid)


class Part(Protocol):
    """A module that is one part of the bench."""

    @property
    def TITLE(self) -> str:  # noqa: N802  a constant of the module
        """Of its table."""

    @property
    def COLUMNS(self) -> Sequence[Column]:  # noqa: N802  a constant of the module
        """The figures that its table shows."""

    def measure(self, world: World) -> list[Sample]:
        """All runs; raises BenchError."""

    def demands(self, cases: Sequence[str]) -> list[Demand]:
        """What is demanded of the cases that were measured."""
