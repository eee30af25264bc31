"""A producer in a process of its own that writes at a steady rate and knows what it wrote.

    python -P tools/bench/source/load.py BOOTSTRAP TOPIC PARTITIONS RATE      until its standard input ends; prints the sums

Usage: ``with Load(bootstrap, topic, partitions, rate) as load: ...``, then ``load.sums``.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
import zlib
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from confluent_kafka import Producer

VALUE_BYTES = 100
TICK_S = 0.005
END_TIMEOUT_S = 60
STDIN = 0

Sums = dict[int, tuple[int, ...]]
"""Per partition: records, sum of offsets (0: unknown yet), bytes and checksums of values, bytes and checksums of keys."""


class Load:
    """Writes from the beginning of the block to its end; ``sums`` is there after it."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, rate: int) -> None:
        """Records are 100-byte values with short keys, round-robin."""
        arguments = [bootstrap, topic, str(partitions), str(rate)]
        self._command = [sys.executable, "-P", __file__, *arguments]
        self.sums: Sums = {}

    def __enter__(self) -> Self:
        """Begin to write."""
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop; raises RuntimeError when a record was not taken."""
        try:
            printed, _ = self._process.communicate(timeout=END_TIMEOUT_S)
        finally:
            self._process.kill()
            self._process.wait()
        if error is None:
            if self._process.returncode != 0:
                raise RuntimeError("a producer failed, see above")
            self.sums = {int(partition): tuple(seen) for partition, seen in json.loads(printed).items()}


def merged(parts: Iterable[Sums]) -> Sums:
    """The sums of a topic to which nothing else was written."""
    total: dict[int, list[int]] = {}
    for part in parts:
        for partition, seen in part.items():
            known = total.setdefault(partition, [0] * len(seen))
            total[partition] = [a + b for a, b in zip(known, seen, strict=True)]
    return {partition: (count, count * (count - 1) // 2, *rest) for partition, (count, _, *rest) in total.items()}


class Writer:
    """Produces one record after the other and adds up what it produced."""

    def __init__(self, client: Producer, topic: str, partitions: int) -> None:
        """Nothing is written yet."""
        self._client, self._topic = client, topic
        self._sums = [[0, 0, 0, 0, 0, 0] for _ in range(partitions)]
        self.sent = 0

    def up_to(self, count: int) -> None:
        """Write until so many are written."""
        for number in range(self.sent, count):
            partition = number % len(self._sums)
            key = b"%d" % number
            value = (key + b":").ljust(VALUE_BYTES, b"abcdefghijklmnopqrstuvwxyz"[number % 26 : number % 26 + 1])
            self._client.produce(self._topic, value, key, partition)
            seen = self._sums[partition]
            seen[0] += 1
            seen[2] += len(value)
            seen[3] += zlib.crc32(value)
            seen[4] += len(key)
            seen[5] += zlib.crc32(key)
        self.sent = max(self.sent, count)
        self._client.poll(0)

    def sums(self) -> Sums:
        """Of the partitions that have records."""
        return {partition: tuple(seen) for partition, seen in enumerate(self._sums) if seen[0]}


def main(bootstrap: str, topic: str, partitions: int, rate: int) -> None:
    """Write until standard input ends."""
    settings = {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "enable.idempotence": True,
        "linger.ms": 5,
        "queue.buffering.max.messages": 2_000_000,
        "log_level": 0,  # a broker that is still finding its feet says so in vain
    }
    client = Producer(settings)
    client.list_topics(topic, timeout=END_TIMEOUT_S)
    writer = Writer(client, topic, partitions)
    began = time.monotonic()
    while not select.select([STDIN], [], [], TICK_S)[0]:
        writer.up_to(int((time.monotonic() - began) * rate))
    left = client.flush(END_TIMEOUT_S)
    print(json.dumps(writer.sums()))
    sys.exit(1 if left else 0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
