"""Read a topic as a consumer group into Parquet files."""

import os
import sys

from pyspark.sql import SparkSession

import sparkcohort

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # one Python for this script, Spark's workers and executors
brokers, topic, group, out = sys.argv[1:5]
spark = SparkSession.builder.appName("orders").getOrCreate()
sparkcohort.register(spark)  # looks at Spark's Python, and gives Spark the wheel's own jar: the JVM then reads the rows
orders = (
    spark.readStream.format("cohort")
    .option("kafka.bootstrap.servers", brokers)
    .option("subscribe", topic)
    .option("group.id", group)
    .load()
)
query = (
    orders.selectExpr("CAST(value AS STRING) AS order", "topic", "partition", "offset")
    .writeStream.format("parquet")
    .option("path", f"{out}/orders")
    .option("checkpointLocation", f"{out}/checkpoint")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
