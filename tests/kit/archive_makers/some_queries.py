"""A session with some queries, in a JVM with the Java options that follow the folder."""

import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.kit.spark import QUIET

folder, *options = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config(map=dict(QUIET))
spark = builder.config("spark.driver.extraJavaOptions", " ".join(options)).getOrCreate()


def write(rows: DataFrame, _batch: Any) -> None:
    """As most tests' sinks do."""
    rows.write.parquet(f"{folder}/out", mode="append")


stream = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
query = stream.writeStream.foreachBatch(write).option("checkpointLocation", f"{folder}/checkpoint").start()
while query.lastProgress is None or query.lastProgress["batchId"] < 1:
    query.awaitTermination(1)
query.stop()
spark.read.parquet(f"{folder}/out").groupBy("value").count().collect()
spark.stop()
