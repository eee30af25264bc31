"""A Spark application that starts and stops queries as it is told; ``tests.kit.application`` is its other end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from tests.kit import sink
from tests.kit.driver import arguments, report, session
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

GATE_S = 120.0


def batch_function(said: dict[str, Any]) -> Callable[[DataFrame, int], None]:
    """Write each batch to the query's folder, not before the gate (the number of the last batch allowed) is open."""
    name, gate, write = said["name"], Path(said["gate"]), sink.parquet(said["out"])

    def run(batch: DataFrame, batch_id: int) -> None:
        report("begin", query=name, batch=batch_id)
        wait_until(lambda: int(gate.read_text()) >= batch_id, GATE_S, f"the gate of batch {batch_id} of {name}")
        with suppress(FileNotFoundError):
            (gate.parent / "_throw").unlink()
            raise RuntimeError("this sink was told to throw")
        began = time.monotonic()
        report("open", query=name, batch=batch_id)
        write(batch, batch_id)
        report(
            "batch",
            query=name,
            batch=batch_id,
            at=round(time.monotonic(), 3),
            seconds=round(time.monotonic() - began, 3),
        )

    return run


def start(spark: SparkSession, said: dict[str, Any]) -> StreamingQuery:
    """Start one query."""
    stream = spark.readStream.format(said.get("form", "cohort")).options(**said["options"]).load()
    query = stream.writeStream.queryName(said["name"]).option("checkpointLocation", said["checkpoint"])
    if said.get("sink"):
        return query.format("cohort").options(**said["sink"]).trigger(**said["trigger"]).start()
    return query.foreachBatch(batch_function(said)).trigger(**said["trigger"]).start()


def scale(spark: SparkSession, executors: int) -> None:
    """Have so many executors, as dynamic allocation has it: those that are too many are killed, the others come."""
    jvm: Any = spark.sparkContext._jvm
    context = spark.sparkContext._jsc.sc()
    there = context.getExecutorIds()
    for executor in sorted((there.apply(number) for number in range(there.size())), key=int)[executors:]:
        context.killExecutor(executor)
    context.requestTotalExecutors(executors, 0, jvm.scala.Predef.Map().empty())


def main() -> None:
    """Do what the command files say, in their order, and tell how queries end."""
    spark, folder = session(), Path(arguments()["commands"])
    running: dict[str, StreamingQuery] = {}
    done = 0
    report("ready", application=spark.sparkContext.applicationId)
    said: dict[str, Any] | str
    while True:
        command = folder / f"{done}.json"
        said = wait_until(partial(_happened, command, running), 3600, "a command or the end of a query")
        if isinstance(said, str):
            error = running.pop(said).exception()
            report("ended", query=said, error=None if error is None else str(error))
            continue
        done += 1
        if said["do"] == "exit":
            break
        try:
            if said["do"] == "scale":
                scale(spark, said["executors"])
            elif said["do"] == "start":
                running[said["name"]] = start(spark, said)
            elif said["name"] in running:
                running[said["name"]].stop()
        except PySparkException as error:
            report("ended", query=said["name"], error=str(error))
    spark.stop()


def _happened(command: Path, running: dict[str, StreamingQuery]) -> Any:
    said = _next(command)
    return _ended(running) if said is None else said


def _next(command: Path) -> dict[str, Any] | None:
    return json.loads(command.read_text()) if command.exists() else None


def _ended(running: dict[str, StreamingQuery]) -> str | None:
    return next((name for name, query in running.items() if not query.isActive), None)


main()
