"""Topics whose bytes follow from their numbers, and the sums by which a source's rows are compared with them.

Spark makes the records, and adds up what it makes; a run in which nothing is measured adds up what a source delivers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql.functions import expr

from tests.kit.broker import Broker
from tools.bench.results import BenchError

PARTITIONS = 8
WORDS = "the quick brown fox jumps over a lazy dog, again and yet again; "  # 64 bytes that compress well
PIECE = len(WORDS) + 64  # with a SHA-256 in hex, which hardly does
PRODUCER = {"linger.ms": "20", "batch.size": "524288", "buffer.memory": "134217728", "max.request.size": "16777216"}

Sums = dict[int, tuple[int, ...]]
"""Per partition: records, sum of offsets, then the sums of SUMMED."""

SUMMED = {
    "value_bytes": "sum(length(value))",
    "value_crc": "sum(crc32(value))",
    "key_bytes": "sum(length(key))",
    "key_crc": "sum(crc32(key))",
}


@dataclass(frozen=True)
class Shape:
    """What records are like."""

    value_bytes: int = 100

    @property
    def name(self) -> str:
        """As in reports and on the command line."""
        return f"{self.value_bytes // 1000}KB" if self.value_bytes >= 1000 else f"{self.value_bytes}B"


def rows(spark: SparkSession, shape: Shape, records: int, partitions: int) -> DataFrame:
    """The records themselves: key, value, partition."""
    pieces = -(-shape.value_bytes // PIECE)
    piece = f"concat(sha2(concat(id, '/', n), 256), '{WORDS}')"
    text = f"concat_ws('', transform(sequence(1, {pieces}), n -> {piece}))"
    columns = [
        "cast(id as string) as key",
        f"cast(substring(concat(id, ':', {text}), 1, {shape.value_bytes}) as binary) as value",
        f"cast(id % {partitions} as int) as partition",
    ]
    return spark.range(records).selectExpr(*columns)


def fill(spark: SparkSession, broker: Broker, topic: str, shape: Shape, records: int) -> Sums:
    """Create ``topic`` with the records of a shape, evenly over PARTITIONS; what was written, in sums.  Raises BenchError."""
    made = rows(spark, shape, records, PARTITIONS)
    write(made, broker, topic, records)
    return totals(summed(made, "0L").collect(), offsets_known=False)


def write(made: DataFrame, broker: Broker, topic: str, records: int) -> None:
    """Create ``topic`` with so many records, as Spark's sink for Kafka takes them.  Raises BenchError."""
    broker.admin.create_topic(topic, PARTITIONS)
    options = {f"kafka.{key}": value for key, value in PRODUCER.items()}
    asked = {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic, **options}
    made.write.format("kafka").options(**asked).save()
    held = sum(broker.admin.ends(topic).values())
    if held != records:
        raise BenchError(f"{topic} holds {held} records instead of {records}")


class Values(NamedTuple):
    """Rows by their values, whatever their order: how many, and the sum of the hashes of their texts."""

    rows: int
    hashes: Decimal


def valued(frame: DataFrame) -> DataFrame:
    """One row of ``Values``; a column that is null is told from one that isn't by its name in the text."""
    text = f"to_json(struct({', '.join(f'`{name}`' for name in frame.columns)}))"
    return frame.agg(
        expr("count(1)").alias("rows"),
        expr(f"coalesce(sum(cast(xxhash64({text}) as decimal(20))), 0)").alias("hashes"),
    )


def values_of(found: Iterable[Row]) -> Values:
    """Rows of ``valued``, added up."""
    both = [(row["rows"], row["hashes"]) for row in found]
    return Values(sum(rows for rows, _ in both), sum((hashes for _, hashes in both), Decimal()))


def compare_values(who: str, delivered: Iterable[Row], written: Values) -> None:
    """Raise BenchError when other rows came than were written."""
    seen = values_of(delivered)
    if seen != written:
        raise BenchError(f"{who}: {seen.rows} rows, hashes {seen.hashes}, instead of {written.rows}, {written.hashes}")


def summed(frame: DataFrame, offset: str = "offset") -> DataFrame:
    """The sums of a frame, one row a partition."""
    columns: list[Column] = [expr(f"coalesce({text}, 0L)").alias(name) for name, text in SUMMED.items()]
    return frame.groupBy("partition").agg(
        expr("count(1)").alias("records"), expr(f"sum({offset})").alias("offsets"), *columns
    )


def totals(found: Iterable[Row], *, offsets_known: bool = True) -> Sums:
    """Rows of ``summed`` by partition, those of one partition added up; else offsets are those of a fresh topic."""
    sums: dict[int, list[int]] = defaultdict(list)
    for partition, *values in found:
        seen = sums[partition] or [0] * len(values)
        sums[partition] = [a + b for a, b in zip(seen, values, strict=True)]
    if not offsets_known:
        for seen in sums.values():
            seen[1] = seen[0] * (seen[0] - 1) // 2
    return {partition: tuple(seen) for partition, seen in sums.items()}


def compare(who: str, delivered: Mapping[int, tuple[int, ...]], written: Mapping[int, tuple[int, ...]]) -> None:
    """Raise BenchError naming the first partition whose sums differ."""
    names = ["records", "sum of offsets", *SUMMED]
    for partition in sorted({*delivered, *written}):
        got, held = delivered.get(partition, ()), written.get(partition, ())
        if got != held:
            wrong = [name for name, a, b in zip(names, got, held, strict=False) if a != b] or ["records"]
            raise BenchError(f"{who}: partition {partition}: {', '.join(wrong)} differ: {got} instead of {held}")
