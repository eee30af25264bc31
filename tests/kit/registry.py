"""A schema registry over HTTP: the documented REST calls, kept in memory, with faults to switch on.

``POST /subjects/S[/versions]``, ``GET /subjects``, ``GET /subjects/S/versions[/N|latest]``, ``GET /schemas/ids/N``, ``GET /schemas/guids/G``,
with references, basic and bearer authentication, TLS, and the error codes 40401 (subject), 40402 (version), 40403 (schema).
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import NAMESPACE_URL, uuid5

from tests.kit.http_server import QuietHandler, http_server

NOT_FOUND = {40401: "Subject not found.", 40402: "Version not found.", 40403: "Schema not found"}


class Registry:
    """The schemas, what was asked, and the faults: ``status`` answers all with it, ``held`` keeps callers waiting."""

    def __init__(self, *, user_info: str = "", token: str = "") -> None:
        self.url = ""
        self.requests: list[str] = []
        self.headers: list[Mapping[str, str]] = []  # of each request
        self.status = 0
        self.nonsense = False
        self.says: Any = ...  # the answer to everything, whatever it is
        self.held = threading.Event()
        self.held.set()
        self._authorization = {f"Bearer {token}"} if token else set()
        if user_info:
            self._authorization.add(f"Basic {base64.b64encode(user_info.encode()).decode()}")
        self._schemas: list[dict[str, Any]] = []
        self._subjects: dict[str, list[int]] = {}
        self._lock = threading.Lock()

    def register(self, subject: str, schema: Any, kind: str = "AVRO", references: Any = ()) -> int:
        """A new version of a subject; the schema's id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        entry = {"schema": text, "schemaType": kind, "references": list(references)}
        with self._lock:
            if entry not in self._schemas:
                self._schemas.append(entry)
            number = self._schemas.index(entry) + 1
            versions = self._subjects.setdefault(subject, [])
            if number not in versions:
                versions.append(number)
        return number

    def answer(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, Any]:
        """Status and JSON."""
        self.requests.append(f"{method} {path}")
        self.headers.append(headers)
        self.held.wait(30)
        if self.status:
            return self.status, {"error_code": self.status * 100 + 1, "message": "as asked for"}
        if self.says is not ...:
            return 200, self.says
        if self._authorization and headers.get("Authorization") not in self._authorization:
            return 401, {"error_code": 401, "message": "Unauthorized"}
        if method == "POST" and (found := re.fullmatch(r"/subjects/([^/]+)/versions", path)):
            given = json.loads(body)
            references = given.get("references", [])
            number = self.register(unquote(found[1]), given["schema"], given.get("schemaType", "AVRO"), references)
            return 200, {"id": number, "guid": guid(number), **self._shown(number)}
        if method == "POST" and (found := re.fullmatch(r"/subjects/([^/]+)", path)):
            return self._looked_up(unquote(found[1]), json.loads(body))
        if method == "GET" and path == "/subjects":
            return 200, sorted(self._subjects)
        if method == "GET" and (found := re.fullmatch(r"/schemas/ids/(\d+)", path)):
            number = int(found[1])
            return (200, self._shown(number)) if 0 < number <= len(self._schemas) else _missing(40403)
        if method == "GET" and (found := re.fullmatch(r"/schemas/guids/([-0-9a-f]+)", path)):
            numbers = [number + 1 for number in range(len(self._schemas)) if guid(number + 1) == found[1]]
            return (200, self._shown(numbers[0])) if numbers else _missing(40403)
        if method == "GET" and (found := re.fullmatch(r"/subjects/([^/]+)/versions(?:/([^/]+))?", path)):
            return self._versions(unquote(found[1]), found[2])
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _shown(self, number: int) -> dict[str, Any]:
        """As the registry does: AVRO is not said, nor are references that aren't there."""
        entry = self._schemas[number - 1]
        return {key: value for key, value in entry.items() if value and value != "AVRO"}

    def _versions(self, subject: str, version: str | None) -> tuple[int, Any]:
        numbers = self._subjects.get(subject)
        if numbers is None:
            return _missing(40401)
        if version is None:
            return 200, [place + 1 for place in range(len(numbers))]
        place = len(numbers) if version == "latest" else int(version)
        if not 0 < place <= len(numbers):
            return _missing(40402)
        number = numbers[place - 1]
        return 200, {"subject": subject, "version": place, "id": number, **self._shown(number)}

    def _looked_up(self, subject: str, given: dict[str, Any]) -> tuple[int, Any]:
        if (numbers := self._subjects.get(subject)) is None:
            return _missing(40401)
        entry = {"schemaType": "AVRO", "references": [], **given}
        places = [place for place, number in enumerate(numbers) if self._schemas[number - 1] == entry]
        if not places:
            return _missing(40403)
        return 200, {"subject": subject, "version": places[0] + 1, "id": numbers[places[0]]}


def guid(schema_id: int) -> str:
    """The other name of a schema."""
    return str(uuid5(NAMESPACE_URL, f"schema/{schema_id}"))


def _missing(code: int) -> tuple[int, Any]:
    return 404, {"error_code": code, "message": NOT_FOUND[code]}


def _handler(registry: Registry) -> type[QuietHandler]:
    class Handler(QuietHandler):
        """One request."""

        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path = urlsplit(self.path).path
            status, answer = registry.answer(self.command, path, body, dict(self.headers))
            data = b"<html>" if registry.nonsense else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _do  # noqa: N815 - the names that http.server calls

    return Handler


@contextmanager
def serving(
    *,
    user_info: str = "",
    token: str = "",
    tls: Path | None = None,
    client_authority: Path | None = None,
    port: int = 0,
    schemas: Mapping[str, Any] | None = None,
) -> Iterator[Registry]:
    """A registry on loopback, with ``schemas`` by subject from the start.

    ``tls`` is a file with its key and certificate, ``client_authority`` who must sign callers.
    """
    registry = Registry(user_info=user_info, token=token)
    for subject, schema in (schemas or {}).items():
        registry.register(subject, schema)
    with http_server(_handler(registry), tls=tls, client_authority=client_authority, port=port) as registry.url:
        try:
            yield registry
        finally:
            registry.held.set()
