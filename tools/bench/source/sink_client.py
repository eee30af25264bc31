"""One producer in a process of its own; what it took is one JSON line.

    python -P tools/bench/source/sink_client.py encoder|producer|confluent BOOTSTRAP TOPIC RECORDS [CODEC]

``encoder`` makes record batches with their checksums and sends nothing; ``producer`` is the sink's, from Arrow to the acknowledgement;
``confluent`` is confluent-kafka's, a call for each row.  Keys are short, values have 100 bytes that hardly shrink.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from array import array
from collections.abc import Callable

import confluent_kafka
import pyarrow as pa

from sparkcohort.native import _native
from sparkcohort.runtime.shell.kafka.produce.row_encoding import CODED, RoomPool, RowEncoder
from sparkcohort.runtime.shell.kafka.produce.row_producer import Producer
from sparkcohort.runtime.shell.options.producer_settings import ProducerSettings
from tools.bench.source.drain_client import cpu_s

BATCH_ROWS, PARTITIONS = 10_000, 8  # as Spark hands them over
FLUSH_TIMEOUT_S = 120


def arrow_rows(topic: str) -> pa.RecordBatch:
    """One batch, which is written again and again."""
    texts = [hashlib.sha256(b"%d" % number).hexdigest().ljust(100, "x").encode() for number in range(BATCH_ROWS)]
    keys = [b"%d" % number for number in range(BATCH_ROWS)]
    columns = {"topic": pa.array([topic] * BATCH_ROWS).dictionary_encode(), "key": keys, "value": texts}
    return pa.record_batch(columns)


def encode(rows: pa.RecordBatch, _: str, count: int, codec: str) -> Callable[[], None]:
    """Encode and seal, as ``WireSender`` does."""
    settings = ProducerSettings.parse({"bootstrap.servers": "127.0.0.1:1", "compression.type": codec})
    encoder = RowEncoder(settings, RoomPool(4 << 20))
    encoder.topics = array("q", (0, PARTITIONS, 0, 0))
    columns = {name: rows.column(name) for name in ("key", "value")} | {
        "topic": pa.array(bytes(BATCH_ROWS), pa.int32())
    }
    arrays = [columns.get(field.name, pa.nulls(BATCH_ROWS, field.type)) for field in CODED]
    coded = pa.RecordBatch.from_arrays(arrays, schema=CODED)

    def run() -> None:
        for _ in range(count):
            for batch in encoder.encode(coded, 1, {}):
                _native.seal(batch.data, 0, 1, 0, 0)
                encoder.rooms.give_back(batch.room)

    return run


def produce(rows: pa.RecordBatch, bootstrap: str, count: int, codec: str) -> Callable[[], None]:
    """The sink's producer."""
    producer = Producer(ProducerSettings.parse({"bootstrap.servers": bootstrap, "compression.type": codec}))

    def run() -> None:
        for _ in range(count):
            producer.write(rows)
        producer.flush()

    return run


def produce_by_confluent(rows: pa.RecordBatch, bootstrap: str, count: int, codec: str) -> Callable[[], None]:
    """With the same guarantees, and room for all rows."""
    settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 50, "batch.size": 256 << 10}
    more = {"partitioner": "murmur2_random", "compression.type": codec, "queue.buffering.max.messages": 2_000_000}
    client = confluent_kafka.Producer(settings | more)
    topic, keys, texts = (
        rows.column("topic")[0].as_py(),
        rows.column("key").to_pylist(),
        rows.column("value").to_pylist(),
    )

    def run() -> None:
        for _ in range(count):
            for key, value in zip(keys, texts, strict=True):
                client.produce(topic, value, key)
            client.poll(0)
        if client.flush(FLUSH_TIMEOUT_S):
            raise RuntimeError("rows were not acknowledged")

    return run


KINDS = {"encoder": encode, "producer": produce, "confluent": produce_by_confluent}


def main(kind: str, bootstrap: str, topic: str, records: int, codec: str = "none") -> None:
    """Write so many records and print what it took."""
    run = KINDS[kind](arrow_rows(topic), bootstrap, records // BATCH_ROWS, codec)
    wall, cpu = time.monotonic(), cpu_s()
    run()
    rows = records // BATCH_ROWS * BATCH_ROWS
    print(json.dumps({"rows_per_s": rows / (time.monotonic() - wall), "rows_per_cpu_s": rows / (cpu_s() - cpu)}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), *sys.argv[5:])
