"""Between the tasks of an executor and its agent: ranges in, Arrow out, over an abstract unix socket.

An abstract name needs no file and is free again the moment its holder is gone, so binding it is the agent's lock, too.
Anybody on the host could connect, or bind the name first: both sides compare the peer's user id (SO_PEERCRED), and the
server wants the run's token.

One request at a time per connection: JSON, answered by frames (kind, offset, length, body).  A client that hears
nothing for its time-out, or finds the agent gone, says where it stands and never asks this agent again.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from sparkcohort.runtime.protocol import Range
from sparkcohort.runtime.shell.prefetch import Miss

_log = logging.getLogger("sparkcohort.local")

_FRAME = struct.Struct("!BqQ")  # kind, next offset, length of the body
_SCHEMA, _BATCH, _SKIP, _END, _MISS, _INFO, _ERROR = range(1, 8)
_LENGTH = struct.Struct("!I")
_REQUEST_LIMIT = 64 << 10
_DELIVERED = b"\x01"
_PEER = struct.Struct("3i")  # struct ucred: pid, uid, gid


class AgentTimeout(Exception):
    """The agent fell silent, or is gone; everything before ``next_offset`` has been handed out."""

    def __init__(self, next_offset: int, reason: str) -> None:
        super().__init__(f"{reason} at offset {next_offset}")
        self.next_offset = next_offset
        self.reason = reason


class AlreadyRunning(OSError):
    """Another process holds the socket's name."""


class _Nonsense(Exception):
    """What came is not a request."""


class _Request(NamedTuple):
    """One request: a range to serve, or None for the agent's description."""

    token: str
    wanted: Range | None = None
    floor: int = 0
    plan_seq: int = 0
    patience_s: float | None = None


class Source(Protocol):
    """What the server serves from; see ``prefetch.Prefetcher``."""

    def serve(
        self, wanted: Range, floor: int, plan_seq: int, patience_s: float | None = None
    ) -> Iterator[tuple[int, pa.RecordBatch | None]]:
        """Yield (next offset, batch or None) up to the range's end; raises Miss."""


class LocalServer:
    """Serves ranges and the agent's description to this user's processes that know the token; a thread per connection.

    ``on_served`` is called once per range that a client has read to its end and acknowledged.
    """

    def __init__(
        self,
        name: str,
        token: str,
        prefetcher: Source,
        info: Callable[[], Mapping[str, Any]],
        on_served: Callable[[Range], None],
    ) -> None:
        """Nothing is bound before ``start``."""
        self._name = name
        self._token = token
        self._prefetcher = prefetcher
        self._info = info
        self._on_served = on_served
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._acceptor = threading.Thread(target=self._accept, name="cohort-local", daemon=True)
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()

    def start(self) -> None:
        """Bind and accept; raises AlreadyRunning when the name is taken."""
        try:
            self._listener.bind(_address(self._name))
        except OSError as error:
            self._listener.close()
            raise AlreadyRunning(error.errno, f"the agent's socket {self._name!r} is taken") from error
        self._listener.listen(128)
        self._acceptor.start()

    def close(self) -> None:
        """Give the name back and end all connections."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self._listener.close()
        if self._acceptor.is_alive():
            self._acceptor.join()  # the name is free when accept() has let go of it
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if _peer_uid(connection) != os.getuid():
                connection.close()
                continue
            with self._lock:
                self._connections.add(connection)
            threading.Thread(target=self._converse, args=(connection,), name="cohort-local", daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        """Answer one connection's requests until it ends."""
        try:
            with closing(connection):
                while (request := _read_request(connection)) is not None:
                    if not hmac.compare_digest(request.token.encode(), self._token.encode()):
                        return  # a stranger learns nothing, not even that the token was wrong
                    self._answer(connection, request)
        except (OSError, _Nonsense) as error:
            _log.debug("local connection ended: %s", error)
        except Exception:  # noqa: BLE001 - one connection's misfortune, whatever it is, is not the others'
            _log.exception("local connection ended")
        finally:
            with self._lock:
                self._connections.discard(connection)

    def _answer(self, connection: socket.socket, request: _Request) -> None:
        if request.wanted is None:
            _send(connection, _INFO, 0, json.dumps(dict(self._info())).encode())
            return
        try:
            self._stream(connection, request.wanted, request)
        except Miss as miss:
            _send(connection, _MISS, miss.next_offset, miss.reason.encode())
            return
        if connection.recv(1) == _DELIVERED:
            try:
                self._on_served(request.wanted)
            except Exception:  # noqa: BLE001 - the rows are delivered, whatever comes of telling so
                _log.exception("after serving %s", request.wanted)

    def _stream(self, connection: socket.socket, wanted: Range, request: _Request) -> None:
        announced = False
        pieces = self._prefetcher.serve(wanted, request.floor, request.plan_seq, request.patience_s)
        for next_offset, batch in pieces:
            if batch is None:
                _send(connection, _SKIP, next_offset)
                continue
            if not announced:
                _send(connection, _SCHEMA, next_offset, batch.schema.serialize())
                announced = True
            _send(connection, _BATCH, next_offset, batch.serialize())
        _send(connection, _END, wanted.end)


class LocalClient:
    """Asks one agent; for one thread at a time.

    After an AgentTimeout it asks no more: only one range waits in vain, the others raise it at once.
    """

    def __init__(self, name: str, token: str, timeout_s: float) -> None:
        """``timeout_s`` bounds silence (agent.timeout.ms); nothing is connected yet."""
        self._name = name
        self._token = token
        self._timeout_s = timeout_s
        self._connection: socket.socket | None = None
        self._lost = ""

    def hello(self) -> dict[str, Any]:
        """The agent's description: member id, generation, pid; raises AgentTimeout."""
        try:
            connection = self._ask({})
            _, _, body = _receive(connection)
        except OSError as error:
            raise self._silent(0, error) from error
        described: dict[str, Any] = json.loads(bytes(body))
        return described

    def read(self, wanted: Range, floor: int, plan_seq: int) -> Iterator[tuple[int, pa.RecordBatch | None]]:
        """Yield (next offset, batch or None) up to the range's end, then acknowledge; raises Miss or AgentTimeout."""
        at, finished = wanted.start, False
        request = {
            "wanted": wanted,
            "floor": floor,
            "plan_seq": plan_seq,
            "patience_s": self._timeout_s / 2,
        }
        schema: pa.Schema | None = None
        try:
            connection = self._ask(request)
            while True:
                kind, offset, body = _receive(connection)
                if kind == _SCHEMA:
                    schema = pa.ipc.read_schema(pa.py_buffer(body))
                elif kind == _MISS:
                    finished = True
                    raise Miss(at, bytes(body).decode())
                elif kind == _END:
                    connection.sendall(_DELIVERED)
                    finished = True
                    return
                else:
                    batch = pa.ipc.read_record_batch(pa.py_buffer(body), schema) if kind == _BATCH else None
                    at = offset
                    yield offset, batch
        except OSError as error:
            raise self._silent(at, error) from error
        finally:
            if not finished:  # whatever else is on its way belongs to nobody
                self.close()

    def close(self) -> None:
        """End the connection; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, request: Mapping[str, Any]) -> socket.socket:
        if self._lost:
            raise OSError(self._lost)
        if self._connection is None:
            self._connection = self._connect()
        body = json.dumps({**request, "token": self._token}).encode()
        self._connection.sendall(_LENGTH.pack(len(body)) + body)
        return self._connection

    def _connect(self) -> socket.socket:
        with ExitStack() as undo:
            connection = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            connection.settimeout(self._timeout_s)
            connection.connect(_address(self._name))
            if _peer_uid(connection) != os.getuid():
                raise PermissionError("the agent's socket belongs to another user")
            undo.pop_all()
        return connection

    def _silent(self, at: int, error: OSError) -> AgentTimeout:
        self.close()
        silence = f"no answer from the agent within {self._timeout_s} s (agent.timeout.ms)"
        self._lost = silence if isinstance(error, TimeoutError) else f"the agent is gone ({error})"
        return AgentTimeout(at, self._lost)


def _address(name: str) -> bytes:
    return b"\0" + name.encode()


def _peer_uid(connection: socket.socket) -> int:
    """The user id of the process at the other end, as the kernel knows it."""
    uid: int = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[1]
    return uid


def _read_request(connection: socket.socket) -> _Request | None:
    """The next request; None when the client has gone.  Raises _Nonsense."""
    head = connection.recv(_LENGTH.size, socket.MSG_WAITALL)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > _REQUEST_LIMIT:
        raise _Nonsense(f"a request of {length} bytes")
    try:
        said = json.loads(bytes(_receive_exactly(connection, length)))
        wanted = None if said.get("wanted") is None else Range(*said["wanted"])
        return _Request(**{**said, "wanted": wanted})
    except (ValueError, TypeError, AttributeError) as error:
        raise _Nonsense("a request that can't be read") from error


def _send(connection: socket.socket, kind: int, offset: int, body: bytes | pa.Buffer = b"") -> None:
    view = memoryview(body)
    connection.sendall(_FRAME.pack(kind, offset, view.nbytes))
    if view.nbytes:
        connection.sendall(view)


def _receive(connection: socket.socket) -> tuple[int, int, bytearray]:
    kind, offset, length = _FRAME.unpack(_receive_exactly(connection, _FRAME.size))
    return kind, offset, _receive_exactly(connection, length)


def _receive_exactly(connection: socket.socket, length: int) -> bytearray:
    """Read ``length`` bytes; raises TimeoutError when none come in time, ConnectionError when the other end is gone."""
    data = bytearray(length)
    view, at = memoryview(data), 0
    while at < length:
        n = connection.recv_into(view[at:])
        if n == 0:
            raise ConnectionResetError("connection closed")
        at += n
    return data
