"""Direct reads of an agent for its tasks: ranges that it has not fetched ahead, as a task itself would read them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from sparkcohort.runtime.batches.record_sizes import WHOLE_BYTES, WHOLE_ROWS
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.agent.buffers import concat_batches
from sparkcohort.runtime.shell.agent.task_frames import Served
from sparkcohort.runtime.shell.kafka.fetch.direct_read import DirectRead, ReadOptions
from sparkcohort.runtime.shell.kafka.fetch.events import Piece
from sparkcohort.runtime.shell.kafka.fetch.relay import RelayedReader

_log = logging.getLogger("sparkcohort.task")

WAIT_S: Final = 2.0
"""How long a task waits for its turn, without a word to it; then it reads by itself."""


class RangeService:
    """Reads in the threads of the tasks' connections, ``most`` at a time: each has a client, and what that has fetched."""

    def __init__(self, options: ReadOptions, most: int, relay: Callable[[bytes], bytes] | None = None) -> None:
        """Opens nothing; ``relay`` is the call to the driver where this executor does not reach a leader."""
        self._options, self._relay = options, relay
        self._turns = threading.BoundedSemaphore(most)

    def serve(self, request: calls.AgentRequest, send: Callable[[Served], None]) -> calls.DirectEnd:
        """Send the steps, and empty ones while Kafka has nothing, so that the task knows of its agent.

        Ranges that don't come to their ends are the task's to read: it meets the same failure, and ends with its text.
        """
        if not self._turns.acquire(timeout=WAIT_S):
            return calls.DirectEnd()
        elsewhere = RelayedReader(self._relay) if self._relay else None
        reading = DirectRead(self._options, elsewhere, on_idle=lambda: send(Served(())))
        try:
            for step in _join_pieces(reading.pieces(request.ranges, request.ids or {}), request.ranges):
                send(step)
        except CohortError as error:
            _log.info("a task reads by itself what its agent could not read: %s", error)
        finally:
            self._turns.release()
        return reading.end


def _join_pieces(pieces: Iterable[Piece], ranges: Sequence[Range]) -> Iterator[Served]:
    """The pieces as steps, small batches joined; see ``streaming.direct_read.packed``."""
    places = {item.tp: place for place, item in enumerate(ranges)}
    pending, rows, nbytes = list[Piece](), 0, 0
    for piece in pieces:
        _, _, batch = piece
        more_rows, more_bytes = (0, 0) if batch is None else (batch.num_rows, batch.nbytes)
        if rows and more_rows and (rows + more_rows > WHOLE_ROWS or nbytes + more_bytes > WHOLE_BYTES):
            yield _step(pending, places)
            pending, rows, nbytes = [], 0, 0
        pending.append(piece)
        rows, nbytes = rows + more_rows, nbytes + more_bytes
    if pending:
        yield _step(pending, places)


def _step(pieces: Sequence[Piece], places: Mapping[TopicPartition, int]) -> Served:
    positions = {places[tp]: position for tp, position, _ in pieces}
    sizes, batches = dict.fromkeys(positions, 0), list[pa.RecordBatch]()
    for tp, _, batch in pieces:
        if batch is not None:
            sizes[places[tp]] += batch.nbytes
            batches.append(batch)
    return Served(tuple(positions.items()), concat_batches(batches), (), tuple(sizes.values()))
