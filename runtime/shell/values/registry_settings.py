"""The options ``schema.registry.*``, by the names of Confluent's clients."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.options import redaction

PREFIX = "schema.registry."
TIMEOUT_MS = f"{PREFIX}timeout.ms"
TOKEN = "bearer.auth.token"  # noqa: S105 - a setting's name
CLIENT_SETTINGS = (
    "url",
    "basic.auth.user.info",
    TOKEN,
    "bearer.auth.logical.cluster",
    "bearer.auth.identity.pool.id",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "proxy",
)
SECRETS = ("basic.auth.user.info", TOKEN, "ssl.key.password")
WITH_LOGIN = ("url", "proxy")
MOST_REQUEST_SECONDS = 10.0
_LOGIN = re.compile(r"//[^/\s]+@")


@dataclass(frozen=True)
class RegistrySettings:
    """The registry's addresses, login and TLS; a schema is waited for ``timeout`` seconds at most."""

    conf: Mapping[str, str] = field(repr=False)
    timeout: float = 30.0

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """The identity of a registry and login."""
        return tuple(sorted(self.conf.items()))

    @property
    def place(self) -> str:
        """The address, without a login."""
        return _LOGIN.sub(rf"//{redaction.REDACTED}@", self.conf["url"])

    def redacted(self, text: str) -> str:
        """A text of a library or registry, without the secrets of these settings."""
        return redaction.redact_secrets(_LOGIN.sub(rf"//{redaction.REDACTED}@", text), _secrets(self.conf))

    @property
    def request_timeout(self) -> float:
        """Seconds that one request may take."""
        return min(self.timeout, MOST_REQUEST_SECONDS)


def read_settings(options: Mapping[str, str]) -> RegistrySettings | None:
    """The registry's settings among a source's options; None where there are none.

    >>> read_settings({"subscribe": "orders"}) is None
    True
    >>> read_settings({"schema.registry.url": "http://sr:8081"}).place
    'http://sr:8081'
    """
    settings = {name: value for name, value in options.items() if name.startswith(PREFIX)}
    if not settings:
        return None
    timeout = _milliseconds(settings.pop(TIMEOUT_MS, "30000"))
    conf = {name.removeprefix(PREFIX): value for name, value in settings.items()}
    if unknown := sorted(conf.keys() - set(CLIENT_SETTINGS)):
        names = ", ".join([*CLIENT_SETTINGS, "timeout.ms"])
        raise OptionError(f"{PREFIX}{unknown[0]}: there is no such option. Behind {PREFIX} there are: {names}.")
    urls = [url.strip() for url in conf.get("url", "").split(",")]
    if not all(map(_is_address, urls)):
        raise OptionError(f"{PREFIX}url: one or more addresses like https://registry:8081 are expected, with commas.")
    if ":" not in conf.get("basic.auth.user.info", ":"):
        raise OptionError(f"{PREFIX}basic.auth.user.info: a user and a password are expected, as user:password.")
    if "basic.auth.user.info" in conf and urlsplit(urls[0]).username is not None:
        raise OptionError(f"{PREFIX}basic.auth.user.info: {PREFIX}url has a login too; leave one of them out.")
    for name in ("ssl.key.location", "ssl.key.password"):
        if name in conf and "ssl.certificate.location" not in conf:
            raise OptionError(f"{PREFIX}{name} needs {PREFIX}ssl.certificate.location, the certificate of that key.")
    if TOKEN in conf and "basic.auth.user.info" in conf:
        raise OptionError(f"{PREFIX}{TOKEN} and {PREFIX}basic.auth.user.info: only one of them can be sent.")
    return RegistrySettings(conf, timeout)


def _is_address(url: str) -> bool:
    try:
        address = urlsplit(url)
        return address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:  # brackets that don't match, a port that is none
        return False


def _milliseconds(text: str) -> float:
    if not re.fullmatch("[0-9]{1,7}", text) or not 0 < int(text) <= 3_600_000:
        raise OptionError(f"{TIMEOUT_MS}: {text[:40]!r} is no number of milliseconds from 1 to an hour.")
    return int(text) / 1000


def _secrets(conf: Mapping[str, str]) -> set[str]:
    """Passwords, tokens and logins in addresses, as written and URL-decoded."""
    secrets = {conf.get(name, "") for name in SECRETS}
    secrets.add(conf.get("basic.auth.user.info", "").partition(":")[2])
    for name in WITH_LOGIN:
        for url in conf.get(name, "").split(","):
            login = urlsplit(url.strip()).netloc.rpartition("@")[0]
            password = login.partition(":")[2]
            secrets |= {login, password, unquote(login), unquote(password)}
    return secrets - {"", ":"}
