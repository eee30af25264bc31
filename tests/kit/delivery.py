"""The delivery checker: what a sink received, compared with what the broker holds, byte for byte.

Usage::

    report = check(from_parquet(path), held(broker.bootstrap, ["orders"]))
    report.assert_exact()                 # nothing lost, doubled, foreign or changed; batches in order

Tables have the columns topic, partition, offset, size (bytes of key and value) and crc (CRC-32 of both, null told
apart from empty); delivered ones also ``batch_id``.  The sinks that write what is read here are in ``tests.kit.sink``.
"""

from __future__ import annotations

import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from tests.kit.produce import place_of

KEY = ["topic", "partition", "offset"]
READ_TIMEOUT_S = 60.0
NAMED = 20  # how many offsets an assertion names
HELD = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("size", pa.int64()),
        ("crc", pa.int64()),
    ]
)
DELIVERED = HELD.append(pa.field("batch_id", pa.int64()))

Place = tuple[str, int]


def crc(key: bytes | None, value: bytes | None) -> int:
    """The checksum of one record's bytes."""
    seen = zlib.crc32(b"-" if key is None else b"k%d:" % len(key) + key)
    return zlib.crc32(b"-" if value is None else b"v" + value, seen)


def measured(key: bytes | None, value: bytes | None) -> tuple[int, int]:
    """The columns size and crc of one record."""
    return len(key or b"") + len(value or b""), crc(key, value)


# --- what the broker holds ------------------------------------------------------------------------


def held(bootstrap: str, topics: Sequence[str], conf: Mapping[str, str] | None = None) -> pa.Table:
    """Every committed record of ``topics`` from beginning to end, as the columns of HELD.

    Reads with librdkafka's own consumer outside any group.  Raises RuntimeError when nothing comes for a minute.
    """
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "delivery-check",
        "enable.auto.commit": "false",
        "enable.partition.eof": "true",
        "isolation.level": "read_committed",
        "check.crcs": "true",
        "fetch.queue.backoff.ms": "10",
        **(conf or {}),
    }
    client = Consumer(settings)
    try:
        described = client.list_topics(timeout=READ_TIMEOUT_S).topics
        partitions = [TopicPartition(t, number, OFFSET_BEGINNING) for t in topics for number in described[t].partitions]
        client.assign(partitions)
        return table(_records(client, len(partitions)), HELD)
    finally:
        client.close()


def _records(client: Consumer, partitions: int) -> Iterator[tuple[str, int, int, int, int]]:
    ended: set[Place] = set()
    deadline = time.monotonic() + READ_TIMEOUT_S
    while len(ended) < partitions:
        messages: list[Message] = client.consume(10_000, 0.1)  # waits for that many, or this long
        if messages:
            deadline = time.monotonic() + READ_TIMEOUT_S
        elif time.monotonic() > deadline:
            raise RuntimeError(f"no records for a while, and only {len(ended)} of {partitions} partitions read")
        for message in messages:
            place = (str(message.topic()), int(message.partition() or 0))
            error = message.error()
            if error is None:
                yield (*place, int(message.offset() or 0), *measured(message.key(), message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(place)
            else:
                raise RuntimeError(f"{place}: {error}")


def table(rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """Rows as a table of this schema."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)], schema)


# --- what a sink received -------------------------------------------------------------------------


def from_parquet(path: Path) -> pa.Table:
    """What ``sink.parquet`` wrote below ``path``; batches that are being written are there as far as they are committed."""
    # Not all that is below: Spark's committer moves a file out of _temporary when it is whole, whoever looks.
    written = [batch for file in path.glob("batch_id=*/*.parquet") if (batch := _batch(file)) is not None]
    return pa.concat_tables([table([], DELIVERED), *written])


def rows(path: Path) -> int:
    """How many of these records there are so far, by what the files say of themselves: cheap enough to wait with."""
    found = 0
    for file in path.glob("batch_id=*/*.parquet"):
        with suppress(FileNotFoundError):  # the batch that runs again has just taken it away
            found += pq.read_metadata(file).num_rows
    return found


def rows_of_partitions(path: Path) -> dict[int, int]:
    """The same by partition, of the only topic; values are not looked at."""
    found: Counter[int] = Counter()
    for file in path.glob("batch_id=*/*.parquet"):
        with suppress(FileNotFoundError):
            found.update(pq.read_table(file, columns=["partition"], partitioning=None)["partition"].to_pylist())
    return dict(found)


def _batch(file: Path) -> pa.Table | None:
    """The rows of one file; None when the batch that runs again has just taken it away."""
    try:
        found = pq.read_table(file, partitioning=None)
    except FileNotFoundError:
        return None
    pairs = zip(found["key"].to_pylist(), found["value"].to_pylist(), strict=True)
    figures = table((measured(key, value) for key, value in pairs), pa.schema([HELD.field("size"), HELD.field("crc")]))
    for name in figures.column_names:
        found = found.append_column(name, figures[name])
    batch_id = int(file.parent.name.removeprefix("batch_id="))
    found = found.append_column("batch_id", pa.array([batch_id] * len(found), pa.int64()))
    return found.select(DELIVERED.names).cast(DELIVERED)


def from_pipeline(path: Path) -> pa.Table:
    """What the sink of README's pipeline holds; the keys are what ``produce`` made of them."""
    found = []
    for row in pq.read_table(path).to_pylist():
        value = row["order"].encode()
        sums = measured(b"%d" % place_of(value)[1], value)
        found.append((row["topic"], row["partition"], row["offset"], *sums, 0))
    return table(found, DELIVERED)


# --- the comparison -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Report:
    """The differences, each a list of (topic, partition, offset)."""

    records: int  # held by the broker
    rows: int  # delivered, doubles included
    lost: list[tuple[str, int, int]]
    duplicated: list[tuple[str, int, int]]
    foreign: list[tuple[str, int, int]]  # delivered, but the broker holds no such record
    changed: list[tuple[str, int, int]]  # delivered with other bytes than the broker's
    disordered: list[tuple[str, int, int]]  # first offset of a batch that is not after the batch before

    @property
    def exact(self) -> bool:
        """Whether each record was delivered once, unchanged, and in order of batches."""
        return not (self.lost or self.duplicated or self.foreign or self.changed or self.disordered)

    def __str__(self) -> str:
        """One line of counts, then the first offsets of each kind of difference."""
        lines = [f"{self.records} records, {self.rows} rows"]
        for kind in ("lost", "duplicated", "foreign", "changed", "disordered"):
            places = getattr(self, kind)
            if places:
                named = ", ".join(f"{topic}-{partition}@{offset}" for topic, partition, offset in places[:NAMED])
                lines.append(f"{len(places)} {kind}: {named}")
        return "\n".join(lines)

    def assert_exact(self) -> None:
        """Raise AssertionError with all differences unless the delivery is exact."""
        if not self.exact:
            raise AssertionError(str(self))


def check(delivered: pa.Table, expected: pa.Table) -> Report:
    """Compare what was delivered with what the broker holds."""
    seen = delivered.group_by(KEY).aggregate([("crc", "count"), ("crc", "min"), ("crc", "max")])
    both = expected.join(seen, KEY, join_type="full outer")
    missing, unknown = pc.is_null(both["crc_count"]), pc.is_null(both["crc"])
    differs = pc.or_(pc.not_equal(both["crc"], both["crc_min"]), pc.not_equal(both["crc"], both["crc_max"]))
    return Report(
        records=expected.num_rows,
        rows=delivered.num_rows,
        lost=_places(both.filter(missing)),
        duplicated=_places(both.filter(pc.greater(both["crc_count"], 1))),
        foreign=_places(both.filter(unknown)),
        changed=_places(both.filter(differs)),
        disordered=_disordered(delivered),
    )


def _places(found: pa.Table) -> list[tuple[str, int, int]]:
    return sorted((row["topic"], row["partition"], row["offset"]) for row in found.select(KEY).to_pylist())


def _disordered(delivered: pa.Table) -> list[tuple[str, int, int]]:
    spans = delivered.group_by(["topic", "partition", "batch_id"]).aggregate([("offset", "min"), ("offset", "max")])
    wrong: list[tuple[str, int, int]] = []
    highest: dict[Place, int] = {}
    for row in sorted(spans.to_pylist(), key=lambda row: int(row["batch_id"])):
        place = (row["topic"], row["partition"])
        if row["offset_min"] <= highest.get(place, -1):
            wrong.append((*place, row["offset_min"]))
        highest[place] = max(highest.get(place, -1), row["offset_max"])
    return wrong
