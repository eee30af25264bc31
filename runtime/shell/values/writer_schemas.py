"""The schemas that records were written with, each fetched once per process, by background threads.

A decoder waits ``WAIT_S`` at most: records of a schema that is being fetched wait, records of other schemas go on.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import NamedTuple, TypeAlias

from sparkcohort.runtime.shell.values.registry_settings import RegistrySettings
from sparkcohort.runtime.shell.values.schema_registry import (
    NotYetKnownError,
    RegisteredText,
    RegistryError,
    RegistryUnavailableError,
    SchemaRegistry,
    UnknownSchemaError,
)

ASK_AGAIN_S = 1.0
"""After so long an id without a schema is requested again: the registry may have it by now, or answer again."""
MOST_ID = 2**31 - 1
"""A registry's ids are Java ints, and it refuses a request for a larger one: the record's partition would wait for ever."""
MOST_REFUSED = 10_000
WAIT_S = 0.5
"""How long a decoder waits for an answer: a healthy registry has answered by then."""
MOST_THREADS = 4

_SchemaFetch: TypeAlias = tuple[Future[None], float]
"""A schema that is being fetched, and until when threads that need it wait, all for the same answer."""


class _NoSchema(NamedTuple):
    """The registry's answer for an id without a schema; times by ``time.monotonic``."""

    first_s: float  # of the first in a row of answers without a schema
    retry_s: float  # the id is requested again from here on; later than ``first_s``
    reason: str | RegistryError  # text: no record with the id can be read; error: that is unknown yet


class WriterSchemas:
    """Schemas by id or GUID, or the reasons why there are none.  For any thread.

    A record with an unknown id is not bad before the timeout has passed since the first request: a follower behind its leader
    does not have the id *yet*, and records that are read as nulls stay nulls.
    """

    def __init__(self, registry: SchemaRegistry, clock: Callable[[], float] = time.monotonic) -> None:
        self._registry, self._clock = registry, clock
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(MOST_THREADS, "cohort-schemas")
        self._requests: dict[int | str, _SchemaFetch] = {}  # without an answer yet
        self._schemas: dict[int | str, RegisteredText] = {}
        self._refused: OrderedDict[int | str, _NoSchema] = OrderedDict()  # at most MOST_REFUSED, the oldest first

    def get(self, schema_id: int | str) -> RegisteredText | str:
        """The schema of an id, or the reason why no record with this id can be read.

        Raises RegistryError while the registry is slow, away, or refuses the login: the record may be good.
        """
        if isinstance(schema_id, int) and schema_id > MOST_ID:
            return f"schema {schema_id} is in no registry: ids are at most {MOST_ID}"
        with self._lock:
            answer = self._stored_answer(schema_id)
            if answer is not None:
                return answer
            if schema_id not in self._requests:
                try:
                    self._requests[schema_id] = self._pool.submit(self._fetch, schema_id), time.monotonic() + WAIT_S
                except RuntimeError as error:  # the system has no thread for it: a record is not bad for that
                    raise RegistryError(f"Schema {schema_id} can't be asked for: {error}") from None
            future, deadline = self._requests[schema_id]
        wait([future], max(deadline - time.monotonic(), 0.0))
        with self._lock:
            answer = self._stored_answer(schema_id)
        if answer is None:
            raise RegistryUnavailableError(
                f"The schema registry {self._registry.settings.place} has not answered for schema {schema_id} yet."
            )
        return answer

    def _stored_answer(self, schema_id: int | str) -> RegisteredText | str | None:
        if schema_id in self._schemas:
            return self._schemas[schema_id]
        refusal = self._refused.get(schema_id)
        if refusal is None or self._clock() >= refusal.retry_s:
            return None
        if isinstance(refusal.reason, RegistryError):
            raise type(refusal.reason)(str(refusal.reason))  # each thread its own
        return refusal.reason

    def _fetch(self, schema_id: int | str) -> None:
        answer = self._answer(schema_id)
        with self._lock:
            self._store_answer(schema_id, answer)

    def _answer(self, schema_id: int | str) -> RegisteredText | RegistryError:
        try:
            return self._registry.by_id(schema_id)
        except RegistryError as error:
            return error
        except Exception as error:  # noqa: BLE001  the waiting threads must get an answer after any error
            return RegistryError(f"Schema {schema_id} could not be asked for: {type(error).__name__}: {error}")

    def _store_answer(self, schema_id: int | str, answer: RegisteredText | RegistryError) -> None:
        refusal = self._refused.pop(schema_id, None)
        if isinstance(answer, RegisteredText):
            self._schemas[schema_id] = answer
        else:
            self._refused[schema_id] = self._no_schema(refusal, answer)
            while len(self._refused) > MOST_REFUSED:
                self._refused.popitem(last=False)
        self._requests.pop(schema_id, None)

    def _no_schema(self, refusal: _NoSchema | None, answer: RegistryError) -> _NoSchema:
        now, patience_s = self._clock(), self._registry.settings.timeout
        # An id that was not requested for so long counts as a new one: its records get the whole time again.
        first_s = now if refusal is None or now - refusal.retry_s > patience_s else refusal.first_s
        reason: str | RegistryError = answer
        if isinstance(answer, UnknownSchemaError):
            reason = (
                str(answer) if now - first_s >= patience_s else NotYetKnownError(f"{answer} It is asked for again.")
            )
        return _NoSchema(first_s, now + ASK_AGAIN_S, reason)


_by_registry: dict[tuple[int, tuple[tuple[str, str], ...]], WriterSchemas] = {}
_registry_lock = threading.Lock()


def shared_writer_schemas(settings: RegistrySettings) -> WriterSchemas:
    """This process's schemas of a registry.  A forked process gets its own: connections and threads can't be shared."""
    with _registry_lock:
        key = os.getpid(), settings.key
        if key not in _by_registry:
            _by_registry[key] = WriterSchemas(SchemaRegistry(settings))
        return _by_registry[key]
