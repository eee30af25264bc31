"""The columns of a query as Arrow, exactly as PySpark checks them (``KafkaRecordToRowConverter``).

PySpark compares the schema of the first batch with the declared one: names, types and nullability, not metadata.  Spark's
own Kafka row is all nullable, although topic, partition, offset and the two timestamp columns never hold a null.
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from sparkcohort.runtime.shell.values.arrow_types import arrow_type
from sparkcohort.runtime.values.columns import HEADERS, Columns
from sparkcohort.runtime.values.types import TIMESTAMP as SPARK_TIMESTAMP

HEADERS_LIST = arrow_type(HEADERS)
TIMESTAMP = arrow_type(SPARK_TIMESTAMP)


@cache
def schema(columns: Columns) -> pa.Schema:
    """Return the schema of every batch of these columns; ``headers`` is null where a record has none."""
    return pa.schema([pa.field(each.name, arrow_type(each.type), each.nullable) for each in columns])
