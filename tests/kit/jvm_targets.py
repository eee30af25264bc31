"""What the reader in the JVM gets from an agent, as targets of ``targets``: a JVM that ends, by a signal or by an error that is no MalformedAnswer, breaks them."""

from __future__ import annotations

import atexit
import os
import re
import secrets
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from fcntl import ioctl
from functools import cache
from pathlib import Path
from select import POLLHUP, poll
from termios import TIOCOUTQ
from typing import Final

import pyarrow as pa

from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.partitions import Range
from sparkcohort.runtime.shell.agent import task_frames as frames
from tests.kit.arrow_in_java import DDL, ReaderInJava, stream, typed_batch
from tests.kit.targets import Target

FRAME, DESCRIPTOR, MEMORY, GONE = b"<frame>", b"<descriptor>", b"<memory>", b"<gone>"
RAW: Final = 0x80
ROWS: Final = pa.table({"key": ["k", None, "ü"], "offset": [5, 6, 7]}).to_batches()[0]
ROWS_DDL: Final = "key string, offset bigint"


@cache
def _java(program: str) -> ReaderInJava:
    """One JVM for all inputs of this process."""
    folder = tempfile.TemporaryDirectory()
    running = ReaderInJava(Path(folder.name), program).__enter__()
    atexit.register(folder.cleanup)
    atexit.register(running.__exit__, None, None, None)
    return running


def arrow(data: bytes) -> None:
    """The rows of an Arrow stream, or what it is not."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        Path(file.name).write_bytes(data)
        answer = _java("ArrowBatches").ask(f"{DDL}\t{file.name}")
    assert answer.startswith(("[", "malformed: ")), answer


class ScriptedAgent:
    """Answers each connection with the script of the moment: frames apart by ``FRAME``, kind first, and what its buffers hold.

    A frame whose kind is ``RAW`` or more is sent without head.
    """

    def __init__(self, process: str) -> None:
        """Serves the tasks of this process, until ours ends."""
        self.run, self.script = secrets.token_hex(4), b""
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(frames.address(f"cohort-{self.run}-{process}"))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection, suppress(OSError):  # the reader may have had enough
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(20)
        script, _, memory = self.script.partition(MEMORY)
        descriptor = os.memfd_create("script")
        try:
            os.write(descriptor, memory or b"\0")
            for piece in _pieces(script):
                if piece is None:
                    socket.send_fds(connection, [frames.DELIVERED], [descriptor])
                else:
                    connection.sendall(piece)
            if GONE not in self.script:
                _wait_until_read(connection)
        finally:
            os.close(descriptor)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass


def _pieces(script: bytes) -> Iterator[bytes | None]:
    """What goes over the socket; None is a descriptor."""
    for frame in script.split(FRAME):
        head, *behind = frame.split(DESCRIPTOR)
        yield frames.FRAME.pack(head[0], len(head) - 1) + head[1:] if head and head[0] < RAW else head
        for piece in behind:
            yield None
            yield piece


def _wait_until_read(connection: socket.socket) -> None:
    """Until the reader has all that was sent, or has enough."""
    left = poll()
    left.register(connection, POLLHUP)
    while not left.poll(1):
        if not int.from_bytes(ioctl(connection, TIOCOUTQ, bytes(4)), sys.byteorder):
            return


@cache
def _agent() -> ScriptedAgent:
    return ScriptedAgent(_java("SlotReads").ask("name"))


def slot(data: bytes) -> None:
    """The rows of a slot as far as its agent has them; whatever is wrong with the rest, a Python worker would read on."""
    agent = _agent()
    agent.script = data
    answer = _java("SlotReads").ask(f"{ROWS_DDL}\t{agent.run}\t1")
    assert re.fullmatch(r"\d+ [01]", answer), answer


def _answers() -> Iterator[bytes]:
    claimed = calls.encode(calls.ClaimReply((Range("t", 0, 5, 9),), (5,), 7, {"t": "id"}, agent=True))
    step = calls.encode(calls.Step(((0, 9),), (), rows=True, sizes=(40,)))
    missed = calls.encode(calls.Step(((0, 5),), ((0, "gone"),), rows=False))
    rows = stream(ROWS)
    answer, end = bytes([frames.FRAME_ANSWER]) + claimed, bytes([frames.FRAME_END])
    shared = bytes([frames.FRAME_SHARED_STEP])
    lent, again = (frames.BUFFER.pack(0, len(rows), len(rows), new) for new in (True, False))
    framed = bytes([frames.FRAME_STEP]) + step, bytes([frames.FRAME_BATCH]) + rows
    yield FRAME.join((answer, shared + lent + step + DESCRIPTOR, shared + again + step, end)) + MEMORY + rows
    yield FRAME.join((answer, *framed, bytes([frames.FRAME_STEP]) + missed, end))
    yield FRAME.join((bytes([frames.FRAME_ANSWER]) + calls.encode(calls.ClaimReply((), (), 0, {}, agent=True)), end))


KEYS: Final = (
    b'"ranges"',
    b'"positions"',
    b'"sizes"',
    b'"missed"',
    b'"agent":true',
    b'"error"',
    b"[0,7]",
    b'["t",0,5,9]',
)
LENGTHS: Final = (b"\0\0\0\0\0\0\0\x01", b"\0\0\0\0\x80\0\0\0", b"\x80\0\0\0\0\0\0\x08", b"\0\0\1\0\0\0\0\0")

TARGETS = (
    Target("arrow_in_java", arrow, lambda: [stream(typed_batch(10)), stream(typed_batch(0))], LENGTHS),
    Target("slot_in_java", slot, lambda: list(_answers()), (*KEYS, *LENGTHS, FRAME, DESCRIPTOR, MEMORY, GONE)),
)
