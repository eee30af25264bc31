"""Ranges read through the driver, for a task whose executor does not reach a broker: the driver's side and the task's.

Owners move and claims avoid such an executor within seconds of a cut, so this is for what is left: tasks that had begun, and
tasks that Spark starts there because no other core is free.  Such a task could only wait, or fail and be started again
on the same executor.  No connection leads to an executor, and every executor reaches the driver: so the driver reads for it, a
few megabytes a call, under the run's certificates.  Where the driver gets nothing either the task goes on by itself, and
fails in the end as it would have.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from typing import Final

import pyarrow as pa

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.kafka.fetch.events import Piece
from sparkcohort.runtime.shell.kafka.fetch.range_reader import DataLossError, FetchError, RangeReader

PIECE_BYTES: Final = 8 << 20
"""About so much is read in one call: the driver holds it in memory, once a reader."""
READERS: Final = 4
READ_S: Final = 3.0
"""How long a call reads, and how long it waits for a reader."""
CALL_S: Final = 15.0
SILENT_S: Final = 3.0
"""How long a task hears nothing from a leader before it asks the driver."""
IDLE_S: Final = 10.0
"""The same where the client can't tell a leader that is silent from one that is slow."""
PAUSE_S: Final = 10.0
"""How long a task reads directly after the driver had nothing."""

_HEAD: Final = struct.Struct("!I")


class Relay:
    """Reads ranges for tasks, on the driver; all methods may be called from any thread.

    ``make`` makes a reader that gives up within some seconds without progress; ``recreated`` is called when one has found that a
    topic was.
    """

    def __init__(self, make: Callable[[], RangeReader], recreated: Callable[[], None] = lambda: None) -> None:
        """Opens nothing: each call has a reader of its own."""
        self._make, self._recreated = make, recreated
        self._turns = threading.BoundedSemaphore(READERS)

    def answer(self, body: bytes, readable: Collection[TopicPartition]) -> bytes:
        """The answer to a task's ReadRequest for ``readable`` partitions.  Raises ValueError for an invalid one."""
        request = calls.decode(body, calls.ReadRequest)
        calls.check_read(request, readable)
        pieces, error = self.read(request.ranges, request.ids)
        return _encoded(request.ranges, pieces, error)

    def read(self, ranges: Sequence[Range], ids: Mapping[str, str]) -> tuple[list[Piece], CohortError | None]:
        """About ``PIECE_BYTES`` of the ranges, one a partition, of topics of these ids, and what ended the reading, if anything did."""
        if not self._turns.acquire(timeout=READ_S):
            return [], FetchError(f"the driver reads for {READERS} other tasks already", "REQUEST_TIMED_OUT")
        pieces: list[Piece] = []
        try:
            with closing(self._make()) as reader:
                deadline, nbytes = time.monotonic() + READ_S, 0
                for piece in reader.read(ranges, ids):
                    pieces.append(piece)
                    nbytes += piece[2].nbytes if piece[2] is not None else 0
                    if nbytes >= PIECE_BYTES or time.monotonic() >= deadline:
                        break
            if reader.replaced:
                self._recreated()
        except CohortError as error:
            return pieces, error
        finally:
            self._turns.release()
        return pieces, None


def _encoded(ranges: Sequence[Range], pieces: Sequence[Piece], error: CohortError | None) -> bytes:
    """A ``ReadHead`` with its length before it, then the rows as an Arrow stream."""
    places = {span.tp: place for place, span in enumerate(ranges)}
    batches = [batch for _, _, batch in pieces if batch is not None]
    sink = pa.BufferOutputStream()
    if batches:
        with pa.ipc.new_stream(sink, batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    progress = tuple(calls.Stand(places[tp], position, batch is not None) for tp, position, batch in pieces)
    name, message, is_loss = (error.error, str(error), isinstance(error, DataLossError)) if error else ("", "", False)
    head = calls.encode(calls.ReadHead(progress, name, message, is_loss))
    return _HEAD.pack(len(head)) + head + bytes(sink.getvalue().to_pybytes())


class RelayedReader:
    """What a task reads through the driver; ``call`` sends a ReadRequest there and returns the answer."""

    def __init__(self, call: Callable[[bytes], bytes]) -> None:
        """Nothing is asked yet."""
        self._call = call
        self._next_s = 0.0  # no request before
        self._relayed: set[TopicPartition] = set()  # that came this way: not waited for directly
        self.reason = ""  # what the driver said last

    def wants(self, tp: TopicPartition, silent_s: float | None, idle_s: float) -> bool:
        """Whether to ask the driver: for how long the leader has been silent, if that is known, and nothing has come."""
        late = silent_s >= SILENT_S if silent_s is not None else idle_s >= IDLE_S
        return (late or tp in self._relayed) and time.monotonic() >= self._next_s

    def read(self, ranges: Sequence[Range], ids: Mapping[str, str]) -> list[Piece]:
        """What the driver has read of them; nothing where it can't either.  Raises FetchError, DataLossError."""
        request = calls.encode(calls.ReadRequest(tuple(ranges), dict(ids)))
        try:
            answer = self._call(request)
        except (CohortError, OSError) as error:  # the driver does not answer, or refuses
            self.reason = str(error)
            self._next_s = time.monotonic() + PAUSE_S
            return []
        (size,) = _HEAD.unpack_from(answer)
        head = calls.decode(answer[_HEAD.size : _HEAD.size + size], calls.ReadHead)
        rows = memoryview(answer)[_HEAD.size + size :]
        batches = iter(pa.ipc.open_stream(rows) if len(rows) else ())
        pieces = [(ranges[i].tp, position, next(batches) if full else None) for i, position, full in head.pieces]
        self._relayed = {tp for tp, _, _ in pieces}
        self.reason = head.message
        if not pieces:
            self._next_s = time.monotonic() + PAUSE_S
            if head.lost:
                raise DataLossError(self.reason, head.error)
            if head.error not in {"", "REQUEST_TIMED_OUT"}:
                raise FetchError(self.reason, head.error)
        return pieces
