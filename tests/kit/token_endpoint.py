"""A token endpoint on loopback (RFC 6749, 4.4): gives unsecured tokens, which ``Broker(tokens=True)`` takes, for an id and a secret.

Usage::

    with TokenEndpoint(lifetime_s=5) as endpoint:                # tls=FILE with its key and certificate: HTTPS
        options = endpoint.options(broker.at["SASL_PLAINTEXT"])  # kafka.* options of a query
        endpoint.requests                                        # of each: its headers and its form
        endpoint.answer = 503, b"busy"                           # from now on; None ends it
"""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs

from tests.kit.http_server import QuietHandler, http_server
from tests.kit.tokens import token

CLIENT, SECRET = "alice", "Secret-0f-alice+/="


class TokenEndpoint:
    """Listens from the start of its block to the end."""

    def __init__(self, *, lifetime_s: float = 300, tls: Path | None = None) -> None:
        """``lifetime_s`` of the tokens."""
        self.lifetime_s = lifetime_s
        self.answer: tuple[int, bytes] | None = None
        self.requests: list[tuple[dict[str, str], dict[str, str]]] = []
        self._server = http_server(_handler(self), tls=tls)
        self.url = ""

    def options(self, bootstrap: str, **more: str) -> dict[str, str]:
        """Options of a query that logs in by it; ``more`` with ``__`` for ``.``, without ``kafka.``."""
        login = {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": CLIENT,
            "sasl.oauthbearer.client.secret": SECRET,
            "sasl.oauthbearer.token.endpoint.url": self.url,
        }
        return {f"kafka.{name}": value for name, value in login.items()} | {
            f"kafka.{name.replace('__', '.')}": value for name, value in more.items()
        }

    def given(self, headers: dict[str, str], form: dict[str, str]) -> tuple[int, bytes]:
        """What it says to a request."""
        self.requests.append((headers, form))
        if self.answer is not None:
            return self.answer
        pair = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if headers.get("Authorization") != f"Basic {pair}" or form.get("grant_type") != "client_credentials":
            return 401, json.dumps({"error": "invalid_client", "error_description": headers["Authorization"]}).encode()
        made = {"access_token": token(CLIENT, time.time() + self.lifetime_s), "token_type": "Bearer", "expires_in": 9}
        return 200, json.dumps(made).encode()

    def __enter__(self) -> Self:
        """Serve."""
        self.url = self._server.__enter__() + "/token"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End."""
        self._server.__exit__(kind, error, at)


def _handler(endpoint: TokenEndpoint) -> type[QuietHandler]:
    class Handler(QuietHandler):
        """One request."""

        def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
            """A token, or why not."""
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            status, data = endpoint.given(dict(self.headers), form)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(data)

    return Handler
