"""The frames between a task and its agent on their socket, and their order, for both sides.

An abstract unix socket needs no file, and its name is free again the moment its holder is gone, so binding it is the
agent's lock, too.  Any process of the host could connect, or bind the name first: both sides compare the peer's user id
(SO_PEERCRED), and the server wants the run's token.

One request at a time per connection: JSON (``task_requests``), answered by frames (kind, length, body).  A request names
all ranges that a task wants of this agent: a round trip for each of 300 partitions would cost more than their rows.  The
answer goes in steps: where which ranges stand, then the rows that brought them there, if any: in shared memory
(``shared_memory``), or, small ones, in the frame.  The client answers a step that has rows when it asks for the next one,
with the buffers that it has done with; the server is at most ``MOST_STEPS_AHEAD`` such steps ahead.  A direct read has empty steps, too,
while Kafka has nothing, and FRAME_END has its ``DirectEnd``.

A task's claims and reports to the coordinator go by its agent, too, which has a connection open: one of the task's own costs
more than reading a small slot does.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa

FRAME: Final = struct.Struct("!BQ")  # kind, length of the body
FRAME_STEP, FRAME_BATCH, FRAME_SHARED_STEP, FRAME_END, FRAME_ANSWER = range(1, 6)
BUFFER: Final = struct.Struct("!BQQ?")  # number, size, bytes used, whether its descriptor comes along; the step follows
DELIVERED: Final = b"\x01"
NO_ANSWER: Final = b""
"""The body of FRAME_ANSWER where the agent gets no answer from the coordinator."""
MOST_STEPS_AHEAD: Final = 2
_MOST_PROMISED: Final = 8 << 20
"""Bytes of a frame for which memory is taken before they have come: nearly all frames are smaller."""
_PEER: Final = struct.Struct("3i")  # struct ucred: pid, uid, gid


class Served(NamedTuple):
    """One step of serving ranges, which are called by their index in the request.

    ``batch`` holds rows of any of them, in order per partition; ``positions`` are the next offsets (index, offset) of
    those that have moved, whether by rows or by gaps, ``sizes`` the bytes of the rows that moved each.  What is ``missed`` (index, reason) won't come from here any more.
    """

    positions: Sequence[tuple[int, int]]
    batch: pa.RecordBatch | None = None
    missed: Sequence[tuple[int, str]] = ()
    sizes: Sequence[int] = ()


def address(name: str) -> bytes:
    """The socket's abstract name: it begins with a zero byte."""
    return b"\0" + name.encode()


def is_ours(connection: socket.socket) -> bool:
    """Whether the process at the other end is this user's, as the kernel knows it."""
    uid: int = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[1]
    return uid == os.getuid()


def receive(connection: socket.socket) -> tuple[int, bytearray]:
    """The next frame: its kind and its body; raises as ``receive_exactly``."""
    kind, length = FRAME.unpack(receive_exactly(connection, FRAME.size))
    return kind, receive_exactly(connection, length)


def receive_exactly(connection: socket.socket, length: int) -> bytearray:
    """Read ``length`` bytes; raises TimeoutError when none come in time, ConnectionError when the other end is gone.

    For a length that is made up, no more memory is taken than twice of what has come.
    """
    data, count = bytearray(min(length, _MOST_PROMISED)), 0
    while count < length:
        if count == len(data):
            data += bytes(min(count, length - count))
        with memoryview(data) as view:
            n = connection.recv_into(view[count:])
        if n == 0:
            raise ConnectionResetError("connection closed")
        count += n
    return data
