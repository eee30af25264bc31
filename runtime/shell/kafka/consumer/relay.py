"""Ranges read for somebody else: on the driver for a task whose executor doesn't reach a broker, and on the task's side.

A task that hears nothing from a leader which answers others could only wait, or fail and be started again on the same
executor.  Nothing ever dials an executor, and every executor reaches the driver: so the driver reads for it, a few
megabytes a call, under the run's certificates.  Where the driver gets nothing either the task goes on by itself, and fails
in the end as it would have.
"""

from __future__ import annotations

import logging
import struct
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.kafka.consumer.pieces import Piece
from sparkcohort.runtime.shell.kafka.consumer.range_reader import DataLossError, FetchError, RangeReader

PIECE_BYTES: Final = 8 << 20
"""About so much is read a call: the driver holds it in memory, once a reader."""
READERS: Final = 4
READ_S: Final = 3.0
"""How long a call reads, and how long it waits for a reader."""
CALL_S: Final = 15.0
FIRST_S: Final = 3.0
"""How long a task hears nothing from a leader before it asks the driver."""
IDLE_S: Final = 10.0
"""The same where the client can't tell a leader that is silent from one that is slow."""
MOST_PAUSE_S: Final = 30.0

_HEAD: Final = struct.Struct("!I")
_log = logging.getLogger("sparkcohort.relay")


class Got(NamedTuple):
    """Pieces of ranges, what ended the reading, if anything did, and topics that turned out to be made anew."""

    pieces: list[Piece]
    error: CohortError | None = None
    replaced: Collection[str] = ()


class Relay:
    """Reads ranges for tasks; all methods may be called from any thread.

    ``make`` makes a reader, that gives up within some seconds without progress.
    """

    def __init__(self, make: Callable[[], RangeReader]) -> None:
        """No reader yet."""
        self._make = make
        self._turns = threading.BoundedSemaphore(READERS)
        self._lock = threading.Lock()
        self._idle: list[RangeReader] = []
        self._closed = False

    def read(self, ranges: Sequence[Range], ids: Mapping[str, str]) -> Got:
        """About ``PIECE_BYTES`` of the ranges, one a partition, of topics of these ids, in order per partition."""
        if not self._turns.acquire(timeout=READ_S):
            return Got([], FetchError(f"the driver reads for {READERS} other tasks already", "REQUEST_TIMED_OUT"))
        pieces: list[Piece] = []
        reader = self._reader()
        try:
            deadline, nbytes = time.monotonic() + READ_S, 0
            for piece in reader.read(ranges, ids):
                pieces.append(piece)
                nbytes += piece[2].nbytes if piece[2] is not None else 0
                if nbytes >= PIECE_BYTES or time.monotonic() >= deadline:
                    break
        except CohortError as error:
            reader.close()
            return Got(pieces, error)
        except BaseException:
            reader.close()
            raise
        else:
            with self._lock:
                replaced, reader.replaced = reader.replaced, set()
                closed = self._closed
                if not closed:
                    self._idle.append(reader)
            if closed:
                reader.close()
            return Got(pieces, None, replaced)
        finally:
            self._turns.release()

    def answer(self, body: bytes, known: Collection[TopicPartition]) -> bytes:
        """What a task asks for, if it is ``known`` to be read here.  Raises ValueError for nonsense."""
        asked = calls.decode(body, calls.ReadRequest)
        calls.check_read(asked, known)
        return packed(asked.ranges, self.read(asked.ranges, asked.ids))

    def _reader(self) -> RangeReader:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return self._make()

    def close(self) -> None:
        """Close the connections of readers that nobody uses."""
        with self._lock:
            idle, self._idle, self._closed = self._idle, [], True
        for reader in idle:
            reader.close()


def packed(ranges: Sequence[Range], got: Got) -> bytes:
    """The answer to a task: where which of its ranges stand, and the rows."""
    place = {wanted.tp: index for index, wanted in enumerate(ranges)}
    stands: list[calls.Stand] = []
    sink = pa.BufferOutputStream()
    writer = None
    for tp, position, batch in got.pieces:
        stands.append(calls.Stand(place[tp], position, batch is not None))
        if batch is not None:
            writer = writer or pa.ipc.new_stream(sink, batch.schema)
            writer.write_batch(batch)
    if writer is not None:
        writer.close()
    error = got.error
    name, message, lost = (error.error, str(error), isinstance(error, DataLossError)) if error else ("", "", False)
    head = calls.encode(calls.ReadHead(tuple(stands), tuple(sorted(got.replaced)), name, message, lost))
    return _HEAD.pack(len(head)) + head + bytes(sink.getvalue().to_pybytes())


class Through:
    """What a task reads through the driver; ``call`` asks it.  ``barred`` are partitions that can't be read directly."""

    def __init__(self, call: Callable[[bytes], bytes], barred: Iterable[TopicPartition] = ()) -> None:
        """Nothing is asked yet."""
        self._call = call
        self._barred = set(barred)
        self._not_before: dict[TopicPartition, tuple[float, float]] = {}
        self.why = ""  # what the driver said last
        self.replaced: set[str] = set()  # topics that it found to be deleted and made anew

    def is_all(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether none of these is worth waiting for directly."""
        now = time.monotonic()
        return all(tp in self._barred and self._due(tp, now) for tp in partitions)

    def wants(self, tp: TopicPartition, silent_s: float | None, idle_s: float) -> bool:
        """Whether to ask the driver: for how long the leader has been silent, if that is known, and nothing has come."""
        late = silent_s >= FIRST_S if silent_s is not None else idle_s >= IDLE_S
        return (tp in self._barred or late) and self._due(tp, time.monotonic())

    def read(self, ranges: Sequence[Range], ids: Mapping[str, str]) -> list[Piece]:
        """What the driver has read of them; nothing where it can't either.  Raises FetchError, DataLossError."""
        asked = calls.encode(calls.ReadRequest(tuple(ranges), dict(ids)))
        try:
            answer = self._call(asked)
        except (CohortError, OSError) as error:  # nobody to ask, or one who refuses
            self.why = str(error)
            self._put_off(ranges)
            return []
        (size,) = _HEAD.unpack_from(answer)
        head = calls.decode(answer[_HEAD.size : _HEAD.size + size], calls.ReadHead)
        rows = memoryview(answer)[_HEAD.size + size :]
        batches = iter(pa.ipc.open_stream(rows) if len(rows) else ())
        pieces = [(ranges[at].tp, position, next(batches) if has else None) for at, position, has in head.pieces]
        moved = {tp for tp, _, _ in pieces}
        self._barred |= moved
        for tp in moved:
            self._not_before.pop(tp, None)
        self._put_off([wanted for wanted in ranges if wanted.tp not in moved and not pieces])
        self.why = head.message
        self.replaced |= set(head.replaced)
        if not pieces and head.lost:
            raise DataLossError(self.why, head.error)
        if not pieces and head.error not in {"", "REQUEST_TIMED_OUT"}:
            raise FetchError(self.why, head.error)
        return pieces

    def _due(self, tp: TopicPartition, now: float) -> bool:
        return now >= self._not_before.get(tp, (0.0, 0.0))[0]

    def _put_off(self, ranges: Iterable[Range]) -> None:
        """The driver had nothing of these: they are tried directly meanwhile, longer each time."""
        now = time.monotonic()
        for wanted in ranges:
            pause = min(2 * self._not_before.get(wanted.tp, (0.0, FIRST_S / 2))[1], MOST_PAUSE_S)
            self._not_before[wanted.tp] = now + pause, pause
            self._barred.discard(wanted.tp)
