"""Counts some numbers in Spark, then waits to be killed if asked."""

from __future__ import annotations

import threading

from tests.kit.driver import arguments, report, session

given = arguments()
numbers = given["rows"]
spark = session()
rows = spark.range(numbers).repartition(4).rdd.map(lambda row: row.id).count()
report("counted", rows=rows)
if given.get("linger"):
    threading.Event().wait(given["linger"])
spark.stop()
