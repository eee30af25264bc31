"""A task's requests to its agent as they are on the socket: a length, then JSON that begins with the run's token.

Of a request that doesn't begin with the token no more is read than that.  The rest has to come within ``REQUEST_S``, is
bounded, and is checked to the last value: the server's other parts don't check it again.
"""

from __future__ import annotations

import hmac
import json
import socket
import struct
import time
from typing import Final

from msgspec import structs

from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.calls import AgentRequest
from sparkcohort.runtime.text import printable

LARGEST: Final = 16 << 20
REQUEST_S: Final = 10.0
MOST_PATIENCE_S: Final = 3_600.0
MOST_WORDS: Final = 150
_LENGTH: Final = struct.Struct("!I")
_PIECE: Final = 64 << 10
_MOST_PARTITION: Final = (1 << 31) - 1


class InvalidRequest(Exception):
    """The bytes are no request; the message says why."""


def encode_request(request: AgentRequest, token: str) -> bytes:
    """A request as it is sent."""
    fields = calls.encode(request)[1:]
    body = _beginning(token) + (b", " if fields != b"}" else b"") + fields
    return _LENGTH.pack(len(body)) + body


def _beginning(token: str) -> bytes:
    return json.dumps({"token": token})[:-1].encode()


class RequestReader:
    """Reads the requests of one connection whose first is due at once, the others whenever the task gets there."""

    def __init__(self, connection: socket.socket, token: str) -> None:
        """Nothing is read yet."""
        self._connection = connection
        self._beginning = _beginning(token)
        self._first = True

    def next(self) -> AgentRequest | None:
        """The next request; None when the client has gone.  Raises Nonsense, OSError."""
        self._connection.settimeout(REQUEST_S if self._first else None)
        head = self._connection.recv(_LENGTH.size)
        if not head:
            return None
        self._first = False
        deadline = time.monotonic() + REQUEST_S
        (length,) = _LENGTH.unpack(head + self._read(_LENGTH.size - len(head), deadline))
        beginning = self._read(min(length, len(self._beginning)), deadline)
        if not hmac.compare_digest(beginning, self._beginning):
            raise InvalidRequest("it does not begin with this run's token")
        if length > LARGEST:
            raise InvalidRequest(f"{length} bytes, at most {LARGEST} are taken")
        body = beginning + self._read(length - len(beginning), deadline)
        self._connection.settimeout(None)
        return parse(body)

    def _read(self, length: int, deadline: float) -> bytes:
        """So many bytes; memory is taken as they come, not as they are promised."""
        data = bytearray()
        while len(data) < length:
            self._connection.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                piece = self._connection.recv(min(length - len(data), _PIECE))
            except TimeoutError:
                raise InvalidRequest(f"half a request for {REQUEST_S:g} s") from None
            if not piece:
                raise InvalidRequest("half a request")
            data += piece
        return bytes(data)


def parse(body: bytes) -> AgentRequest:
    """A request behind its token.  Raises Nonsense that says what is wrong with it."""
    try:
        request = calls.decode(body, AgentRequest)
    except calls.CallError as error:
        raise InvalidRequest(printable(str(error), MOST_WORDS)) from None
    if len(request.ranges) != len(request.planned_starts):
        raise InvalidRequest("ranges and planned starts of different number")
    for item in request.ranges:
        if not 0 <= item.partition <= _MOST_PARTITION:
            raise InvalidRequest(f"a partition is no number from 0 to {_MOST_PARTITION}")
        if not 0 <= item.start <= item.end:
            raise InvalidRequest("a range that ends before it starts, or starts below 0")
    patience_s = None if request.patience_s is None else min(request.patience_s, MOST_PATIENCE_S)
    return structs.replace(request, token="", patience_s=patience_s)
