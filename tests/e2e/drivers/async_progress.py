"""A query with ``format("dying")`` and asynchronous progress that copies a topic to another, to its end."""

from __future__ import annotations

import json
from pathlib import Path

from tests.kit.driver import arguments, session
from tests.kit.dying import DyingSource, die_in_log
from tests.kit.waiting import wait_until

GIVEN = arguments()
LIFE_S = 150.0

spark = session()
spark.dataSource.register(DyingSource)
stream = spark.readStream.format("dying").options(**GIVEN["options"]).load()
writer = stream.selectExpr("value").writeStream.format("kafka").options(**GIVEN["sink"])
writer = writer.option("asyncProgressTrackingEnabled", "true").option("asyncProgressTrackingCheckpointIntervalMs", "0")
die_in_log(Path(GIVEN["checkpoint"]))
query = writer.option("checkpointLocation", GIVEN["checkpoint"]).start()


def copied() -> bool:
    """Whether the last record is behind the query."""
    failure = query.exception()
    if failure is not None:
        raise failure
    progress = query.lastProgress
    if progress is None or progress.sources[0].endOffset is None:
        return False
    return bool(json.loads(progress.sources[0].endOffset)[GIVEN["topic"]]["0"] == GIVEN["records"])


wait_until(copied, LIFE_S, "the end")
query.stop()
spark.stop()
