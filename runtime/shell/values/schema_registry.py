"""A schema registry; every failure is a RegistryError without a secret."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from sparkcohort.runtime.errors import CohortError, OptionError
from sparkcohort.runtime.shell.values.registry_requests import (
    MOST_BYTES,
    RefusedConnectionError,
    RegistryRequests,
    RegistryStatusError,
    TooLargeError,
)
from sparkcohort.runtime.shell.values.registry_settings import PREFIX, RegistrySettings

Value = TypeVar("Value")

NO_SUCH = (40401, 40402, 40403)  # subject, version, schema
LOGIN = (401, 403)
FIRST_PAUSE, MOST_PAUSE = 0.1, 2.0
MOST_REFERENCES = 100
LOAD_S = 3.0
"""How long ``load()`` tries to connect: a user waits for it, and a failure loses nothing."""


class RegistryError(CohortError):
    """The registry did not answer, or refused; the message names the registry and the schema."""


class RegistryUnavailableError(RegistryError):
    """No answer in time: the registry is away, slow, or has errors of its own."""


class NotYetKnownError(RegistryUnavailableError):
    """The id is unknown for now: a follower behind its leader answers so for a schema that is a second old."""


class UnknownSchemaError(RegistryError):
    """The registry has no such id, subject or version."""


@dataclass(frozen=True, slots=True)
class RegisteredText:
    """A schema of the registry; ``references`` are the texts that it refers to, each after its own references."""

    kind: str  # AVRO, PROTOBUF, JSON
    text: str
    references: tuple[str, ...] = ()


class ReaderSchema(NamedTuple):
    """A subject's version."""

    subject: str
    version: int
    schema_id: int
    schema: RegisteredText


class SchemaRegistry:
    """One registry, for any thread."""

    def __init__(self, settings: RegistrySettings) -> None:
        """Sends nothing.  Raises OptionError for wrong settings or files."""
        self.settings = settings
        try:
            self._requests = RegistryRequests(settings)
        except (ValueError, OSError) as error:
            raise OptionError(f"{PREFIX}*: {self._words(error)}") from None

    def by_id(self, schema_id: int | str) -> RegisteredText:
        """The schema of an id, or of a GUID.  Raises RegistryError."""
        path = f"schemas/{'ids' if isinstance(schema_id, int) else 'guids'}/{schema_id}"
        return self._whole(self._ask(f"schema {schema_id}", path))

    def reader_schema(self, subject: str, version: str = "latest") -> ReaderSchema:
        """A subject's latest schema, or its ``version``, for ``load()``.

        Raises RegistryError; within ``LOAD_S`` where no connection can be made.
        """
        if version != "latest" and not re.fullmatch("[1-9][0-9]{0,9}", version):
            raise OptionError(f"schema version {version[:40]!r}: 'latest' or a number from 1 is expected.")
        answer = self._ask(_version_words(subject, version), _version_path(subject, version), connect_s=LOAD_S)
        number, schema_id = (self._field(answer, name, int) for name in ("version", "id"))
        return ReaderSchema(subject, number, schema_id, self._whole(answer))

    def schema_id(
        self, subject: str, schema: RegisteredText, references: Sequence[tuple[str, int]] = (), *, register: bool
    ) -> int:
        """The id of a schema that is registered under the subject, or is now.  Raises RegistryError.

        ``references``: the names of what it imports, each its own subject, with their versions.
        """
        return self._field(self._post(subject, schema, references, "/versions" if register else ""), "id", int)

    def schema_version(self, subject: str, schema: RegisteredText, references: Sequence[tuple[str, int]] = ()) -> int:
        """The version that a registered schema is of its subject.  Raises RegistryError."""
        return self._field(self._post(subject, schema, references, ""), "version", int)

    def _post(self, subject: str, schema: RegisteredText, references: Sequence[tuple[str, int]], action: str) -> Any:
        body: dict[str, Any] = {"schema": schema.text}
        if schema.kind != "AVRO":  # old registries know no other one, and not the field
            body["schemaType"] = schema.kind
        if references:
            body["references"] = [{"name": name, "subject": name, "version": number} for name, number in references]
        return self._ask(f"schema for subject {subject!r}", f"{_subject_path(subject)}{action}", body=body)

    def _whole(self, schema: Any) -> RegisteredText:
        texts: dict[tuple[str, int], str] = {}
        self._follow(schema, texts, ())
        kind = "AVRO" if schema.get("schemaType") is None else self._field(schema, "schemaType", str)
        return RegisteredText(kind, self._field(schema, "schema", str), tuple(texts.values()))

    def _follow(self, schema: Any, texts: dict[tuple[str, int], str], trail: tuple[tuple[str, int], ...]) -> None:
        """Collect the references of a schema, deepest first."""
        for reference in self._field(schema, "references", list) if self._object(schema).get("references") else ():
            place = self._field(reference, "subject", str), self._field(reference, "version", int)
            if place in texts:
                continue
            if place in trail or len(texts) + len(trail) >= MOST_REFERENCES:
                raise RegistryError(
                    f"The schema registry {self.settings.place} has a schema whose references have no end:"
                    f" subject {place[0]!r}, version {place[1]}."
                )
            # The schema may refer to a deleted version: the registry gives it only with ?deleted=true.
            answer = self._ask(_version_words(*place), f"{_version_path(*place)}?deleted=true")
            self._follow(answer, texts, (*trail, place))
            texts[place] = self._field(answer, "schema", str)

    def _object(self, answer: Any) -> dict[str, Any]:
        if not isinstance(answer, dict):
            raise RegistryError(
                f"The schema registry {self.settings.place} answered with {type(answer).__name__} instead of an object."
            )
        return answer

    def _field(self, answer: Any, name: str, kind: type[Value]) -> Value:
        """A field of an answer.  Raises RegistryError where it is missing or of another type."""
        value = self._object(answer).get(name)
        if not isinstance(value, kind):
            raise RegistryError(
                f"The schema registry {self.settings.place} answered without {name}: {type(value).__name__} instead of {kind.__name__}."
            )
        return value

    def _ask(
        self, subject: str, path: str, connect_s: float | None = None, body: Mapping[str, Any] | None = None
    ) -> Any:
        """An answer; failed requests are repeated until ``timeout_s``, refused connections until ``connect_s``, if given."""
        begin, pause, timeout_s = time.monotonic(), FIRST_PAUSE, self.settings.timeout
        while True:
            try:
                return self._requests.ask(path, body)
            except Exception as error:  # noqa: BLE001 - statuses, errors of the HTTP client, and those of odd answers
                self._judge(error, subject)
                is_refused = isinstance(error, RefusedConnectionError)
                patience_s = min(connect_s, timeout_s) if connect_s is not None and is_refused else timeout_s
                left_s = begin + patience_s - time.monotonic()
                if left_s <= 0:
                    raise RegistryUnavailableError(
                        f"The schema registry {self.settings.place} did not answer for {subject} within"
                        f" {patience_s:g} s{'' if patience_s < timeout_s else f' ({PREFIX}timeout.ms)'}: {self._words(error)}"
                    ) from None
                time.sleep(min(pause, left_s))
                pause = min(2 * pause, MOST_PAUSE)

    def _judge(self, error: Exception, subject: str) -> None:
        """Raise RegistryError for an error that another try can't change."""
        place, words = self.settings.place, self._words(error)
        if isinstance(error, TooLargeError):
            raise RegistryError(
                f"The schema registry {place} answered with more than {MOST_BYTES >> 20} MiB for {subject}."
            ) from None
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise RegistryError(
                f"The certificate of the schema registry {place} is not trusted; see {PREFIX}ssl.ca.location: {words}"
            ) from None
        if not isinstance(error, RegistryStatusError) or error.is_transient:
            return
        if error.status in LOGIN:
            raise RegistryError(
                f"The schema registry {place} refused the login for {subject}; see {PREFIX}basic.auth.user.info,"
                f" {PREFIX}bearer.auth.token: {words}"
            ) from None
        if error.code in NO_SUCH:
            raise UnknownSchemaError(f"The schema registry {place} has no {subject}: {words}") from None
        raise RegistryError(f"The schema registry {place} refused {subject}: {words}") from None

    def _words(self, error: Exception) -> str:
        return self.settings.redacted(str(error) or type(error).__name__)


def _version_words(subject: str, version: str | int) -> str:
    return f"subject {subject!r}, version {version}"


def _version_path(subject: str, version: str | int) -> str:
    return f"{_subject_path(subject)}/versions/{version}"


def _subject_path(subject: str) -> str:
    # JSON can have half a character, which no address has.
    return f"subjects/{quote(subject, safe='', errors='replace')}"
