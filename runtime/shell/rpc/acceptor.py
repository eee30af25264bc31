"""Connections to a listening socket, each in a thread of its own, for as long as the process lives.

A process that gets no descriptor, memory or thread for a connection says so and is to end: the next task starts another
one, with nothing open.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from sparkcohort.runtime.shell.rpc.threads import in_context


class Acceptor:
    """``converse`` gets each connection that ``admits`` in a thread of its own, and closes it; ``fail`` is told why none can be had."""

    def __init__(
        self,
        listener: socket.socket,
        admits: Callable[[socket.socket], bool],
        converse: Callable[[socket.socket], None],
        fail: Callable[[str], object],
    ) -> None:
        """Nothing runs before ``start``."""
        self._listener, self._admits, self._converse, self._fail = listener, admits, converse, fail
        self._closed = False
        self._thread = threading.Thread(target=in_context(self._run), name="cohort-local", daemon=True)

    def start(self) -> None:
        """Accept from now on."""
        self._thread.start()

    def close(self) -> None:
        """Accept no more: the listener is free when this returns."""
        self._closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self._listener.close()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._closed:
                with suppress(ConnectionAbortedError):  # it was gone before it was accepted
                    self._begin(self._listener.accept()[0])
        except BaseException as error:  # noqa: BLE001  no thread dies unseen
            if not self._closed:
                self._fail(f"no task's connection can be accepted: {error}")

    def _begin(self, connection: socket.socket) -> None:
        try:
            if self._admits(connection):
                task = in_context(self._converse, connection)
                threading.Thread(target=task, name="cohort-local", daemon=True).start()
            else:
                connection.close()
        except BaseException:
            connection.close()
            raise
