"""Between the tasks of an executor and its agent: ranges in, Arrow out, over an abstract unix socket.

An abstract name needs no file and is free again the moment its holder is gone, so binding it is the agent's lock, too.
Anybody on the host could connect, or bind the name first: both sides compare the peer's user id (SO_PEERCRED), and the
server wants the run's token.

One request at a time per connection: JSON, answered by frames (kind, length, body).  A request names all ranges that a
task wants of this agent: a round trip for each of 300 partitions would cost more than their rows.  The answer goes in
steps: where which ranges stand, then the rows that brought them there, if any: in shared memory (``shared_memory``), or, small
ones, in the frame.  The client answers a step that has rows when it asks for the next one, with the slabs that it has
done with; the server is at most ``AHEAD`` such steps ahead.  A client that hears nothing for its time-out, or finds the
agent gone, never asks this agent again.

What a task has to say to the coordinator goes by its agent, too, which has a connection open: one of the task's own costs
more than reading a small slot does.  Behind the answer to a claim come the rows of what was claimed, without being asked
for, if the agent has them.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
from msgspec import structs

from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.calls import AgentRequest
from sparkcohort.runtime.protocol.partitions import Range
from sparkcohort.runtime.shell.agent.prefetch import Served
from sparkcohort.runtime.shell.agent.shared_memory import BufferConsumer, BufferProducer, Lent, SlabPool
from sparkcohort.runtime.shell.agent.task_requests import Nonsense, RequestReader, written
from sparkcohort.runtime.shell.rpc.acceptor import Acceptor

_log = logging.getLogger("sparkcohort.local")

_FRAME = struct.Struct("!BQ")  # kind, length of the body
_STEP, _BATCH, _LENT, _END, _INFO = range(1, 6)
_SLAB = struct.Struct("!BQQ?")  # number, size, bytes used, whether its descriptor comes along; the step follows
AHEAD = 2
RELAY_S = 5.0
TOLD_S = 60.0
_TOGETHER = 64 << 10
_DELIVERED = b"\x01"
_PEER = struct.Struct("3i")  # struct ucred: pid, uid, gid


class AgentTimeout(Exception):
    """The agent fell silent, or is gone; every step that came whole has been handed out."""


class AlreadyRunning(OSError):
    """Another process holds the socket's name."""


class Source(Protocol):
    """What the server serves from; see ``prefetch.Prefetcher``."""

    def serve(
        self,
        ranges: Sequence[Range],
        floors: Sequence[int],
        plan_seq: int,
        patience_s: float | None = None,
        ids: Mapping[str, str] | None = None,
    ) -> Iterator[Served]:
        """Yield steps until every range is at its end or missed."""


Relay: TypeAlias = Callable[[str, bytes, float], bytes]
"""Says something to the coordinator: (action, body, time-out in s) to its answer.  Raises OSError."""


def _to_nobody(action: str, _body: bytes, _timeout_s: float) -> bytes:
    raise ConnectionError(f"nobody to say {action} to")


class TaskServer:
    """Serves ranges and the agent's description to this user's processes that know the token; a thread per connection.

    ``on_served`` is called with those ranges of a request that a client has read to their ends, once it has said so;
    ``relay`` with what a client has to say to the coordinator.
    """

    def __init__(
        self,
        name: str,
        token: str,
        prefetcher: Source,
        info: Callable[[], Mapping[str, Any]],
        on_served: Callable[[Sequence[Range]], None],
        relay: Relay = _to_nobody,
    ) -> None:
        """Nothing is bound before ``start``."""
        self._name = name
        self._token = token
        self._prefetcher = prefetcher
        self._info = info
        self._on_served = on_served
        self._relay = relay
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._acceptor = Acceptor(self._listener, _is_ours, self._converse)
        self._connections: set[socket.socket] = set()
        self._closed = False
        self._refused, self._told_at = 0, float("-inf")
        self._pool = SlabPool()
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

    def deaf(self) -> str:
        """Why nobody could be served for some seconds; "" if all is well."""
        return self._acceptor.deaf()

    def close(self) -> None:
        """Give the name back and end all connections."""
        self._acceptor.close()  # the name is free when accept() has let go of it
        with self._lock:
            self._closed = True
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self._pool.close()

    def _converse(self, connection: socket.socket) -> None:
        """Answer one connection's requests until it ends."""
        with self._lock:
            self._connections.add(connection)
            if self._closed:
                connection.shutdown(socket.SHUT_RDWR)
        try:
            with closing(connection), closing(BufferProducer(self._pool)) as lender:
                requests = RequestReader(connection, self._token)
                while (request := requests.next()) is not None:
                    self._answer(connection, request, lender)
        except OSError as error:
            _log.debug("local connection ended: %s", error)
        except Nonsense as error:  # whoever sent it hears nothing, not even that the token was wrong
            self._refuse(error)
        except Exception:  # noqa: BLE001 - one connection's misfortune, whatever it is, is not the others'
            _log.exception("local connection ended")
        finally:
            with self._lock:
                self._connections.discard(connection)

    def _refuse(self, error: Nonsense) -> None:
        """One line a minute, however many come."""
        with self._lock:
            self._refused += 1
            if time.monotonic() - self._told_at < TOLD_S:
                return
            count, self._refused, self._told_at = self._refused, 0, time.monotonic()
        _log.warning(
            "%d connections to the agent's socket were ended for malformed requests, the last: %s", count, error
        )

    def _answer(self, connection: socket.socket, request: AgentRequest, lender: BufferProducer) -> None:
        if request.action:
            # Without an answer the connection ends: the client goes to the coordinator by itself, and hears why.
            answer = self._relay(request.action, request.body.encode(), request.patience_s or RELAY_S)
            if request.reply:
                _send(connection, _INFO, answer)
            if request.action != "Claim" or not _follow(claimed := calls.decode(answer, calls.ClaimReply)):
                return
            request = structs.replace(
                request, ranges=claimed.ranges, floors=claimed.floors, plan_seq=claimed.sequence, ids=claimed.ids
            )
        if not request.ranges:
            _send(connection, _INFO, json.dumps(dict(self._info())).encode())
            return
        served = self._stream(connection, request, lender)
        if connection.recv(1) == _DELIVERED and served:
            try:
                self._on_served(served)
            except Exception:  # noqa: BLE001 - the rows are delivered, whatever comes of telling so
                _log.exception("after serving %s", served)

    def _stream(self, connection: socket.socket, request: AgentRequest, lender: BufferProducer) -> list[Range]:
        """Send the steps; returns the ranges that came to their ends."""
        stands = [wanted.start for wanted in request.ranges]
        sender = _FrameSender(connection, lender)
        asked = request.ranges, request.floors, request.plan_seq, request.patience_s, request.ids
        for step in self._prefetcher.serve(*asked):
            sender.send(step)
            for index, at in step.positions:
                stands[index] = at
        _send(connection, _END)
        sender.finish()
        return [wanted for wanted, at in zip(request.ranges, stands, strict=True) if at == wanted.end]


class _FrameSender:
    """The steps of one answer, their rows in shared memory or in frames."""

    def __init__(self, connection: socket.socket, lender: BufferProducer) -> None:
        self._connection, self._lender = connection, lender
        self._unanswered = 0

    def send(self, step: Served) -> None:
        """Send one step."""
        batch = step.batch
        said = calls.encode(calls.Step(tuple(step.positions), tuple(step.missed), batch is not None))
        if batch is None:
            _send(self._connection, _STEP, said)
            return
        if self._unanswered == AHEAD:
            self._hear()
        self._unanswered += 1
        lent = self._lender.lend(batch)
        if lent is not None:
            _send_lent(self._connection, lent, said)
            return
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, batch.schema) as writer:
            writer.write_batch(batch)
        _send(self._connection, _STEP, said)
        _send(self._connection, _BATCH, stream.getvalue())

    def finish(self) -> None:
        """Hear what the client still has to say of what was sent."""
        while self._unanswered:
            self._hear()

    def _hear(self) -> None:
        (count,) = _receive_exactly(self._connection, 1)
        self._unanswered -= 1
        try:
            self._lender.take_back(bytes(_receive_exactly(self._connection, count)))
        except KeyError as error:
            raise Nonsense("a slab that isn't lent") from error


class TaskClient:
    """Asks one agent; for one thread at a time.

    After an AgentTimeout it asks no more: a second request raises it at once.
    """

    def __init__(self, name: str, token: str, timeout_s: float) -> None:
        """``timeout_s`` bounds silence (agent.timeout.ms); nothing is connected yet."""
        self._name = name
        self._token = token
        self._timeout_s = timeout_s
        self._connection: socket.socket | None = None
        self._borrower = BufferConsumer()
        self._lost = ""
        self._following = False  # the rows of what was claimed come next

    def hello(self) -> dict[str, Any]:
        """The agent's description: member id, generation, pid; raises AgentTimeout."""
        info: dict[str, Any] = json.loads(self._told(AgentRequest()))
        return info

    def claim(self, claim: calls.Claim) -> calls.ClaimReply:
        """The coordinator's answer to a claim; raises AgentTimeout, also when the coordinator did not answer.

        Its rows are on their way already, if the agent has them: ``read`` comes next.
        """
        body = calls.encode(claim).decode()
        answer = self._told(AgentRequest(action="Claim", body=body, patience_s=self._timeout_s / 2))
        claimed = calls.decode(answer, calls.ClaimReply)
        self._following = _follow(claimed)
        return claimed

    def tell(self, report: calls.Delivered) -> None:
        """Report to the coordinator, and don't wait for what becomes of it; raises AgentTimeout."""
        try:
            self._ask(AgentRequest(action="Delivered", body=calls.encode(report).decode(), reply=False))
        except OSError as error:
            raise self._silent(error) from error

    def read(
        self, ranges: Sequence[Range], floors: Sequence[int], plan_seq: int, ids: Mapping[str, str] | None = None
    ) -> Iterator[Served]:
        """Yield steps until every range is at its end or missed, then acknowledge; raises AgentTimeout.

        ``floors``: for each range, where the plan begins to read its partition; ``ids``: of the topics planned.
        """
        finished, following, self._following = False, self._following, False
        request = AgentRequest(
            ranges=tuple(ranges),
            floors=tuple(floors),
            plan_seq=plan_seq,
            ids=None if ids is None else dict(ids),
            patience_s=self._timeout_s / 2,
        )
        try:
            connection = self._connection if following else None
            connection = connection or self._ask(request)
            while True:
                kind, body = _receive(connection)
                if kind == _END:
                    connection.sendall(_DELIVERED)
                    finished = True
                    return
                step = self._lent(connection, body) if kind == _LENT else self._framed(connection, body)
                rows = step.batch is not None
                yield step
                del step  # so that its slab goes back with the answer to the next one
                if rows:
                    ended = self._borrower.ended()
                    connection.sendall(bytes((len(ended),)) + ended)
        except OSError as error:
            raise self._silent(error) from error
        finally:
            if not finished:  # whatever else is on its way belongs to nobody
                self.close()

    def _told(self, request: AgentRequest) -> bytes:
        try:
            _, body = _receive(self._ask(request))
        except OSError as error:
            raise self._silent(error) from error
        return bytes(body)

    def close(self) -> None:
        """End the connection; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._borrower = BufferConsumer()
        self._following = False

    @staticmethod
    def _framed(connection: socket.socket, body: bytearray) -> Served:
        """The step of one frame, its rows in the next: it counts when they have come, too."""
        step, batch = calls.decode(bytes(body), calls.Step), None
        if step.rows:
            _, body = _receive(connection)
            batch = pa.ipc.open_stream(pa.py_buffer(body)).read_next_batch()
        return Served(step.positions, batch, step.missed)

    def _lent(self, connection: socket.socket, body: bytearray) -> Served:
        """The step of one frame, its rows where they lie."""
        number, size, used, new = _SLAB.unpack_from(body)
        step = calls.decode(bytes(body[_SLAB.size :]), calls.Step)
        descriptor = _receive_descriptor(connection) if new else None
        return Served(step.positions, self._borrower.read(Lent(number, size, used, descriptor)), step.missed)

    def _ask(self, request: AgentRequest) -> socket.socket:
        if self._lost:
            raise OSError(self._lost)
        if self._following:
            self.close()  # what comes behind the claim is nobody's
        if self._connection is None:
            self._connection = self._connect()
        self._connection.sendall(written(request, self._token))
        return self._connection

    def _connect(self) -> socket.socket:
        with ExitStack() as undo:
            connection = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            connection.settimeout(self._timeout_s)
            connection.connect(_address(self._name))
            if not _is_ours(connection):
                raise PermissionError("the agent's socket belongs to another user")
            undo.pop_all()
        return connection

    def _silent(self, error: OSError) -> AgentTimeout:
        self.close()
        silence = f"no answer from the agent within {self._timeout_s} s (agent.timeout.ms)"
        self._lost = silence if isinstance(error, TimeoutError) else f"the agent is gone ({error})"
        return AgentTimeout(self._lost)


def _follow(claimed: calls.ClaimReply) -> bool:
    """Whether rows come behind this answer to a claim: there are some, and this agent has them."""
    return bool(not claimed.error and claimed.agent and claimed.ranges)


def _address(name: str) -> bytes:
    return b"\0" + name.encode()


def _is_ours(connection: socket.socket) -> bool:
    """Whether the process at the other end is this user's, as the kernel knows it."""
    uid: int = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[1]
    return uid == os.getuid()


def _send(connection: socket.socket, kind: int, body: bytes | pa.Buffer = b"") -> None:
    view = memoryview(body)
    head = _FRAME.pack(kind, view.nbytes)
    if view.nbytes <= _TOGETHER:  # two calls wake the other end twice
        connection.sendall(head + bytes(view))
        return
    connection.sendall(head)
    connection.sendall(view)


def _send_lent(connection: socket.socket, lent: Lent, said: bytes) -> None:
    new = lent.descriptor is not None
    _send(connection, _LENT, _SLAB.pack(lent.slab, lent.size, lent.used, new) + said)
    if lent.descriptor is not None:
        # With a byte of its own, so that no other read takes it.
        socket.send_fds(connection, [_DELIVERED], [lent.descriptor])


def _receive_descriptor(connection: socket.socket) -> int:
    data, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
    if not data or not descriptors:
        raise ConnectionResetError("no descriptor came")
    return descriptors[0]


def _receive(connection: socket.socket) -> tuple[int, bytearray]:
    kind, length = _FRAME.unpack(_receive_exactly(connection, _FRAME.size))
    return kind, _receive_exactly(connection, length)


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
