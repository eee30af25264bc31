"""The HTTP server of the metrics: few connections at a time, and none for long.

The endpoint may be open to a network: who connects and says nothing, says it slowly, or doesn't read the answer gets
``LIMIT_S``, and less when others come.  A thread each, ``MOST`` of them at most.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import socketserver
import threading
import time
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

log = logging.getLogger("sparkcohort.metrics")

POLL_S: Final = 0.1  # how long a closed endpoint may not have heard of it
LIMIT_S: Final = 10.0
"""For a scrape from connection to answer; Prometheus itself gives up after as much."""
USUAL: Final = 8
"""So many connections may be slow; when more come, the oldest is ended."""
MOST: Final = 16
"""One more is closed at once: threads that the coordinator keeps waiting can't be ended."""


class Quiet(WSGIRequestHandler):
    """One scrape."""

    timeout = LIMIT_S

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  http.server's signature
        """Scrapes are not worth a line."""


class MetricsServer(socketserver.ThreadingMixIn, WSGIServer):
    """See the module; ``tend`` is to be called again and again beside ``handle_request``."""

    daemon_threads = True
    timeout = POLL_S
    allow_reuse_port = False  # a second endpoint on the port is an error, not a lottery

    def __init__(self, address: tuple[str, int], family: int) -> None:
        """Bind and listen.  Raises OSError."""
        self.address_family = family
        self._under_way: dict[socket.socket, float] = {}  # since when, the oldest first; until its thread is done
        self._ended: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(address, Quiet)

    def server_bind(self) -> None:
        """Bind without asking a name server for the address' name, as http.server would."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def get_request(self) -> tuple[Any, Any]:
        """The next scrape; without a descriptor for it, not before others may have been given back."""
        try:
            return super().get_request()
        except OSError:
            threading.Event().wait(POLL_S)
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002  socketserver's signature
        """Whether there is room for one more; the oldest makes room where it can."""
        with self._lock:
            active = [each for each in self._under_way if each not in self._ended]
            if len(active) >= USUAL:
                self._end(active[0])
            if len(self._under_way) >= MOST:
                return False
            self._under_way[request] = time.monotonic()
        return True

    def shutdown_request(self, request: Any) -> None:
        """A scrape is over (socketserver calls this when its thread is done, or was none)."""
        with self._lock:
            self._under_way.pop(request, None)
            self._ended.discard(request)
            super().shutdown_request(request)

    def tend(self) -> None:
        """End what takes too long."""
        late = time.monotonic() - LIMIT_S
        with self._lock:
            for request, began in self._under_way.items():
                if began < late:
                    self._end(request)

    def server_close(self) -> None:
        """Close the port and end what is under way."""
        super().server_close()
        with self._lock:
            for request in self._under_way:
                self._end(request)

    def _end(self, request: socket.socket) -> None:
        self._ended.add(request)
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)  # its thread reads an end, or can't write

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002  socketserver's signature
        """A scraper that hangs up is not worth a traceback."""
        log.debug("a scrape from %s broke off", client_address)
