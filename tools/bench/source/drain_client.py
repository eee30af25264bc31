"""One measured drain of a topic in a process of its own; what it took is one JSON line.

    python -P tools/bench/source/drain_client.py fetching BOOTSTRAP TOPIC PARTITIONS RECORDS

``fetching`` and ``consumer`` are the source's drains into Arrow; ``check`` and ``check-consumer`` read like these and add up
what came per partition, unmeasured.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.fetch.events import PartitionError, Records
from sparkcohort.runtime.shell.kafka.fetch.record_source import RecordSource
from sparkcohort.runtime.values.columns import KAFKA_ROW
from tests.kit.record_sources import by_librdkafka

POLL_S = 0.1
NO_END = 2**63 - 1
KINDS: dict[str, Callable[..., Any]] = {
    "fetching": RecordSource,
    "check": RecordSource,
    "consumer": by_librdkafka,
    "check-consumer": by_librdkafka,
}


def cpu_s() -> float:
    """What this process has used so far, all its threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def batches(drain: RecordSource) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    """What one poll brings; raises RuntimeError for an error of a partition."""
    for event in drain.poll(POLL_S):
        match event:
            case PartitionError(tp, error):
                raise RuntimeError(f"{tp}: {error}")
            case Records(tp=tp, batch=pa.RecordBatch() as batch):
                yield tp, batch


def measure(poll: Callable[[], int], records: int) -> dict[str, float]:
    """Poll until all records are there; the time runs from the first ones on, and counts those behind them."""
    got = first = poll()
    while not first:
        got = first = poll()
    wall, cpu = time.monotonic(), cpu_s()
    while got < records:
        got += poll()
    return {"rows": got - first, "wall_s": time.monotonic() - wall, "cpu_s": cpu_s() - cpu}


def check(drain: RecordSource, records: int) -> dict[str, list[int]]:
    """Per partition: records, sum of offsets, bytes of values, and their checksum in offset order."""
    seen: dict[int, list[int]] = {}
    while sum(sums[0] for sums in seen.values()) < records:
        for tp, batch in batches(drain):
            sums = seen.setdefault(tp.partition, [0, 0, 0, 0])
            for offset, value in zip(
                batch.column("offset").to_pylist(), batch.column("value").to_pylist(), strict=True
            ):
                sums[:] = sums[0] + 1, sums[1] + offset, sums[2] + len(value), zlib.crc32(value, sums[3])
    return {str(partition): sums for partition, sums in sorted(seen.items())}


def main(kind: str, bootstrap: str, topic: str, partitions: int, records: int) -> None:
    """Drain the topic from its beginning and print what it took."""
    drain = KINDS[kind]({"bootstrap.servers": bootstrap}, columns=KAFKA_ROW)
    drain.assign({TopicPartition(topic, number): (0, NO_END) for number in range(partitions)})
    found: dict[str, Any]
    if kind.startswith("check"):
        found = check(drain, records)
    else:
        found = measure(lambda: sum(batch.num_rows for _, batch in batches(drain)), records)
    print(json.dumps(found))
    drain.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
