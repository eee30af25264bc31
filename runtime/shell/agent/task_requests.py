"""What a task asks its agent, as it is on the socket: a length, then JSON that begins with the run's token.

Whoever doesn't begin with it is a stranger, and of a stranger no more is taken in than that.  What comes behind it comes
within ``REQUEST_S``, is bounded, and is looked at to the last value: the server's other parts believe it.
"""

from __future__ import annotations

import hmac
import json
import math
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from sparkcohort.runtime.protocol.partitions import Range

RELAYED: Final = frozenset({"Claim", "Delivered"})
"""What an agent says to the coordinator for a task."""
LARGEST: Final = 16 << 20
REQUEST_S: Final = 10.0
MOST_PATIENCE_S: Final = 3_600.0
_LENGTH: Final = struct.Struct("!I")
_PIECE: Final = 64 << 10
_MOST_OFFSET, _MOST_PARTITION = (1 << 63) - 1, (1 << 31) - 1


class Nonsense(Exception):
    """What came is not a request."""


class Request(NamedTuple):
    """One request: ranges to serve, or something to say to the coordinator, or neither for the agent's description."""

    ranges: Sequence[Range] = ()
    floors: Sequence[int] = ()
    plan_seq: int = 0
    ids: Mapping[str, str] | None = None
    patience_s: float | None = None
    action: str = ""
    body: str = ""
    reply: bool = True


def written(request: Mapping[str, Any], token: str) -> bytes:
    """A request as it is sent."""
    body = json.dumps({"token": token, **request}).encode()
    return _LENGTH.pack(len(body)) + body


class RequestReader:
    """Reads the requests of one connection whose first is due at once, the others whenever the task gets there."""

    def __init__(self, connection: socket.socket, token: str) -> None:
        """Nothing is read yet."""
        self._connection = connection
        self._beginning = json.dumps({"token": token})[:-1].encode()
        self._first = True

    def next(self) -> Request | None:
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
            raise Nonsense("it does not begin with this run's token")
        if length > LARGEST:
            raise Nonsense(f"{length} bytes, at most {LARGEST} are taken")
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
                raise Nonsense(f"half a request for {REQUEST_S:g} s") from None
            if not piece:
                raise Nonsense("half a request")
            data += piece
        return bytes(data)


def parse(body: bytes) -> Request:
    """A request behind its token.  Raises Nonsense that says what is wrong with it."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        raise Nonsense("no JSON") from None
    if not isinstance(said, dict):
        raise Nonsense("no JSON object")
    said.pop("token", None)
    if unknown := said.keys() - set(Request._fields):
        raise Nonsense(f"unknown words: {', '.join(sorted(unknown))!r:.100}")
    ranges, floors = _list(said, "ranges"), _list(said, "floors")
    if len(ranges) != len(floors):
        raise Nonsense("ranges and floors of different number")
    request = Request(
        ranges=[_range(item) for item in ranges],
        floors=[_number(floor, "a floor", _MOST_OFFSET) for floor in floors],
        plan_seq=_number(said.get("plan_seq", 0), "plan_seq", _MOST_OFFSET),
        ids=_ids(said.get("ids")),
        patience_s=_patience(said.get("patience_s")),
        action=_text(said.get("action", ""), "action"),
        body=_text(said.get("body", ""), "body"),
        reply=said.get("reply", True) is True,
    )
    if request.action and request.action not in RELAYED:
        raise Nonsense("nothing that is relayed")
    return request


def _list(said: Mapping[str, Any], name: str) -> list[Any]:
    found = said.get(name, [])
    if not isinstance(found, list):
        raise Nonsense(f"{name}: no list")
    return found


def _range(item: Any) -> Range:
    if not isinstance(item, list) or len(item) != len(Range._fields):
        raise Nonsense("a range is topic, partition, start and end")
    topic, partition, start, end = item
    if _number(start, "a start", _MOST_OFFSET) > _number(end, "an end", _MOST_OFFSET):
        raise Nonsense("a range that ends before it starts")
    return Range(_text(topic, "a topic"), _number(partition, "a partition", _MOST_PARTITION), start, end)


def _ids(value: Any) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise Nonsense("ids: no object")
    return {_text(topic, "a topic"): _text(found, "an id") for topic, found in value.items()}


def _number(value: Any, what: str, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise Nonsense(f"{what} is no number from 0 to {most}")
    return value


def _patience(value: Any) -> float | None:
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 <= value < math.inf:
        raise Nonsense("patience_s is no number of seconds")
    return float(min(value, MOST_PATIENCE_S))


def _text(value: Any, what: str) -> str:
    try:
        if isinstance(value, str) and value.encode() is not None:
            return value
    except UnicodeEncodeError:  # half a surrogate pair: JSON has it, UTF-8 doesn't
        pass
    raise Nonsense(f"{what} is no text")
