"""The agent's side of the socket between a task and its agent: it serves what was prefetched; see ``task_frames``."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import Protocol, TypeAlias

import pyarrow as pa
from msgspec import structs

from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.calls import AgentRequest
from sparkcohort.runtime.protocol.partitions import Range
from sparkcohort.runtime.shell.agent.shared_memory import BufferProducer, SharedBatch, SlabPool
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
    rows_follow,
)
from sparkcohort.runtime.shell.agent.task_requests import InvalidRequest, RequestReader
from sparkcohort.runtime.shell.rpc.acceptor import Acceptor

_log = logging.getLogger("sparkcohort.local")

CALL_S = 5.0
WARNING_S = 60.0
_TOGETHER = 64 << 10


class AlreadyRunning(OSError):
    """Another process holds the socket's name."""


class Source(Protocol):
    """What the server serves from; see ``prefetch.Prefetcher``."""

    def serve(
        self,
        ranges: Sequence[Range],
        planned_starts: Sequence[int],
        plan_seq: int,
        patience_s: float | None = None,
        ids: Mapping[str, str] | None = None,
    ) -> Iterator[Served]:
        """Yield steps until every range is at its end or missed."""


CoordinatorCall: TypeAlias = Callable[[str, bytes, float], bytes]
"""A call to the coordinator: (action, body, time-out in s) to its answer.  Raises OSError."""


def _no_coordinator(action: str, _body: bytes, _timeout_s: float) -> bytes:
    raise ConnectionError(f"no coordinator to send {action} to")


class TaskServer:
    """Serves ranges to this user's processes that know the token; a thread per connection.

    ``on_served`` is called with those ranges of a request that a client has read to their ends, once it has said so;
    ``call_coordinator`` with a client's calls to the coordinator.
    """

    def __init__(
        self,
        name: str,
        token: str,
        prefetcher: Source,
        on_served: Callable[[Sequence[Range]], None],
        call_coordinator: CoordinatorCall = _no_coordinator,
        fail: Callable[[str], object] = _log.error,
    ) -> None:
        """Nothing is bound before ``start``; ``fail`` is called with the reason when no connection can be accepted any more."""
        self._name = name
        self._token = token
        self._prefetcher = prefetcher
        self._on_served = on_served
        self._call_coordinator = call_coordinator
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._acceptor = Acceptor(self._listener, is_ours, self._serve_connection, fail)
        self._connections: set[socket.socket] = set()
        self._closed = False
        self._refused, self._warned_at = 0, float("-inf")
        self._pool = SlabPool()
        self._lock = threading.Lock()

    def start(self) -> None:
        """Bind and accept; raises AlreadyRunning when the name is taken."""
        try:
            self._listener.bind(address(self._name))
        except OSError as error:
            self._listener.close()
            raise AlreadyRunning(error.errno, f"the agent's socket {self._name!r} is taken") from error
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
        self._pool.close()

    def _serve_connection(self, connection: socket.socket) -> None:
        """Answer one connection's requests until it ends."""
        with self._lock:
            self._connections.add(connection)
            if self._closed:
                connection.shutdown(socket.SHUT_RDWR)
        try:
            with closing(connection), closing(BufferProducer(self._pool)) as producer:
                requests = RequestReader(connection, self._token)
                while (request := requests.next()) is not None:
                    self._answer(connection, request, producer)
        except OSError as error:
            _log.debug("local connection ended: %s", error)
        except InvalidRequest as error:  # the sender gets no answer, not even that the token was wrong
            self._refuse(error)
        except Exception:  # noqa: BLE001 - an error of one connection must not end the others
            _log.exception("local connection ended")
        finally:
            with self._lock:
                self._connections.discard(connection)

    def _refuse(self, error: InvalidRequest) -> None:
        """Count them, and log one line a minute."""
        with self._lock:
            self._refused += 1
            if time.monotonic() - self._warned_at < WARNING_S:
                return
            count, self._refused, self._warned_at = self._refused, 0, time.monotonic()
        _log.warning(
            "%d connections to the agent's socket were ended for malformed requests, the last: %s", count, error
        )

    def _answer(self, connection: socket.socket, request: AgentRequest, producer: BufferProducer) -> None:
        if request.action:
            # Without an answer the client asks the coordinator itself, which tells it why; it still reads rows from here.
            try:
                answer = self._call_coordinator(request.action, request.body.encode(), request.patience_s or CALL_S)
            except OSError:
                if not request.reply:
                    raise
                _send(connection, FRAME_ANSWER, NO_ANSWER)
                return
            if request.reply:
                _send(connection, FRAME_ANSWER, answer)
            if request.action != "Claim" or not rows_follow(claimed := calls.decode(answer, calls.ClaimReply)):
                return
            request = structs.replace(
                request,
                ranges=claimed.ranges,
                planned_starts=claimed.planned_starts,
                plan_seq=claimed.sequence,
                ids=claimed.ids,
            )
        served = self._stream(connection, request, producer)
        if connection.recv(1) == DELIVERED and served:
            try:
                self._on_served(served)
            except Exception:  # noqa: BLE001 - the rows are delivered, even if the report fails
                _log.exception("after serving %s", served)

    def _stream(self, connection: socket.socket, request: AgentRequest, producer: BufferProducer) -> list[Range]:
        """Send the steps; returns the ranges that came to their ends."""
        positions = [item.start for item in request.ranges]
        sender = _FrameSender(connection, producer)
        arguments = request.ranges, request.planned_starts, request.plan_seq, request.patience_s, request.ids
        for step in self._prefetcher.serve(*arguments):
            sender.send(step)
            for index, position in step.positions:
                positions[index] = position
        _send(connection, FRAME_END)
        sender.finish()
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
