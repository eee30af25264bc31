"""The schemas that records were written with, each fetched once per process, by threads of their own.

Who decodes is held up for a moment at most: records whose schema is on its way wait, and those of other schemas go on.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple

from sparkcohort.runtime.shell.registry.schema_registry import (
    NotYetKnownError,
    RegisteredText,
    RegistryError,
    RegistryUnavailableError,
    SchemaRegistry,
    UnknownSchemaError,
)
from sparkcohort.runtime.shell.registry.settings import RegistrySettings

ASK_AGAIN_S = 1.0
"""After so long an id is asked for again that the registry does not have, or gave no answer for: either may change any time."""
MOST_ID = 2**31 - 1
"""A registry has ids as Java's int, and refuses the question for a larger one: that would hold up its partition for ever."""
MOST_REFUSED = 10_000
WAIT_S = 0.5
"""How long an answer is waited for: a registry that is there has answered by then."""
MOST_THREADS = 4


class _SchemaFetch:
    """A schema that is being asked for: whoever needs it, too, waits for the same answer."""

    def __init__(self, schema_id: int | str) -> None:
        self.schema_id = schema_id
        self.done = threading.Event()
        self.deadline = time.monotonic() + WAIT_S


class _NoSchema(NamedTuple):
    """What the registry said of an id that it has no schema for."""

    first_s: float  # the first of the answers without a schema, one after the other
    retry_s: float  # the id is not asked for again before; later than ``since``
    reason: str | RegistryError  # a text: no record that has the id can be read; an error: that is not known yet


class WriterSchemas:
    """By id or GUID: the schema, or why there is none.  For any thread.

    An id that the registry does not have is no bad record before ``timeout_s`` has passed since it was first asked for: a
    follower that is behind its leader does not have it *yet*, and records once read as nulls would stay nulls.
    """

    def __init__(self, registry: SchemaRegistry, clock: Callable[[], float] = time.monotonic) -> None:
        self._registry, self._clock = registry, clock
        self._lock = threading.Lock()
        self._requests: dict[int | str, _SchemaFetch] = {}  # all that are not done
        self._unasked: deque[_SchemaFetch] = deque()  # those of them that no thread has taken
        self._threads = 0
        self._schemas: dict[int | str, RegisteredText] = {}
        self._refused: OrderedDict[int | str, _NoSchema] = OrderedDict()  # at most MOST_REFUSED, the oldest first

    def get(self, schema_id: int | str) -> RegisteredText | str:
        """The schema of an id; or the reason why no record that has it can be read.

        RegistryError while the registry is slow or away, or refuses us: the record is not known to be bad.
        """
        if isinstance(schema_id, int) and schema_id > MOST_ID:
            return f"schema {schema_id} is in no registry: ids are at most {MOST_ID}"
        with self._lock:
            answer = self._stored_answer(schema_id)
            if answer is not None:
                return answer
            request = self._requests.get(schema_id) or self._request(schema_id)
        request.done.wait(max(request.deadline - time.monotonic(), 0.0))
        with self._lock:
            answer = self._stored_answer(schema_id)
        if answer is None:
            raise RegistryUnavailableError(
                f"The schema registry {self._registry.place} has not answered for schema {schema_id} yet."
            )
        return answer

    def close(self) -> None:
        """End what waits for the registry; what is known stays."""
        self._registry.close()

    def _stored_answer(self, schema_id: int | str) -> RegisteredText | str | None:
        if schema_id in self._schemas:
            return self._schemas[schema_id]
        refusal = self._refused.get(schema_id)
        if refusal is None or self._clock() >= refusal.retry_s:
            return None
        if isinstance(refusal.reason, RegistryError):
            raise type(refusal.reason)(str(refusal.reason))  # each thread its own
        return refusal.reason

    def _request(self, schema_id: int | str) -> _SchemaFetch:
        """Have an id asked for; more than a few ids wait for each other."""
        request = self._requests[schema_id] = _SchemaFetch(schema_id)
        self._unasked.append(request)
        if self._threads < MOST_THREADS:
            try:
                threading.Thread(target=self._ask, name="cohort-schemas", daemon=True).start()
                self._threads += 1
            except RuntimeError as error:  # no thread to be had
                self._unasked.remove(request)
                self._store_answer(request, RegistryError(f"Schema {schema_id} can't be asked for: {error}"))
        return request

    def _ask(self) -> None:
        """In a thread that ends when there is nothing to ask for."""
        while True:
            with self._lock:
                if not self._unasked:
                    self._threads -= 1
                    return
                request = self._unasked.popleft()
            answer = self._answer(request.schema_id)
            with self._lock:
                self._store_answer(request, answer)

    def _answer(self, schema_id: int | str) -> RegisteredText | RegistryError:
        try:
            return self._registry.by_id(schema_id)
        except RegistryError as error:
            return error
        except Exception as error:  # noqa: BLE001  whatever it is, those who wait have to hear of it
            return RegistryError(f"Schema {schema_id} could not be asked for: {type(error).__name__}: {error}")

    def _store_answer(self, request: _SchemaFetch, answer: RegisteredText | RegistryError) -> None:
        schema_id, refusal = request.schema_id, self._refused.pop(request.schema_id, None)
        if isinstance(answer, RegisteredText):
            self._schemas[schema_id] = answer
        else:
            self._refused[schema_id] = self._no_schema(refusal, answer)
            while len(self._refused) > MOST_REFUSED:
                self._refused.popitem(last=False)
        del self._requests[schema_id]
        request.done.set()

    def _no_schema(self, refusal: _NoSchema | None, answer: RegistryError) -> _NoSchema:
        now, patience_s = self._clock(), self._registry.timeout_s
        # An id that nobody has asked for since is a new one: its records are as good as those of the first.
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
    """This process's schemas of a registry.  A forked process starts anew: a connection is not shared."""
    with _registry_lock:
        key = os.getpid(), settings.key
        if key not in _by_registry:
            _by_registry[key] = WriterSchemas(SchemaRegistry(settings))
        return _by_registry[key]
