"""What the driver's port answers: the page, its document and the changes of it, health, and Prometheus' metrics.

Read only.  A page of another site must learn nothing by a name that it points at loopback: ``Host`` is checked there.
"""

from __future__ import annotations

import os
import threading
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from ipaddress import ip_address
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener
from wsgiref.types import StartResponse
from wsgiref.types import WSGIApplication as Application

import msgspec

from sparkcohort import dashboards
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.driver.document import schema
from sparkcohort.runtime.shell.driver.live_feed import LiveFeed
from sparkcohort.runtime.shell.rpc.connection_file import live
from sparkcohort.runtime.shell.rpc.process_identity import parent

Status = Mapping[str, Any]
STREAMS: Final = 32
MOST: Final = 16
"""Other requests at a time: a thread that waits for the coordinator can't be ended."""
HEALTH_S: Final = 1.0
_OPENER: Final = build_opener(ProxyHandler({}))  # a proxy of the environment doesn't reach this host's own ports
_PLAIN: Final = "text/plain; charset=utf-8"
_JSON: Final = "application/json"
_SAFE: Final = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)


class LivePage:
    """The WSGI application of the port.  ``status`` and ``rebalance`` (by its generation) may be called from any thread."""

    def __init__(
        self, metrics: Application, status: Callable[[], Status], rebalance: Callable[[int], Status], *, loopback: bool
    ) -> None:
        """``loopback``: the port is for this host only."""
        self._metrics, self._status, self._rebalance, self._loopback = metrics, status, rebalance, loopback
        self._feed = LiveFeed(status)
        self._streams, self._requests = threading.BoundedSemaphore(STREAMS), threading.BoundedSemaphore(MOST)

    def close(self) -> None:
        """End the streams."""
        self._feed.close()

    def __call__(self, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        host, path = environ.get("HTTP_HOST", ""), environ.get("PATH_INFO") or "/"
        if environ["REQUEST_METHOD"] not in (("GET",) if path == "/events" else ("GET", "HEAD")):
            return _answer(start, "405 Method Not Allowed", "read only\n")
        if self._loopback and host and not _is_loopback(host):
            words = "this port is for its own host: ask for it as localhost, or have your proxy send Host: localhost\n"
            return _answer(start, "403 Forbidden", words)
        slots = self._streams if path == "/events" else self._requests
        if not slots.acquire(blocking=False):
            return _answer(start, "503 Service Unavailable", "too many viewers\n")
        if path == "/events":  # its slot is given back when it ends
            start("200 OK", [("Content-Type", "text/event-stream"), ("X-Accel-Buffering", "no"), *_SAFE])
            return _EventStream(self._feed.events(environ.get("HTTP_LAST_EVENT_ID", "")), slots)
        try:
            return self._respond(path, environ, start)
        except (CohortError, TimeoutError, OSError) as error:
            return _answer(start, "503 Service Unavailable", f"{str(error) or type(error).__name__}\n")
        finally:
            slots.release()

    def _respond(self, path: str, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        match path.split("/")[1:]:
            case ["metrics"]:
                return self._metrics(environ, start)
            case ["healthz"]:
                wrong = _what_is_wrong(self._status)
                return _answer(start, "503 Service Unavailable" if wrong else "200 OK", f"{wrong or 'ok'}\n")
            case [""]:
                text, policy = _page()
                return _answer(start, "200 OK", text, "text/html; charset=utf-8", ("Content-Security-Policy", policy))
            case ["status.json"]:
                return _answer(start, "200 OK", msgspec.json.encode(self._status()), _JSON)
            case ["schema.json"]:
                return _answer(start, "200 OK", msgspec.json.encode(schema()), _JSON)
            case ["queries.json"]:
                return _answer(start, "200 OK", msgspec.json.encode(_queries()), _JSON)
            case ["rebalances", name] if name.isdecimal():
                return _answer(start, "200 OK", msgspec.json.encode(self._rebalance(int(name[:18]))), _JSON)
        return _answer(start, "404 Not Found", "the page is at /, metrics at /metrics\n")


class _EventStream:
    """An event stream that gives its slot back when the server closes it, even if it never began."""

    def __init__(self, events: Iterator[bytes], slots: threading.BoundedSemaphore) -> None:
        self._events, self._slots = events, slots

    def __iter__(self) -> Iterator[bytes]:
        return self._events

    def close(self) -> None:
        """PEP 3333: called once, however the stream ended."""
        self._slots.release()


def _answer(
    start: StartResponse, code: str, body: str | bytes, kind: str = _PLAIN, *headers: tuple[str, str]
) -> list[bytes]:
    data = body.encode() if isinstance(body, str) else body
    start(code, [("Content-Type", kind), ("Content-Length", str(len(data))), *_SAFE, *headers])
    return [data]


def _is_loopback(host: str) -> bool:
    """Whether a ``Host`` names this host as nobody else's name server can."""
    name = host.rpartition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name.lower() == "localhost" or name.lower().endswith(".localhost")


@cache
def _page() -> tuple[str, str]:
    """The page as one document, and the policy under which it runs nothing but its own script."""
    style, script = dashboards.text(dashboards.PAGE_STYLE), "".join(map(dashboards.text, dashboards.PAGE_SCRIPTS))
    text = dashboards.text(dashboards.PAGE).replace("/*style*/", style).replace("/*script*/", script)
    hashes = [b64encode(sha256(part.encode()).digest()).decode() for part in (style, script)]
    return text, (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    )


def _queries() -> list[dict[str, str]]:
    """The queries of this application that have a page, and how each is: Spark's JVM is the parent of their processes."""
    application = os.getppid()
    runs = [run for run in live() if run.page and parent(run.pid) == application]
    return [{"group": run.group_id, "page": run.page, "health": _health(run.page)} for run in runs]


def _health(page: str) -> str:
    try:
        with _OPENER.open(f"{page}healthz", timeout=HEALTH_S) as answer:
            return str(answer.read(200).decode().strip())
    except HTTPError as error:
        return str(error.read(200).decode().strip())
    except (OSError, ValueError) as error:
        return f"no answer: {error}"


def _what_is_wrong(status: Callable[[], Status]) -> str:
    try:
        current = status()
    except (CohortError, TimeoutError, OSError) as error:
        return f"the coordinator does not answer: {str(error) or type(error).__name__}"
    if not current:
        return "the query is ending"
    return "a newer driver has taken the group over" if current["fenced"] else ""
