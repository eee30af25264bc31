"""A relay in front of a broker that can leave all brokers out of its answers to Metadata, as one that isn't let in yet does.

Usage::

    guarded.brokerless.brokerless = True     # clients of guarded.at["BROKERLESS"] go through it, see ``shared_brokers``
    guarded.brokerless.cut()                 # and so ask for brokers now
"""

from __future__ import annotations

import socket
import struct

from sparkcohort.runtime.kafka.fetch_messages import METADATA
from tests.kit.relay import Relay

FLEXIBLE = 9
"""From this version of Metadata on lengths are varints; who asks by an older one is answered as the broker does."""


class BrokerlessRelay(Relay):
    """Carries whole requests and answers."""

    def __init__(self, host: str, target_port: int) -> None:
        """Listen; the target need not be there yet."""
        self.brokerless = False
        self.told = 0
        """Answers without a broker."""
        super().__init__(host, target_port)

    def _carry_both(self, client: socket.socket, broker: socket.socket) -> None:
        asked: set[int] = set()  # correlation ids of Metadata
        self._carry_in_thread(self._requests, client, broker, asked)
        self._carry_in_thread(self._answers, broker, client, asked)

    def _requests(self, source: socket.socket, sink: socket.socket, asked: set[int]) -> None:
        with source.makefile("rb") as stream:
            while size := stream.read(4):
                request = stream.read(*struct.unpack(">i", size))
                api, version, number = struct.unpack_from(">hhi", request)
                if api == METADATA and version >= FLEXIBLE:
                    asked.add(number)
                sink.sendall(size + request)

    def _answers(self, source: socket.socket, sink: socket.socket, asked: set[int]) -> None:
        with source.makefile("rb") as stream:
            while size := stream.read(4):
                answer = stream.read(*struct.unpack(">i", size))
                (number,) = struct.unpack_from(">i", answer)
                if number in asked and self.brokerless:
                    answer = _without_brokers(answer)
                    self.told += 1
                asked.discard(number)
                sink.sendall(struct.pack(">i", len(answer)) + answer)


def _without_brokers(answer: bytes) -> bytes:
    """An answer to Metadata, its list of brokers emptied: correlation id, tags, throttle time, brokers, and the rest."""
    start = 4 + 1 + 4
    count, at = _length(answer, start)
    for _ in range(count):
        size, at = _length(answer, at + 4)  # behind the node id: its host
        size, at = _length(answer, at + size + 4)  # behind the port: its rack
        at += max(size, 0) + 1  # no tags
    return answer[:start] + b"\1" + answer[at:]


def _length(data: bytes, at: int) -> tuple[int, int]:
    """A compact length, -1 for null, and where what has it begins; none here has two bytes' worth."""
    assert data[at] < 128
    return data[at] - 1, at + 1
