"""The task's side of the socket between a task and its agent: it asks for ranges and gets Arrow; see ``task_frames``.

A client that gets no answer for its time-out, or finds the agent gone, never asks this agent again.  A Python worker imports this before its first row, so nothing that only the agent needs is imported here.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack

import pyarrow as pa

from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.calls import AgentRequest
from sparkcohort.runtime.protocol.partitions import Range
from sparkcohort.runtime.shell.agent.shared_memory import BufferConsumer, SharedBatch
from sparkcohort.runtime.shell.agent.task_frames import (
    BUFFER,
    DELIVERED,
    FRAME_END,
    FRAME_SHARED_STEP,
    NO_ANSWER,
    Served,
    address,
    is_ours,
    receive,
)
from sparkcohort.runtime.shell.agent.task_requests import encode_request


class AgentTimeout(Exception):
    """The agent fell silent or is gone; every step that came whole has been handed out."""


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
        self._consumer = BufferConsumer()
        self._failure = ""

    def claim(self, claim: calls.Claim) -> calls.ClaimReply | None:
        """The coordinator's answer to a claim, None where the agent gets none; raises AgentTimeout.

        An agent without a coordinator still serves what it has fetched.
        """
        body = calls.encode(claim).decode()
        try:
            _, answer = receive(self._ask(AgentRequest(action="Claim", body=body, patience_s=self._timeout_s / 2)))
            return None if answer == NO_ANSWER else calls.decode(bytes(answer), calls.ClaimReply)
        except OSError as error:
            raise self._silent(error) from error

    def tell(self, report: calls.Delivered) -> None:
        """Report to the coordinator without waiting for its answer; raises AgentTimeout."""
        try:
            self._ask(AgentRequest(action="Delivered", body=calls.encode(report).decode(), reply=False))
        except OSError as error:
            raise self._silent(error) from error

    def read(
        self,
        ranges: Sequence[Range],
        planned_starts: Sequence[int],
        plan_seq: int,
        ids: Mapping[str, str] | None = None,
    ) -> Iterator[Served]:
        """Yield steps until every range is at its end or missed, then acknowledge; raises AgentTimeout.

        ``planned_starts``: for each range, where the plan begins to read its partition; ``ids``: of the topics planned.
        """
        finished = False
        request = AgentRequest(
            ranges=tuple(ranges),
            planned_starts=tuple(planned_starts),
            plan_seq=plan_seq,
            ids=None if ids is None else dict(ids),
            patience_s=self._timeout_s / 2,
        )
        try:
            connection = self._ask(request)
            while True:
                kind, body = receive(connection)
                if kind == FRAME_END:
                    connection.sendall(DELIVERED)
                    finished = True
                    return
                step = (self._read_shared if kind == FRAME_SHARED_STEP else self._read_framed)(connection, body)
                rows = step.batch is not None
                yield step
                del step  # so that its buffer goes back with the answer to the next one
                if rows:
                    ended = self._consumer.ended()
                    connection.sendall(bytes((len(ended),)) + ended)
        except OSError as error:
            raise self._silent(error) from error
        finally:
            if not finished:  # the rest of the answer may still be on its way
                self.close()

    def close(self) -> None:
        """End the connection; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._consumer = BufferConsumer()

    @staticmethod
    def _read_framed(connection: socket.socket, body: bytearray) -> Served:
        """The step of one frame, its rows in the next: it counts when they have come, too."""
        step, batch = calls.decode(bytes(body), calls.Step), None
        if step.rows:
            _, body = receive(connection)
            batch = pa.ipc.open_stream(pa.py_buffer(body)).read_next_batch()
        return Served(step.positions, batch, step.missed, step.sizes)

    def _read_shared(self, connection: socket.socket, body: bytearray) -> Served:
        """The step of one frame, its rows where they lie."""
        number, size, nbytes, new = BUFFER.unpack_from(body)
        step = calls.decode(bytes(body[BUFFER.size :]), calls.Step)
        descriptor = _receive_descriptor(connection) if new else None
        batch = self._consumer.read(SharedBatch(number, size, nbytes, descriptor))
        return Served(step.positions, batch, step.missed, step.sizes)

    def _ask(self, request: AgentRequest) -> socket.socket:
        if self._failure:
            raise OSError(self._failure)
        if self._connection is None:
            self._connection = self._connect()
        self._connection.sendall(encode_request(request, self._token))
        return self._connection

    def _connect(self) -> socket.socket:
        with ExitStack() as undo:
            connection = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            connection.settimeout(self._timeout_s)
            connection.connect(address(self._name))
            if not is_ours(connection):
                raise PermissionError("the agent's socket belongs to another user")
            undo.pop_all()
        return connection

    def _silent(self, error: OSError) -> AgentTimeout:
        self.close()
        silence = f"no answer from the agent within {self._timeout_s} s (agent.timeout.ms)"
        self._failure = silence if isinstance(error, TimeoutError) else f"the agent is gone ({error})"
        return AgentTimeout(self._failure)


def _receive_descriptor(connection: socket.socket) -> int:
    data, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
    if not data or not descriptors:
        raise ConnectionResetError("no descriptor came")
    return descriptors[0]
