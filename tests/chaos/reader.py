"""A ``read_committed`` reader of the topic that the query writes: up to where it may read, and what is written behind that."""

from __future__ import annotations

import json
import threading
import time
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.chaos.judge import Sight

EVERY_S: Final = 0.5


class Reader:
    """Kafka's own consumer in a thread, from ``start`` to ``close``; what it sees comes from librdkafka's statistics."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.sights: list[Sight] = []
        self._topic, self._partitions = topic, partitions
        self._client = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "committed-reader",
                "enable.auto.commit": "false",
                "isolation.level": "read_committed",
                "reconnect.backoff.max.ms": "500",
                "fetch.wait.max.ms": "200",
                "fetch.queue.backoff.ms": "10",
                "statistics.interval.ms": str(int(EVERY_S * 1000)),
                "stats_cb": self._see,
                "log_level": "0",
            }
        )
        self._client.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaos-reader", daemon=True)

    def start(self) -> None:
        """Read from now on."""
        self._thread.start()

    def close(self) -> None:
        """Read no more."""
        self._closed.set()
        self._thread.join(60)
        self._client.close()

    def _run(self) -> None:
        while not self._closed.is_set():
            self._client.consume(2000, EVERY_S)  # errors too: of a broker that is away

    def _see(self, statistics: str) -> None:
        known = json.loads(statistics)["topics"].get(self._topic, {}).get("partitions", {})
        seen = [known.get(str(number), {}) for number in range(self._partitions)]
        ends, stable = (tuple(each.get(name, -1) for each in seen) for name in ("hi_offset", "ls_offset"))
        if min(*ends, *stable) >= 0:
            self.sights.append(Sight(time.monotonic(), ends, stable))
