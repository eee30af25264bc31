"""A task's requests to its agent as they are on the socket: a length, then JSON that begins with the run's token.

Of a request that doesn't begin with the token no more is read than that.  The rest has to come without a pause of
``REQUEST_S``, is bounded, and is checked to the last value: the server's other parts don't check it again.
"""

from __future__ import annotations

import hmac
import json
import socket
import struct
from typing import Final

from msgspec import structs

from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.calls import AgentRequest
from sparkcohort.runtime.shell.agent.task_frames import receive_exactly
from sparkcohort.runtime.text import printable

LARGEST: Final = 16 << 20
REQUEST_S: Final = 10.0
MOST_PATIENCE_S: Final = 3_600.0
MOST_WORDS: Final = 150
_LENGTH: Final = struct.Struct("!I")
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


def read_request(connection: socket.socket, token: str) -> AgentRequest | None:
    """The next request, awaited for the connection's time-out; None when the client has gone.  Raises InvalidRequest, OSError.

    The one after it is awaited for ever: a task asks whenever it gets there.
    """
    head = connection.recv(_LENGTH.size)
    if not head:
        return None
    connection.settimeout(REQUEST_S)
    try:
        (length,) = _LENGTH.unpack(head + receive_exactly(connection, _LENGTH.size - len(head)))
        beginning = receive_exactly(connection, min(length, len(_beginning(token))))
        if not hmac.compare_digest(beginning, _beginning(token)):
            raise InvalidRequest("it does not begin with this run's token")
        if length > LARGEST:
            raise InvalidRequest(f"{length} bytes, at most {LARGEST} are taken")
        body = beginning + receive_exactly(connection, length - len(beginning))
    except (TimeoutError, ConnectionResetError):
        raise InvalidRequest("half a request") from None
    connection.settimeout(None)
    return parse(bytes(body))


def parse(body: bytes) -> AgentRequest:
    """A request behind its token.  Raises InvalidRequest that says what is wrong with it."""
    try:
        request = calls.decode(body, AgentRequest)
    except calls.CallError as error:
        raise InvalidRequest(printable(str(error), MOST_WORDS)) from None
    if request.direct:
        if len({item.tp for item in request.ranges}) != len(request.ranges):
            raise InvalidRequest("several ranges of one partition")
    elif len(request.ranges) != len(request.planned_starts):
        raise InvalidRequest("ranges and planned starts of different number")
    for item in request.ranges:
        if not 0 <= item.partition <= _MOST_PARTITION:
            raise InvalidRequest(f"a partition is no number from 0 to {_MOST_PARTITION}")
        if not 0 <= item.start <= item.end:
            raise InvalidRequest("a range that ends before it starts, or starts below 0")
    patience_s = None if request.patience_s is None else min(request.patience_s, MOST_PATIENCE_S)
    return structs.replace(request, token="", patience_s=patience_s)
