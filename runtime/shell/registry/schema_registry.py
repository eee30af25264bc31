"""A schema registry, asked by Confluent's own client; what goes wrong is one of three errors, without a secret."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from sparkcohort.runtime.errors import CohortError, OptionError
from sparkcohort.runtime.shell.registry.settings import PREFIX, RegistrySettings

NO_SUCH = (40401, 40402, 40403)  # subject, version, schema
LOGIN = (401, 403)
TRANSIENT = (408, 429)  # besides all from 500
FIRST_PAUSE, MOST_PAUSE = 0.1, 2.0
MOST_REFERENCES = 100


class RegistryError(CohortError):
    """The registry can't or won't answer; the message says which it is and what for."""


class RegistryUnavailableError(RegistryError):
    """No answer in time: it is away, slow, or fails itself."""


class NotYetKnownError(RegistryUnavailableError):
    """There is no such id for now: a follower that is behind its leader says so of a schema that is a second old."""


class UnknownSchemaError(RegistryError):
    """There is no such id, subject or version."""


@dataclass(frozen=True, slots=True)
class RegisteredText:
    """A schema as the registry has it; ``references`` are the texts it refers to, each behind those it needs itself."""

    kind: str  # AVRO, PROTOBUF, JSON
    text: str
    references: tuple[str, ...] = ()


class ReaderSchema(NamedTuple):
    """A subject's version."""

    subject: str
    version: int
    schema_id: int
    schema: RegisteredText


def subject_name(topic: str, part: str, subject: str = "") -> str:
    """The subject of a topic's keys or values, by Confluent's TopicNameStrategy unless another is asked for.

    >>> subject_name("orders", "value"), subject_name("orders", "key", "shop.Order")
    ('orders-value', 'shop.Order')
    """
    return subject or f"{topic}-{part}"


class SchemaRegistry:
    """One registry, for any thread; ``stopped`` ends what waits."""

    def __init__(self, settings: RegistrySettings, stopped: threading.Event | None = None) -> None:
        """Nothing is asked yet.  OptionError where the settings or the client are wrong."""
        self._settings = settings
        self._stopped = stopped or threading.Event()
        self._client = self._redacting(lambda: _client(settings))

    @property
    def place(self) -> str:
        """Where it is, without a login."""
        return self._settings.place

    @property
    def timeout_s(self) -> float:
        """How long a schema may be waited for."""
        return self._settings.timeout

    def close(self) -> None:
        """End what waits, and the connections."""
        self._stopped.set()
        self._client.close()

    def by_id(self, schema_id: int | str) -> RegisteredText:
        """The schema of a record's id, or of its GUID."""
        ask = self._client.get_schema if isinstance(schema_id, int) else self._client.get_schema_by_guid
        found = self._ask(f"schema {schema_id}", partial(ask, schema_id))
        return self._whole(found)

    def reader_schema(self, subject: str, version: str = "latest") -> ReaderSchema:
        """The schema that a subject has now, or that it had as ``version``."""
        if version != "latest" and not (version.isdecimal() and int(version)):
            raise OptionError(f"schema version {version[:40]!r}: 'latest' or a number from 1 is expected.")
        what = f"subject {subject!r}, version {version}"
        number = version if version == "latest" else int(version)
        found = self._ask(what, lambda: self._client.get_version(subject, number))
        return ReaderSchema(subject, found.version, found.schema_id, self._whole(found.schema))

    def _whole(self, schema: Any) -> RegisteredText:
        texts: dict[tuple[str, int], str] = {}
        self._follow(schema, texts, ())
        return RegisteredText(schema.schema_type or "AVRO", self._text(schema), tuple(texts.values()))

    def _text(self, schema: Any) -> str:
        """The schema's text; RegistryError where the answer has something else in its place."""
        if not isinstance(schema.schema_str, str):
            raise RegistryError(
                f"The schema registry {self._settings.place} answered with a schema that is no text:"
                f" {type(schema.schema_str).__name__}."
            )
        return schema.schema_str

    def _follow(self, schema: Any, texts: dict[tuple[str, int], str], trail: tuple[tuple[str, int], ...]) -> None:
        """Collect what a schema refers to, deepest first."""
        for each in schema.references or ():
            place = each.subject, each.version
            if place in texts:
                continue
            if place in trail or len(texts) + len(trail) >= MOST_REFERENCES:
                raise RegistryError(
                    f"The schema registry {self._settings.place} has a schema whose references have no end:"
                    f" subject {place[0]!r}, version {place[1]}."
                )
            what = f"subject {place[0]!r}, version {place[1]}"
            found = self._ask(what, partial(self._client.get_version, *place))
            self._follow(found.schema, texts, (*trail, place))
            texts[place] = self._text(found.schema)

    def _ask(self, what: str, call: Callable[[], Any]) -> Any:
        """An answer, trying again for as long as it may take."""
        end, pause = time.monotonic() + self._settings.timeout, FIRST_PAUSE
        while True:
            try:
                return call()
            except Exception as error:  # noqa: BLE001 - the client's own errors, its HTTP library's, and those of odd answers
                self._judge(error, what)
                left = end - time.monotonic()
                if left <= 0 or self._stopped.wait(min(pause, left)):
                    raise RegistryUnavailableError(
                        f"The schema registry {self._settings.place} did not answer for {what} within"
                        f" {self._settings.timeout:g} s ({PREFIX}timeout.ms): {self._words(error)}"
                    ) from None
                pause = min(2 * pause, MOST_PAUSE)

    def _judge(self, error: Exception, what: str) -> None:
        """Raise what trying again can't help."""
        status = getattr(error, "http_status_code", None)
        place, words = self._settings.place, self._words(error)
        if status in LOGIN:
            raise RegistryError(
                f"The schema registry {place} refused the login for {what}; see {PREFIX}basic.auth.user.info,"
                f" {PREFIX}bearer.auth.token: {words}"
            ) from None
        if status is not None and getattr(error, "error_code", 0) in NO_SUCH:
            raise UnknownSchemaError(f"The schema registry {place} has no {what}: {words}") from None
        if status is not None and status < 500 and status not in TRANSIENT:
            raise RegistryError(f"The schema registry {place} refused {what}: {words}") from None
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise RegistryError(
                f"The certificate of the schema registry {place} is not trusted; see {PREFIX}ssl.ca.location: {words}"
            ) from None

    def _words(self, error: Exception) -> str:
        return self._settings.redacted(str(error) or type(error).__name__)

    def _redacting(self, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except (ValueError, TypeError, OSError) as error:
            raise OptionError(f"{PREFIX}*: {self._words(error)}") from None


def _client(settings: RegistrySettings) -> Any:
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise OptionError(
            f"{PREFIX}url: the registry's client is not installed ({error.name} is missing);"
            " on the driver and on all executors: pip install 'sparkcohort[registry]'."
        ) from None
    return SchemaRegistryClient(settings.client_conf())
