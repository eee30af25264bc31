"""A streaming table of a declarative pipeline: transformations/orders.py of a project of spark-pipelines."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession


@dp.table
def orders() -> DataFrame:
    """The topic as a table that each run goes on with."""
    spark = SparkSession.active()
    return (
        spark.readStream.format("cohort")
        .option("kafka.bootstrap.servers", "broker:9092")
        .option("subscribe", "orders")
        .option("group.id", "billing")
        .load()
        .selectExpr("CAST(value AS STRING) AS order", "topic", "partition", "offset")
    )
