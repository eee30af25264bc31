"""Uses the format without and with ``register``, and tells what came of it as one line of JSON.

python registers.py [BOOTSTRAP TOPIC] FOLDER
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from sparkcohort import CohortError, register

bootstrap, topic, folder = sys.argv[1:] if len(sys.argv) > 2 else ("127.0.0.1:1", "none", sys.argv[1])
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
count = 0


def load(reader: Any) -> DataFrame:
    """The topic."""
    found: DataFrame = reader.format("cohort").options(**options).load()
    return found


def add(batch: DataFrame, number: int) -> None:
    """Counts the rows of a batch."""
    global count  # noqa: PLW0603
    count += batch.count()


found = {"unregistered": "", "register": ""}
try:
    load(spark.read)
except Exception as error:  # noqa: BLE001  Py4J's and PySpark's
    found["unregistered"] = str(error)
try:
    register(spark, executors=bootstrap != "127.0.0.1:1")
except CohortError as error:
    found["register"] = str(error)
else:
    try:
        found["batch"] = str(load(spark.read).count())
        stream = load(spark.readStream.option("group.id", topic)).writeStream.foreachBatch(add)
        query = stream.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
        query.awaitTermination(60)
        found["stream"] = str(count)
    except PySparkException as error:
        found["stream"] = str(error)
print(json.dumps(found))  # noqa: T201
spark.stop()
