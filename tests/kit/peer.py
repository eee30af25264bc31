"""A server that takes one connection at a time and does with it what a test says: for answers no broker gives."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36


@contextmanager
def peer(behave: Callable[[socket.socket], None], host: str = "127.0.0.1") -> Iterator[int]:
    """Listen on the port yielded; every connection is given to ``behave`` and closed after it."""
    ended = threading.Event()
    with socket.create_server((host, 0)) as listener:

        def serve() -> None:
            while True:
                accepted, _ = listener.accept()
                with accepted:
                    if ended.is_set():
                        return
                    with contextlib.suppress(OSError, struct.error):  # a client that has enough hangs up
                        behave(accepted)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            ended.set()
            socket.create_connection(listener.getsockname()[:2]).close()
            thread.join()


def until_gone(connected: socket.socket) -> None:
    """Read and say nothing, until the other side hangs up."""
    while connected.recv(1 << 16):
        pass


def request(connected: socket.socket) -> tuple[int, bytes, bytes]:
    """The next request: its key, the first four bytes of its answer's body, which are its number, and its own body."""
    with connected.makefile("rb") as file:
        (size,) = struct.unpack(">i", file.read(4))
        frame = file.read(size)
    key, version, number, client = struct.unpack(">hh4sh", frame[:10])
    return key, number, frame[10 + client + (key == API_VERSIONS and version >= 3) :]


def reply(connected: socket.socket, body: bytes) -> None:
    """Send an answer, which begins with its request's number, as a frame."""
    connected.sendall(struct.pack(">i", len(body)) + body)


def tell_versions(connected: socket.socket) -> None:
    """Answer the question for the versions: all that a login needs, in version 3."""
    _, number, _ = request(connected)
    entries = b"".join(
        struct.pack(">hhhb", key, 0, 1, 0) for key in (3, API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE)
    )
    reply(connected, number + struct.pack(">hb", 0, 5) + entries + struct.pack(">ib", 0, 0))
