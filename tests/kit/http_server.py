"""An HTTP server of the test's own on loopback, with a certificate if it has one."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """A caller that hung up, or would not trust our certificate."""


class QuietHandler(BaseHTTPRequestHandler):
    """Writes no log: tests look at what their server was asked."""

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@contextmanager
def http_server(
    handler: type[QuietHandler], *, tls: Path | None = None, client_authority: Path | None = None, port: int = 0
) -> Iterator[str]:
    """The server's URL; ``tls`` is a file with its key and certificate, ``client_authority`` who must sign callers."""
    with _Server(("127.0.0.1", port), handler) as server:
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls)
            if client_authority:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(client_authority)
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
