"""The agent's side of the socket between a task and its agent: it serves what was prefetched, or reads it; see ``task_frames``."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from typing import TypeAlias

import pyarrow as pa

from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.calls import AgentRequest
from sparkcohort.runtime.protocol.partitions import Range
from sparkcohort.runtime.shell.agent.prefetch import Prefetcher
from sparkcohort.runtime.shell.agent.range_service import RangeService
from sparkcohort.runtime.shell.agent.shared_memory import BufferProducer, SharedBatch
from sparkcohort.runtime.shell.agent.task_frames import (
    BUFFER,
    DELIVERED,
    FRAME,
    FRAME_ANSWER,
    FRAME_BATCH,
    FRAME_END,
    FRAME_SHARED_STEP,
    FRAME_STEP,
    MOST_STEPS_AHEAD,
    NO_ANSWER,
    Served,
    address,
    is_ours,
    receive_exactly,
)
from sparkcohort.runtime.shell.agent.task_requests import REQUEST_S, InvalidRequest, read_request
from sparkcohort.runtime.shell.rpc.acceptor import Acceptor

_log = logging.getLogger("sparkcohort.local")

CALL_S = 5.0
_TOGETHER = 64 << 10


CoordinatorCall: TypeAlias = Callable[[str, bytes, float], bytes]
"""A call to the coordinator: (action, body, time-out in s) to its answer.  Raises OSError."""


class TaskServer:
    """Serves ranges to this user's processes that know the token; a thread per connection.

    ``on_served`` is called with those ranges of a request that a client has read to their ends, once it has said so;
    ``call_coordinator`` with a client's calls to the coordinator.
    """

    def __init__(
        self,
        name: str,
        token: str,
        prefetcher: Prefetcher,
        direct: RangeService,
        on_served: Callable[[Sequence[Range]], None],
        call_coordinator: CoordinatorCall,
        fail: Callable[[str], object],
    ) -> None:
        """Nothing is bound before ``start``; ``fail`` is called with the reason when no connection can be accepted any more."""
        self._name, self._token, self._prefetcher, self._direct = name, token, prefetcher, direct
        self._on_served, self._call_coordinator = on_served, call_coordinator
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._acceptor = Acceptor(self._listener, is_ours, self._serve_connection, fail)
        self._connections: set[socket.socket] = set()
        self._closed = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Bind and accept; raises OSError when the name is taken."""
        self._listener.bind(address(self._name))
        self._listener.listen(128)
        self._acceptor.start()

    def close(self) -> None:
        """Give the name back and end all connections."""
        self._acceptor.close()  # the name is free when accept() has returned
        with self._lock:
            self._closed = True
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _serve_connection(self, connection: socket.socket) -> None:
        """Answer one connection's requests until it ends."""
        with self._lock:
            self._connections.add(connection)
            if self._closed:
                connection.shutdown(socket.SHUT_RDWR)
        try:
            with closing(connection), closing(BufferProducer()) as producer:
                connection.settimeout(REQUEST_S)  # the first request is due at once
                while (request := read_request(connection, self._token)) is not None:
                    if request.action:
                        self._relay(connection, request)
                    else:
                        self._serve(connection, request, producer)
        except OSError as error:
            _log.debug("local connection ended: %s", error)
        except InvalidRequest as error:  # the sender gets no answer, not even that the token was wrong
            _log.warning("a connection to the agent's socket was ended for a malformed request: %s", error)
        except Exception:  # noqa: BLE001 - an error of one connection must not end the others
            _log.exception("local connection ended")
        finally:
            with self._lock:
                self._connections.discard(connection)

    def _relay(self, connection: socket.socket, request: AgentRequest) -> None:
        try:
            answer = self._call_coordinator(request.action, request.body.encode(), request.patience_s or CALL_S)
        except OSError:
            if not request.reply:
                raise
            answer = NO_ANSWER  # the client asks the coordinator itself, which tells it why
        if request.reply:
            _send(connection, FRAME_ANSWER, answer)

    def _serve(self, connection: socket.socket, request: AgentRequest, producer: BufferProducer) -> None:
        sender, served, end = _FrameSender(connection, producer), list[Range](), b""
        if request.direct:
            end = calls.encode(self._direct.serve(request, sender.send))
        else:
            served = self._serve_prefetched(request, sender)
        _send(connection, FRAME_END, end)
        sender.finish()
        if connection.recv(1) == DELIVERED and served:
            self._on_served(served)

    def _serve_prefetched(self, request: AgentRequest, sender: _FrameSender) -> list[Range]:
        """Send the steps; returns the ranges that came to their ends."""
        positions = [item.start for item in request.ranges]
        arguments = request.ranges, request.planned_starts, request.plan_seq, request.patience_s, request.ids
        for step in self._prefetcher.serve(*arguments):
            sender.send(step)
            for index, position in step.positions:
                positions[index] = position
        return [item for item, position in zip(request.ranges, positions, strict=True) if position == item.end]


class _FrameSender:
    """The steps of one answer, their rows in shared memory or in frames."""

    def __init__(self, connection: socket.socket, producer: BufferProducer) -> None:
        self._connection, self._producer = connection, producer
        self._unanswered = 0

    def send(self, step: Served) -> None:
        """Send one step."""
        batch = step.batch
        head = calls.encode(calls.Step(tuple(step.positions), tuple(step.missed), batch is not None, tuple(step.sizes)))
        if batch is None:
            _send(self._connection, FRAME_STEP, head)
            return
        if self._unanswered == MOST_STEPS_AHEAD:
            self._read_answer()
        self._unanswered += 1
        lent = self._producer.lend(batch)
        if lent is not None:
            _send_lent(self._connection, lent, head)
            return
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, batch.schema) as writer:
            writer.write_batch(batch)
        _send(self._connection, FRAME_STEP, head)
        _send(self._connection, FRAME_BATCH, stream.getvalue())

    def finish(self) -> None:
        """Read the client's answers to the steps that were sent."""
        while self._unanswered:
            self._read_answer()

    def _read_answer(self) -> None:
        (count,) = receive_exactly(self._connection, 1)
        self._unanswered -= 1
        try:
            self._producer.take_back(bytes(receive_exactly(self._connection, count)))
        except KeyError as error:
            raise InvalidRequest("a buffer that isn't lent") from error


def _send(connection: socket.socket, kind: int, body: bytes | pa.Buffer = b"") -> None:
    view = memoryview(body)
    head = FRAME.pack(kind, view.nbytes)
    if view.nbytes <= _TOGETHER:  # two calls wake the other end twice
        connection.sendall(head + bytes(view))
        return
    connection.sendall(head)
    connection.sendall(view)


def _send_lent(connection: socket.socket, lent: SharedBatch, step: bytes) -> None:
    new = lent.descriptor is not None
    _send(connection, FRAME_SHARED_STEP, BUFFER.pack(lent.buffer, lent.size, lent.nbytes, new) + step)
    if lent.descriptor is not None:
        # With a byte of its own, so that no other read takes it.
        socket.send_fds(connection, [DELIVERED], [lent.descriptor])
