"""Keep the newest record of each key in a table: an upsert, which may see a batch twice."""

import os
import sqlite3  # stands for your database: the statement is PostgreSQL's, too
import sys
from contextlib import closing

from pyspark.sql import SparkSession

import sparkcohort  # a Python without it ends here, in one line

TABLE = "CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, content TEXT, partition INT, position BIGINT)"
UPSERT = """
INSERT INTO orders (id, content, partition, position) VALUES (?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET content = excluded.content, partition = excluded.partition, position = excluded.position
WHERE excluded.position > orders.position
"""


def write_rows(rows):
    """One task's rows in one transaction; what the table has already, or has newer, changes nothing."""
    with closing(sqlite3.connect(database, timeout=60)) as connection, connection:
        connection.executemany(UPSERT, rows)


def write_batch(batch, batch_id):
    """After a crash the same batch comes again: the same offsets under the same ``batch_id``, which an upsert needn't look at."""
    rows = batch.where("key IS NOT NULL").selectExpr(
        "CAST(key AS STRING)", "CAST(value AS STRING)", "partition", "offset"
    )
    rows.foreachPartition(write_rows)


os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # one Python for this script, Spark's workers and executors
brokers, topic, group, database, checkpoint = sys.argv[1:6]
with closing(sqlite3.connect(database)) as table, table:
    table.execute(TABLE)
spark = SparkSession.builder.appName("orders").getOrCreate()
orders = (
    spark.readStream.format("cohort")
    .option("kafka.bootstrap.servers", brokers)
    .option("subscribe", topic)
    .option("group.id", group)
    .load()
)
query = (
    orders.writeStream.foreachBatch(write_batch)
    .option("checkpointLocation", checkpoint)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
