"""Shared memory between an agent and one of its tasks: a batch is copied once, into it, and read where it lies.

The agent's side of a connection is a ``BufferProducer``: it writes a batch into a buffer, a file in memory, and sends the buffer's
descriptor along the first time.  The task's side is a ``BufferConsumer``: it maps the buffer, and the batch that it makes of it
refers to that memory; when the last reference is gone the buffer goes back, to be written again.  Small batches, very
large ones, and those that find no buffer free go through the socket.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections import deque
from typing import NamedTuple

import pyarrow as pa

BUFFERS = 4
"""Most buffers of one connection: one being read, one that the reader still refers to, and one written meanwhile.

And one more: PySpark keeps the first batch of a task until the task ends (``records_to_arrow_batches``)."""

LEAST_BYTES = 64 << 10
MOST_BYTES = 8 << 20  # twice a batch's: of what single records make larger each task would hold four
_STREAM_BYTES = 16 << 10  # the schema and the frames of a stream of one batch, generously
_GRAIN = 1 << 20


class SharedBatch(NamedTuple):
    """A batch in shared memory: the buffer's number and size, the bytes used, and a descriptor if the buffer is new."""

    buffer: int
    size: int
    nbytes: int
    descriptor: int | None


class _SharedBuffer:
    """A file in memory, mapped for writing."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.descriptor = os.memfd_create("cohort-batch", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.descriptor, size)
            # A reader of memory that is cut off behind it gets SIGBUS (mmap(2)): the size stays.
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
            self.memory = pa.py_buffer(mmap.mmap(self.descriptor, size))
        except OSError:
            os.close(self.descriptor)
            raise

    def close(self) -> None:
        """Close the descriptor; the memory goes with its last mapping."""
        os.close(self.descriptor)


class BufferProducer:
    """The buffers of one connection, on the agent's side; for one thread."""

    def __init__(self) -> None:
        """No buffer yet."""
        self._buffers: dict[int, _SharedBuffer] = {}
        self._free: list[int] = []

    def lend(self, batch: pa.RecordBatch) -> SharedBatch | None:
        """Copy a batch into a buffer; None where it is to go through the socket."""
        size = pa.ipc.get_record_batch_size(batch)
        if not LEAST_BYTES <= size <= MOST_BYTES:
            return None
        number, new = self._free_buffer(size + _STREAM_BYTES)
        if number is None:
            return None
        buffer = self._buffers[number]
        sink = pa.FixedSizeBufferWriter(buffer.memory)
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        return SharedBatch(number, buffer.size, sink.tell(), buffer.descriptor if new else None)

    def take_back(self, numbers: bytes) -> None:
        """These are free again.  Raises KeyError for one that isn't lent."""
        for number in numbers:
            if number not in self._buffers or number in self._free:
                raise KeyError(number)
            self._free.append(number)

    def close(self) -> None:
        """Give all buffers up: the memory of one that is still read goes with its reader."""
        while self._buffers:
            self._buffers.popitem()[1].close()

    def _free_buffer(self, size: int) -> tuple[int | None, bool]:
        """The number of a free buffer with room, and whether it is new."""
        for number in self._free:
            if self._buffers[number].size >= size:
                self._free.remove(number)
                return number, False
        if len(self._buffers) >= BUFFERS:
            if not self._free:
                return None, False
            self._buffers.pop(self._free.pop()).close()
        return self._new(size), True

    def _new(self, size: int) -> int | None:
        try:
            buffer = _SharedBuffer(-(-size // _GRAIN) * _GRAIN)
        except OSError:  # no memory of this kind, or no descriptors: the socket carries everything
            return None
        # A buffer is given up only when it is free, so no reader has its number.
        number = next(each for each in range(BUFFERS) if each not in self._buffers)
        self._buffers[number] = buffer
        return number


class _Lease:
    """A batch's reference to its buffer; the buffer goes back when the last one is gone."""

    __slots__ = ("_ended", "_memory", "_number")

    def __init__(self, number: int, memory: pa.Buffer, ended: deque[int]) -> None:
        self._number, self._memory, self._ended = number, memory, ended

    def __del__(self) -> None:
        self._ended.append(self._number)


class BufferConsumer:
    """The buffers of one connection, on the task's side."""

    def __init__(self) -> None:
        """No buffer yet."""
        self._memory: dict[int, pa.Buffer] = {}
        self._ended: deque[int] = deque()

    def read(self, lent: SharedBatch) -> pa.RecordBatch:
        """The batch, in place.  Takes the descriptor.

        Raises OSError, ValueError, KeyError, and what Arrow raises of bytes that are no batch, or none of a buffer.
        """
        if lent.descriptor is not None:
            try:
                mapped = mmap.mmap(lent.descriptor, lent.size, prot=mmap.PROT_READ)
            finally:
                os.close(lent.descriptor)
            self._memory[lent.buffer] = pa.py_buffer(mapped)
        memory = self._memory[lent.buffer]
        if lent.nbytes > memory.size:
            raise ValueError(f"{lent.nbytes} bytes of a buffer of {memory.size}")
        lease = _Lease(lent.buffer, memory, self._ended)
        return pa.ipc.open_stream(pa.foreign_buffer(memory.address, lent.nbytes, lease)).read_next_batch()

    def ended(self) -> bytes:
        """The numbers of the buffers that go back."""
        numbers = bytearray()
        while self._ended:
            numbers.append(self._ended.popleft())
        return bytes(numbers)
