"""The HTTP server of the metrics: few connections at a time, each for a short time.

The endpoint may be open to a network.  A client that is silent, slow, or doesn't read the answer has ``LIMIT_S``, less when
others connect.  Each connection has a thread; there are ``MOST`` at most.
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

POLL_S: Final = 0.1  # how often the loop checks whether the endpoint is closed
LIMIT_S: Final = 10.0
"""The longest scrape, from connection to answer: Prometheus' default scrape_timeout."""
USUAL: Final = 8
"""So many connections may be slow; with one more the oldest is ended."""
MOST: Final = 16
"""One more connection is closed at once: a thread that waits for the coordinator can't be ended."""


class ScrapeHandler(WSGIRequestHandler):
    """One scrape."""

    timeout = LIMIT_S

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  http.server's signature
        """Log nothing for a scrape."""


class MetricsServer(socketserver.ThreadingMixIn, WSGIServer):
    """The server; its loop calls ``tend`` after each ``handle_request``."""

    daemon_threads = True
    timeout = POLL_S
    allow_reuse_port = False  # a second endpoint on the port is an error, not a lottery

    def __init__(self, address: tuple[str, int], family: int) -> None:
        """Bind and listen.  Raises OSError."""
        self.address_family = family
        self._under_way: dict[socket.socket, float] = {}  # time.monotonic() of their beginnings, the oldest first
        self._ended: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(address, ScrapeHandler)

    def server_bind(self) -> None:
        """Bind without the reverse look-up of the address that http.server would make."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def get_request(self) -> tuple[Any, Any]:
        """The next connection; a failure (no descriptor, say) is raised after a pause."""
        try:
            return super().get_request()
        except OSError:
            threading.Event().wait(POLL_S)
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002  socketserver's signature
        """Whether one more connection is served; beyond ``USUAL`` the oldest is ended."""
        with self._lock:
            active = [each for each in self._under_way if each not in self._ended]
            if len(active) >= USUAL:
                self._end(active[0])
            if len(self._under_way) >= MOST:
                return False
            self._under_way[request] = time.monotonic()
        return True

    def shutdown_request(self, request: Any) -> None:
        """A scrape is over (socketserver calls this when its thread is done, or could not start)."""
        with self._lock:
            self._under_way.pop(request, None)
            self._ended.discard(request)
            super().shutdown_request(request)

    def tend(self) -> None:
        """End connections older than ``LIMIT_S``."""
        late = time.monotonic() - LIMIT_S
        with self._lock:
            for request, began in self._under_way.items():
                if began < late:
                    self._end(request)

    def server_close(self) -> None:
        """Close the port and end all connections."""
        super().server_close()
        with self._lock:
            for request in self._under_way:
                self._end(request)

    def _end(self, request: socket.socket) -> None:
        self._ended.add(request)
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)  # its thread reads the end of the stream, or fails to write

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002  socketserver's signature
        """A client hung up: log no traceback."""
        log.debug("a scrape from %s broke off", client_address)
