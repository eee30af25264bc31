"""One broker as a client sees it: its connection, and for a fetching one its fetch session and the one request that is under way.

A response is received into one buffer, used again for the next: the caller has to be done with an answer before it asks for another.
"""

from __future__ import annotations

import itertools
import select
import struct
from typing import TypeAlias

from sparkcohort.runtime.kafka.fetch_messages import (
    FETCH,
    FETCH_BY_NAMES,
    FETCH_VERSION,
    Key,
    Node,
    best_version,
    framed,
)
from sparkcohort.runtime.kafka.fetch_session import FetchSession
from sparkcohort.runtime.shell.kafka.fetch.assigned_partition import Partition
from sparkcohort.runtime.shell.kafka.fetch.backoff import backoff
from sparkcohort.runtime.shell.kafka.fetch.connection import Transport
from sparkcohort.runtime.shell.options.connection_settings import TransportError

Fetched: TypeAlias = tuple[Partition, int]
_LENGTH = struct.Struct(">i")
FIRST_BUFFER = 64 << 10
RENEWAL_S = 0.5  # so long before its login ends another connection is made
HIDDEN_S = 1.0  # so long what has come of an answer may lie unread, to be read with more: then it is heard
LEAST_WAIT_S, MOST_WAIT_S = 0.02, 0.1  # between two requests of which the first has brought nothing
MOST_THROTTLE_S = 60.0  # Kafka's quotas come to seconds; a wrong number is not to silence a broker for weeks


class FrameReader:
    """Whole answers out of a stream of bytes, each in the same buffer as the one before."""

    def __init__(self, largest: int, usual: int) -> None:
        """``largest``: bytes that an answer may have; ``usual``: bytes above which its buffer isn't kept."""
        self._largest, self._usual = largest, usual
        self._buffer = bytearray()
        self._filled = self._size = 0

    def read(self, transport: Transport) -> memoryview | None:
        """Take what is there; a whole answer without its length, or None.  Raises TransportError."""
        if not self._filled and not 0 < len(self._buffer) <= 2 * self._usual:
            self._buffer = bytearray(FIRST_BUFFER)
        while received := transport.recv_into(memoryview(self._buffer)[self._filled : self._size or _LENGTH.size]):
            self._filled += received
            if not self._size and self._filled == _LENGTH.size:
                self._begin()
            elif self._filled == self._size:
                answer = memoryview(self._buffer)[_LENGTH.size : self._size]
                transport.expect(0)
                self.clear()
                return answer
        transport.expect(self._size - self._filled)
        return None

    @property
    def filled(self) -> int:
        """How many bytes there are of an answer that isn't whole."""
        return self._filled

    def clear(self) -> None:
        """What was half read is void."""
        self._filled = self._size = 0

    def _begin(self) -> None:
        (length,) = _LENGTH.unpack_from(self._buffer)
        if not 0 < length <= self._largest:
            raise TransportError(f"an answer of {length} bytes; receive.message.max.bytes allows {self._largest}")
        self._size = length + _LENGTH.size
        if self._size > len(self._buffer):
            try:
                larger = bytearray(max(self._size, min(2 * self._size, self._usual)))
            except MemoryError:
                raise TransportError(f"no memory for an answer of {length} bytes") from None
            larger[: self._filled] = self._buffer[: self._filled]
            self._buffer = larger


class BrokerLink:
    """The way to one broker: its connection, if there is one, and until when the broker is left alone."""

    def __init__(self, node: Node, frames: FrameReader) -> None:
        """Not connected."""
        self.node, self.frames = node, frames
        self.transport: Transport | None = None
        self.failures = 0
        self.not_before = 0.0  # the clock's; a broker that throttles, or can't be reached, is left alone
        self.flushed, self.heard_at = True, 0.0
        self._renew_at = float("inf")

    def connected(self, transport: Transport, now: float) -> None:
        """The broker has let us in, maybe for a time."""
        self.transport = transport
        left_s = transport.session_ends - now
        self._renew_at = transport.session_ends - min(RENEWAL_S, left_s / 2)

    def renew(self, now: float) -> bool:
        """End a connection whose login ends soon, so that another is made; returns whether it did."""
        if self.transport is None or now < self._renew_at:
            return False
        self.disconnect()
        return True

    def lose(self, error: Exception, now: float) -> None:
        """Record that connecting failed, or the connection did; each further attempt comes later."""
        self.disconnect()
        self.failures += 1
        self.not_before = now + backoff(self.failures, error)

    def disconnect(self) -> None:
        """Close the connection, and forget what depended on it."""
        if self.transport is not None:
            self.transport.close()
        self.transport = None
        self.frames.clear()


class FetchLink(BrokerLink):
    """See the module; ``pending`` are the partitions of the request under way, each with the offset that was asked for."""

    def __init__(self, node_id: int, node: Node, client_id: str, frames: FrameReader) -> None:
        """Not connected."""
        super().__init__(node, frames)
        self.node_id = node_id
        self.session = FetchSession()
        self.version = FETCH_VERSION  # of the requests of the session, and of the answer that is under way
        self.connecting = False
        self.down = False  # its connection has failed, and no answer has come since
        self._asked_at = 0.0
        self.pending: dict[Key, Fetched] | None = None
        self.base: dict[Key, Fetched] = {}  # the last request, and the next but for those ...
        self.advanced: dict[Key, Fetched] = {}  # ... whose positions moved with the answer
        self.has_more = False  # the broker, than was in its last answer
        self.max_bytes = 0  # of an answer
        self.correlation_id = 0
        self._client_id = client_id
        self._ids = itertools.count(1)

    def agree_on_version(self, *, by_names: bool) -> None:
        """Which version the next request has: a session is by ids or by names, so another begins where that changes (KIP-516)."""
        spoken = self.transport.versions if self.transport is not None else {}
        best = best_version(FETCH, spoken) or FETCH_VERSION
        version = min(best, FETCH_BY_NAMES) if by_names else best
        if version != self.version:
            self.version = version
            self.session.reset()

    def lose(self, error: Exception, now: float) -> None:
        """See ``BrokerLink``."""
        super().lose(error, now)
        self.down = True

    def record_answer(self, throttle_ms: int, error: int, now: float) -> dict[Key, Fetched]:
        """Record that a whole answer has come; returns the partitions of its request."""
        pending, self.pending, self.has_more = self.pending or {}, None, False
        self.failures, self.down = self.failures + 1 if error else 0, False
        self.not_before = now + min(max(throttle_ms / 1000, backoff(self.failures) if error else 0.0), MOST_THROTTLE_S)
        return pending

    def keep_pace(self, max_wait_s: float) -> None:
        """Wait as the broker should have, where it answered at once without data: else this would ask in a tight loop."""
        pace_s = min(max(max_wait_s, LEAST_WAIT_S), MOST_WAIT_S)
        self.not_before = max(self.not_before, self._asked_at + pace_s)

    def send(self, body: bytes, pending: dict[Key, Fetched], now: float) -> None:
        """Ask for records; raises TransportError."""
        if self.transport is None:
            raise TransportError("not connected")
        self.correlation_id = next(self._ids) & 0x7FFFFFFF
        self.pending = self.base = pending
        self.advanced, self.heard_at, self._asked_at = {}, now, now
        self.transport.send(framed(FETCH, self.version, self.correlation_id, self._client_id, body))
        self.flushed = self.transport.flush()

    def readable(self) -> bool:
        """Whether there is something to take, if only the connection's end."""
        poller = select.poll()
        if self.transport is not None:
            self.transport.expect(0)  # else a few bytes would not show
            poller.register(self.transport, select.POLLIN)
        return bool(poller.poll(0))

    def receive(self, now: float) -> memoryview | None:
        """Take what has come, once a selector has told of it; a whole answer, or None.  Raises TransportError."""
        if self.transport is None:
            return None
        self.flushed = self.transport.flush()
        old_size = self.frames.filled
        answer = self.frames.read(self.transport)
        if answer is None or old_size:  # a part of a record of TLS fills nothing yet
            self.heard_at = now
        if answer is not None and self.pending is None:
            raise TransportError("an answer to no request")
        return answer

    def rest_s(self, now: float, pace_s: float) -> float:
        """For how long it is to be left alone: as it asks for, and ``pace_s`` after an answer with all that it had."""
        return max(self.not_before - now, 0.0 if self.has_more else self.heard_at + pace_s - now, 0.0)

    def disconnect(self) -> None:
        """See ``BrokerLink``."""
        super().disconnect()
        self.pending = None
        self.session.drop_session()
