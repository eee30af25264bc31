"""One request to a schema registry: JSON comes back, within a limit of size and a limit of total time."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.values.registry_settings import PREFIX, TOKEN, RegistrySettings

MOST_BYTES: Final = 16 << 20
"""The largest answer: schemas of a few MiB exist."""
MOST_REDIRECTS: Final = 5
TRANSIENT: Final = (408, 429)  # besides all from 500
_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/vnd.schemaregistry+json, application/json"


class RefusedConnectionError(ConnectionError):
    """No connection to any of the addresses: the port is closed, or the name is unknown."""


class TooLargeError(Exception):
    """More than ``MOST_BYTES``."""


class RegistryStatusError(Exception):
    """An HTTP status other than success, with the registry's own code and message, or 0 and ""."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(f"{message or 'no message'} (HTTP {status})")
        self.status, self.code = status, code

    @property
    def is_transient(self) -> bool:
        """Whether another try, or another address, may have an answer."""
        return self.status >= 500 or self.status in TRANSIENT


class RegistryRequests:
    """Requests to the addresses of a registry, in order until one answers.  For any thread without an event loop."""

    def __init__(self, settings: RegistrySettings) -> None:
        """Reads certificates, sends nothing.  Raises OptionError without the HTTP client, OSError or ValueError for bad files."""
        try:
            import httpx2  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise OptionError(
                f"{PREFIX}url: the HTTP client is not installed ({error.name} is missing);"
                " on the driver and on all executors: pip install 'sparkcohort[registry]'."
            ) from None
        conf, self._http, self._limit_s = settings.conf, httpx2, settings.request_timeout
        self._urls = [url.strip().rstrip("/") for url in conf["url"].split(",")]
        self._client = partial(
            httpx2.AsyncClient,
            verify=_tls(conf, httpx2.create_ssl_context),
            auth=_login(self._urls[0], conf.get("basic.auth.user.info")),
            proxy=conf.get("proxy"),
            headers=_headers(conf),
            timeout=self._limit_s,
            follow_redirects=True,
            max_redirects=MOST_REDIRECTS,
        )
        self._client()  # raises ValueError for a proxy or a header that can't be

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The JSON at ``path``, or the answer to a ``body`` that is sent there.  Raises RegistryStatusError, TooLargeError, RefusedConnectionError, and the HTTP client's errors."""
        return asyncio.run(self._first_answer(path, body))

    async def _first_answer(self, path: str, body: Mapping[str, Any] | None) -> Any:
        last: Exception = ValueError("no address")
        for url in self._urls:
            try:
                # The HTTP client's own timeout is for one read: a registry that sends slowly would never reach it.
                async with asyncio.timeout(self._limit_s):
                    return await self._answer(f"{url}/{path}", body)
            except Exception as error:  # after any other error the next address may answer
                if isinstance(error, TooLargeError) or (
                    isinstance(error, RegistryStatusError) and not error.is_transient
                ):
                    raise
                last = RefusedConnectionError(str(error)) if isinstance(error, self._http.ConnectError) else error
        raise last

    async def _answer(self, url: str, body: Mapping[str, Any] | None) -> Any:
        method = "GET" if body is None else "POST"
        async with self._client() as client, client.stream(method, url, json=body) as response:
            answer = bytearray()
            async for part in response.aiter_raw():
                answer += part
                if len(answer) > MOST_BYTES:
                    raise TooLargeError
        if response.is_success:
            return _read_json(answer)
        raise _status_error(response.status_code, bytes(answer))


def _read_json(body: bytes | bytearray) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):  # a proxy's page, say; numbers and nestings that Python doesn't read
        raise ValueError("the answer is no JSON") from None


def _status_error(status: int, body: bytes) -> RegistryStatusError:
    try:
        answer = _read_json(body)
    except ValueError:
        answer = None
    fields = answer if isinstance(answer, dict) else {}
    code, message = fields.get("error_code"), fields.get("message")
    return RegistryStatusError(status, code if isinstance(code, int) else 0, str(message or "")[:300])


def _tls(conf: Mapping[str, str], default: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    """A context that trusts the file or folder of ``ssl.ca.location``, else the HTTP client's default certificates."""
    authority = conf.get("ssl.ca.location")
    if authority is None:
        context = default()
    elif Path(authority).is_dir():
        context = ssl.create_default_context(capath=authority)
    else:
        context = ssl.create_default_context(cafile=authority)
    if certificate := conf.get("ssl.certificate.location"):
        context.load_cert_chain(certificate, conf.get("ssl.key.location"), conf.get("ssl.key.password", ""))
    return context


def _login(first_url: str, user_info: str | None) -> tuple[str, str] | None:
    """User and password, of the option or of the first address."""
    if user_info is None:
        address = urlsplit(first_url)
        return (unquote(address.username), unquote(address.password or "")) if address.username else None
    user, _, password = user_info.partition(":")
    return user, password


def _headers(conf: Mapping[str, str]) -> dict[str, str]:
    # identity: the limit of size counts the bytes received, and a compressed answer would become larger.
    headers = {"Accept": _ACCEPT, "Accept-Encoding": "identity"}
    if TOKEN in conf:
        headers["Authorization"] = f"Bearer {conf[TOKEN]}"
        headers["target-sr-cluster"] = conf.get("bearer.auth.logical.cluster", "")
    if pool := conf.get("bearer.auth.identity.pool.id"):
        headers["Confluent-Identity-Pool-Id"] = pool
    return headers
