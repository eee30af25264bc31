"""Who connects is taken on, a thread each, for as long as the process lives, whatever the system lacks for a moment.

Without descriptors, memory or threads ``accept`` fails, and goes on failing at once: it is tried again at a pace.  Who
has connected meanwhile is told at once, not left to wait for its time-out: one descriptor is kept for taking a
connection on and closing it.  A process that could take nobody on for ``DEAF_S`` says so when it is asked: it had better
end, since whoever replaces it starts with nothing open.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from sparkcohort.runtime.shell.process.threads import in_context

_log = logging.getLogger("sparkcohort.local")

DEAF_S: Final = 5.0
PAUSE_S: Final = 0.1


class Acceptor:
    """Accepts on a listening socket; ``converse`` gets each connection that ``admits`` in a thread of its own, and closes it."""

    def __init__(
        self,
        listener: socket.socket,
        admits: Callable[[socket.socket], bool],
        converse: Callable[[socket.socket], None],
    ) -> None:
        """Nothing runs before ``start``."""
        self._listener, self._admits, self._converse = listener, admits, converse
        self._closed = threading.Event()
        self._failing_since: float | None = None  # since when nobody could be taken on,
        self._failure = ""  # and why
        self._taking_since: float | None = None  # since when somebody is being taken on
        self._spare: int | None = None
        self._thread = threading.Thread(target=in_context(self._run), name="cohort-local", daemon=True)

    def start(self) -> None:
        """Accept from now on."""
        self._keep_spare()
        self._thread.start()

    def deaf(self) -> str:
        """Why nobody could be taken on for ``DEAF_S``; "" if all is well."""
        now, failing, taking = time.monotonic(), self._failing_since, self._taking_since
        if failing is not None and now - failing >= DEAF_S:
            return f"no task could be taken on for {DEAF_S:g} s: {self._failure}"
        if taking is not None and now - taking >= DEAF_S:
            return f"a task is being taken on since {DEAF_S:g} s"
        return "" if self._thread.is_alive() or self._closed.is_set() else "nobody takes tasks on any more"

    def close(self) -> None:
        """Accept no more: the listener is free when this returns."""
        self._closed.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self._listener.close()
        if self._thread.is_alive():
            self._thread.join()
        self._give_spare()

    def _run(self) -> None:
        while not self._closed.is_set():
            connection = None
            try:
                self._keep_spare()
                connection, _ = self._listener.accept()
                self._taking_since = time.monotonic()
                if self._admits(connection):
                    task = in_context(self._converse, connection)
                    threading.Thread(target=task, name="cohort-local", daemon=True).start()
                else:
                    connection.close()
            except ConnectionAbortedError:
                pass  # it was gone before it was taken on: nothing is wrong here
            except Exception as error:  # noqa: BLE001  a thread that can't be started is a RuntimeError; whatever it is, it goes on
                if self._closed.is_set():
                    return
                if connection is not None:
                    connection.close()
                self._failed(error)
            else:
                if self._failing_since is not None:
                    _log.info("connections of tasks are accepted again")
                self._failing_since = None
            finally:
                self._taking_since = None

    def _failed(self, error: Exception) -> None:
        self._failure = str(error)
        if self._failing_since is None:
            self._failing_since = time.monotonic()
            _log.warning("a task's connection to this agent could not be accepted, tried again: %s", error)
        self._turn_away()
        self._closed.wait(PAUSE_S)

    def _turn_away(self) -> None:
        """Close what has connected, with the descriptor that is kept for this."""
        self._give_spare()
        try:
            self._listener.settimeout(0)
            while True:
                self._listener.accept()[0].close()
        except OSError:  # nobody is left, or somebody else took the descriptor
            pass
        finally:
            with suppress(OSError):  # it may be closed by now
                self._listener.settimeout(None)

    def _keep_spare(self) -> None:
        if self._spare is None:
            with suppress(OSError):
                self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def _give_spare(self) -> None:
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
