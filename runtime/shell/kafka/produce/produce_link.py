"""One broker as a producer sees it: its connection, and the Produce requests that are under way."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from sparkcohort.runtime.kafka.fetch_messages import PRODUCE, Node
from sparkcohort.runtime.kafka.produce_messages import (
    PRODUCE_VERSIONS,
    Buffer,
    ProduceAnswer,
    produce_answer,
    produce_request,
)
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.fetch.broker import FIRST_BUFFER, MOST_THROTTLE_S, BrokerLink, FrameReader
from sparkcohort.runtime.shell.options.connection_settings import TransportError
from sparkcohort.runtime.shell.options.producer_settings import ProducerSettings


class ProduceLink(BrokerLink):
    """See the module; times are the producer's clock's, but for those of the login."""

    def __init__(self, node_id: int, node: Node, largest: int) -> None:
        """Not connected; ``largest``: bytes of an answer."""
        super().__init__(node, FrameReader(largest, FIRST_BUFFER))
        self.node_id = node_id
        self.connecting = False
        self.error: Exception | None = None  # of the last connection
        self.in_flight: dict[int, tuple[float, int, list[TopicPartition]]] = {}  # sent when, in which version
        self._ids = itertools.count(1)

    def send_batches(
        self,
        batches: Mapping[TopicPartition, Buffer],
        client_id: str,
        settings: ProducerSettings,
        now: float,
        transactional_id: str = "",
    ) -> None:
        """Ask the broker to write a batch for each partition.  Raises TransportError."""
        if self.transport is None:
            raise TransportError("not connected")
        least, most = self.transport.versions.get(PRODUCE, (0, -1))
        version = next(each for each in PRODUCE_VERSIONS[PRODUCE] if least <= each <= most)
        number = next(self._ids) & 0x7FFFFFFF
        self.in_flight[number] = now, version, list(batches)
        timeout_ms = int(settings.request_s * 1000)
        pieces = produce_request(version, number, client_id, settings.acks, timeout_ms, batches, transactional_id)
        self.transport.send(*pieces)
        self.flushed = self.transport.flush()

    def receive_answer(self, now: float) -> tuple[list[TopicPartition], ProduceAnswer] | None:
        """The next answer that is there whole, with the partitions of its request.  Raises TransportError, MalformedResponse."""
        if self.transport is None:
            return None
        self.flushed = self.transport.flush()
        frame = self.frames.read(self.transport)
        self.transport.expect(0)
        if frame is None:
            return None
        number = int.from_bytes(frame[:4])
        if number not in self.in_flight:
            raise TransportError("an answer to no request")
        _, version, partitions = self.in_flight[number]
        answer = produce_answer(frame, number, version)
        del self.in_flight[number]  # not before: after an answer that can't be read the batches are sent again
        self.failures, self.error = 0, None
        self.not_before = max(self.not_before, now + min(max(answer.throttle_ms / 1000, 0.0), MOST_THROTTLE_S))
        return partitions, answer

    def is_late(self, now: float, limit_s: float) -> bool:
        """Whether the oldest request has waited for too long."""
        return any(now - sent_at >= limit_s for sent_at, _, _ in itertools.islice(self.in_flight.values(), 1))

    def take_in_flight(self) -> list[TopicPartition]:
        """The partitions of all requests, which are no longer under way."""
        requests, self.in_flight = self.in_flight, {}
        return [tp for _, _, partitions in requests.values() for tp in partitions]
