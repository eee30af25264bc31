"""The producer: writes every flight, the first part at once, the rest at a bounded rate in the background.

The last part is written slowly until it is told that the story needs no more time: on a slow machine, too, records are
to arrive as long as an executor is being replaced, or Spark would have no task for it.
It keeps its own books of what the broker acknowledged: the verdict is against these, not against what was read.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from tools.demo import flights

LINGER_S: Final = 0.02
RESERVE: Final = 60_000
SLOWLY: Final = 8
FLUSH_S: Final = 30.0

Books = dict[int, dict[int, int]]
"""Per partition: the checksum of the flight's columns at each offset."""


class FlightProducer:
    """Writes the flights; ``acknowledged`` are the books, final after ``join``."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, *, at_once: int, rate: int) -> None:
        self._topic, self._partitions = topic, partitions
        self._at_once, self._rate = at_once, rate
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "compression.type": "lz4",  # or a year of flights would not fit into the embedded broker
                "linger.ms": 20,
                "queue.buffering.max.messages": 1_000_000,
                "log_level": 0,
            }
        )
        self._events: Iterator[flights.Flight] = flights.events()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)
        self.acknowledged: Books = {partition: {} for partition in range(partitions)}
        self._released = threading.Event()
        self.error: str | None = None
        self.finished = False

    @property
    def count(self) -> int:
        """How many flights the broker has acknowledged."""
        return sum(map(len, self.acknowledged.values()))

    def fill(self) -> None:
        """Write the first part and wait until the broker has it."""
        self._write(self._at_once)
        self._producer.flush(FLUSH_S)

    def start(self) -> None:
        """Write the rest in the background."""
        self._thread.start()

    def release(self) -> None:
        """Write the last part as quickly as the rest."""
        self._released.set()

    def stop(self) -> None:
        """Write no more."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        last, due, written = time.monotonic(), 0.0, self._at_once
        while not self._stop.wait(LINGER_S):
            now = time.monotonic()
            slowly = written > flights.FLIGHTS - RESERVE and not self._released.is_set()
            due += (now - last) * self._rate / (SLOWLY if slowly else 1)
            last = now
            whole = int(due)
            sent = self._write(whole)
            if sent < whole:
                break
            written, due = written + sent, due - whole
        if self._producer.flush(FLUSH_S):
            self.error = self.error or "the embedded broker did not take all flights"
        self.finished = True

    def _write(self, count: int) -> int:
        """Write the next ``count`` flights; fewer when there are no more."""
        for sent in range(count):
            flight = next(self._events, None)
            if flight is None:
                return sent
            partition = zlib.crc32(flight.key) % self._partitions
            self._producer.produce(self._topic, flight.value, flight.key, partition, self._entry(flight.checksum))
            if not sent & 0x3FF:
                self._producer.poll(0)
        self._producer.poll(0)
        return count

    def _entry(self, checksum: int) -> Callable[[KafkaError | None, Message], None]:
        def enter(error: KafkaError | None, message: Message) -> None:
            partition, offset = message.partition(), message.offset()
            if error is not None or partition is None or offset is None:
                self.error = self.error or str(error)
            else:
                self.acknowledged[partition][offset] = checksum

        return enter
