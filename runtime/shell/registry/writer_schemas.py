"""The schemas that records were written with, each fetched once per process."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from sparkcohort.runtime.shell.registry.schema_registry import (
    RegisteredText,
    RegistryError,
    SchemaRegistry,
    UnknownSchemaError,
)
from sparkcohort.runtime.shell.registry.settings import RegistrySettings

UNKNOWN_SECONDS = 30.0
"""How long an id that the registry does not have is not asked for again: it may be registered any time."""
MOST_UNKNOWN = 10_000


class _Request:
    """A schema that is being asked for: whoever needs it, too, waits for the same answer."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.answer: RegisteredText | str | None = None
        self.error: RegistryError | None = None


class WriterSchemas:
    """By id: the schema, or why there is none.  For any thread; one asks for an id, others wait for its answer."""

    def __init__(self, registry: SchemaRegistry, clock: Callable[[], float] = time.monotonic) -> None:
        self._registry, self._clock = registry, clock
        self._lock = threading.Lock()
        self._requests: dict[int, _Request] = {}
        self._schemas: dict[int, RegisteredText] = {}
        self._unknown: OrderedDict[int, tuple[float, str]] = OrderedDict()

    def get(self, schema_id: int) -> RegisteredText | str:
        """The schema of an id; or the reason why no record that has it can be read.

        RegistryError when the registry is away or refuses us: the record is not known to be bad.
        """
        with self._lock:
            known = self._known(schema_id)
            if known is not None:
                return known
            request = self._requests.get(schema_id)
            if mine := request is None:
                request = self._requests[schema_id] = _Request()
        if mine:
            self._fetch(schema_id, request)
        request.done.wait()
        if request.answer is not None:
            return request.answer
        error = request.error or RegistryError(f"Schema {schema_id} was asked for, and whoever did so broke off.")
        raise type(error)(str(error))  # each thread its own

    def close(self) -> None:
        """End what waits for the registry; what is known stays."""
        self._registry.close()

    def _known(self, schema_id: int) -> RegisteredText | str | None:
        if schema_id in self._schemas:
            return self._schemas[schema_id]
        until, why = self._unknown.get(schema_id, (0.0, ""))
        return why if why and self._clock() < until else None

    def _fetch(self, schema_id: int, request: _Request) -> None:
        try:
            request.answer = self._registry.by_id(schema_id)
        except UnknownSchemaError as error:
            request.answer = str(error)
        except RegistryError as error:
            request.error = error
        finally:
            with self._lock:
                self._keep(schema_id, request.answer)
                del self._requests[schema_id]
            request.done.set()

    def _keep(self, schema_id: int, answer: RegisteredText | str | None) -> None:
        if isinstance(answer, RegisteredText):
            self._schemas[schema_id] = answer
        elif answer is not None:
            self._unknown.pop(schema_id, None)
            self._unknown[schema_id] = self._clock() + UNKNOWN_SECONDS, answer
            while len(self._unknown) > MOST_UNKNOWN:
                self._unknown.popitem(last=False)


_shared: dict[tuple[int, tuple[tuple[str, str], ...]], WriterSchemas] = {}
_sharing = threading.Lock()


def shared_writer_schemas(settings: RegistrySettings) -> WriterSchemas:
    """This process's schemas of a registry.  A forked process starts anew: a connection is not shared."""
    with _sharing:
        key = os.getpid(), settings.key
        if key not in _shared:
            _shared[key] = WriterSchemas(SchemaRegistry(settings))
        return _shared[key]
