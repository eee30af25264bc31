"""A batch read whose first task to have rows kills its executor, once; the rest of the application reads on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow as pa

from tests.kit.driver import arguments, report, session
from tests.kit.waiting import wait_until

GIVEN = arguments()
KILLED = Path(GIVEN["killed"])
EXECUTOR = "CoarseGrainedExecutorBackend"


def kill_one(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass rows on; who has some and is first ends the JVM that it belongs to."""
    for batch in batches:
        yield batch
        try:
            (KILLED / "once").open("x").close()
        except FileExistsError:
            continue
        for parent in psutil.Process().parents():
            if any(EXECUTOR in word for word in parent.cmdline()):
                os.kill(parent.pid, signal.SIGKILL)


spark = session()
frame = spark.read.format("cohort").options(**GIVEN["options"]).load()
report("planned", tasks=frame.rdd.getNumPartitions())
wait_until(KILLED.exists, 60, "the word to go on")
places = frame.select("partition", "offset")
rows = places.mapInArrow(kill_one, places.schema)
counted = rows.selectExpr(
    "count(1) as rows", "count(distinct partition, offset) as places", "sum(offset) as offsets"
).first()
assert counted is not None
report("rows", **counted.asDict())
spark.stop()
