"""A relay in front of a broker, that makes its answers slow: so many bytes a second, for all connections together.

Usage::

    relay = Relay("127.0.0.1", port_of_the_broker)      # clients are told relay.port: see Cluster(advertised=...)
    relay.rate(20_000)                                  # bytes a second; None: as fast as it goes
    relay.cut()                                         # in the middle of whatever is on its way
    relay.hold(); relay.release()                       # answers stay where they are, and connections are open
    relay.strand()                                      # nothing more comes by the connections that there are; new ones are carried
    relay.close()
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_PIECE = 4096
_CONNECT_S = 5.0


class Relay:
    """Listens on a port of its own until it is closed."""

    def __init__(self, host: str, target_port: int) -> None:
        """Listen; the target need not be there yet."""
        self._host, self._target_port = host, target_port
        self._rate: int | None = None
        self._free_at = 0.0
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._stranded: set[socket.socket] = set()
        self._delayed: set[socket.socket] = set()
        self._arriving = threading.Event()
        self.accepted = 0
        """Connections that were ever made to it."""
        self._closed = threading.Event()
        self._flowing = threading.Event()
        self._flowing.set()
        self._listener = socket.create_server((host, 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="relay", daemon=True).start()

    def rate(self, bytes_per_second: int | None) -> None:
        """How fast answers go from now on."""
        with self._lock:
            self._rate, self._free_at = bytes_per_second, time.monotonic()

    def cut(self) -> None:
        """End the connections that there are; new ones are carried."""
        with self._lock:
            for each in self._open:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def hold(self) -> None:
        """No answer comes through from now on, as if the way back were cut; new connections come about, and stay silent."""
        self._flowing.clear()

    def delay(self) -> None:
        """What is sent by the connections that there are arrives with ``release``, as TCP sends it again after a cut; new ones are carried."""
        with self._lock:
            self._arriving.clear()
            self._delayed |= self._open

    def release(self) -> None:
        """Let all pass again, what was held first."""
        self._flowing.set()
        self._arriving.set()

    def strand(self) -> None:
        """Nothing comes any more by the connections that there are, as if a cut had swallowed them; new ones are carried."""
        with self._lock:
            self._stranded |= self._open

    def close(self) -> None:
        """End all connections."""
        self._closed.set()
        self.release()
        # close() alone leaves an accept that is under way, and with it one more connection.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            try:
                broker = socket.create_connection((self._host, self._target_port), _CONNECT_S)
            except OSError:
                client.close()
                continue
            broker.settimeout(None)  # the limit of connecting is none of waiting: clients may be quiet for minutes
            with self._lock:
                self._open |= {client, broker}
            self._carry_both(client, broker)

    def _carry_both(self, client: socket.socket, broker: socket.socket) -> None:
        self._carry_in_thread(self._carry, client, broker, False)
        self._carry_in_thread(self._carry, broker, client, True)

    def _carry_in_thread(
        self, carry: Callable[..., None], source: socket.socket, sink: socket.socket, how: Any
    ) -> None:
        threading.Thread(target=self._until_closed, args=(carry, source, sink, how), name="relay", daemon=True).start()

    def _until_closed(self, carry: Callable[..., None], source: socket.socket, sink: socket.socket, how: Any) -> None:
        with suppress(OSError):
            carry(source, sink, how)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open.discard(source)
        source.close()

    def _carry(self, source: socket.socket, sink: socket.socket, slow: bool) -> None:
        while data := source.recv(_PIECE):
            if slow:
                self._flowing.wait()
                self._closed.wait(self._due_in(len(data)))
            if source in self._delayed:
                self._arriving.wait()
            if source in self._stranded:
                continue
            sink.sendall(data)

    def _due_in(self, size: int) -> float:
        """For how long this piece has to wait for those before it.

        Small answers pass: they are those of metadata and log ends, which a slow network delays little.
        """
        with self._lock:
            if self._rate is None or size < _PIECE // 4:
                return 0.0
            now = time.monotonic()
            self._free_at = max(self._free_at, now) + size / self._rate
            return self._free_at - now


class AnswerRelay(Relay, ABC):
    """Carries whole requests and answers of Kafka's protocol, and may change the answers to some requests."""

    @abstractmethod
    def is_watched(self, api: int, version: int) -> bool:
        """Whether the answer to such a request goes through ``changed_answer``; called for each request."""

    @abstractmethod
    def changed_answer(self, answer: bytes) -> bytes:
        """What the client gets in its place."""

    def _carry_both(self, client: socket.socket, broker: socket.socket) -> None:
        watched: set[int] = set()  # correlation ids
        self._carry_in_thread(self._requests, client, broker, watched)
        self._carry_in_thread(self._answers, broker, client, watched)

    def _requests(self, source: socket.socket, sink: socket.socket, watched: set[int]) -> None:
        with source.makefile("rb") as stream:
            while size := stream.read(4):
                request = stream.read(*struct.unpack(">i", size))
                api, version, number = struct.unpack_from(">hhi", request)
                if self.is_watched(api, version):
                    watched.add(number)
                sink.sendall(size + request)

    def _answers(self, source: socket.socket, sink: socket.socket, watched: set[int]) -> None:
        with source.makefile("rb") as stream:
            while size := stream.read(4):
                answer = stream.read(*struct.unpack(">i", size))
                (number,) = struct.unpack_from(">i", answer)
                if number in watched:
                    answer = self.changed_answer(answer)
                watched.discard(number)
                sink.sendall(struct.pack(">i", len(answer)) + answer)
