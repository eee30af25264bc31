"""A relay in front of a real broker that says that it speaks older versions of some requests, as a broker without topic ids does.

Usage::

    relay = OlderRelay("127.0.0.1", port_of_the_broker)    # clients are told relay.port, see Cluster(doors=...)
    relay.most[FETCH] = 12                                  # from the next connection on
    relay.versions                                          # of each request that came through, by its api key

The broker's own classes read and answer the older versions; nothing but ApiVersions is changed.
"""

from __future__ import annotations

import socket
import struct
from collections import defaultdict

from tests.kit.relay import Relay

API_VERSIONS = 18


class OlderRelay(Relay):
    """Carries whole requests and answers."""

    def __init__(self, host: str, target_port: int) -> None:
        """Listen; the target need not be there yet."""
        self.most: dict[int, int] = {}
        self.versions: dict[int, set[int]] = defaultdict(set)
        super().__init__(host, target_port)

    def _carry_both(self, client: socket.socket, broker: socket.socket) -> None:
        asked: set[int] = set()  # correlation ids of ApiVersions
        self._carry_in_thread(self._requests, client, broker, asked)
        self._carry_in_thread(self._answers, broker, client, asked)

    def _requests(self, source: socket.socket, sink: socket.socket, asked: set[int]) -> None:
        with source.makefile("rb") as stream:
            while size := stream.read(4):
                request = stream.read(*struct.unpack(">i", size))
                api, version, number = struct.unpack_from(">hhi", request)
                self.versions[api].add(version)
                if api == API_VERSIONS:
                    asked.add(number)
                sink.sendall(size + request)

    def _answers(self, source: socket.socket, sink: socket.socket, asked: set[int]) -> None:
        with source.makefile("rb") as stream:
            while size := stream.read(4):
                answer = stream.read(*struct.unpack(">i", size))
                (number,) = struct.unpack_from(">i", answer)
                if number in asked:
                    answer = self._older(bytearray(answer))
                asked.discard(number)
                sink.sendall(size + answer)

    def _older(self, answer: bytearray) -> bytes:
        """ApiVersions v3: correlation id, error, a compact array of (key, least, most, tags)."""
        count = answer[6] - 1
        assert 0 < count < 127
        for index in range(count):
            at = 7 + 7 * index
            api, least, most = struct.unpack_from(">hhh", answer, at)
            struct.pack_into(">h", answer, at + 4, max(least, min(most, self.most.get(api, most))))
        return bytes(answer)
