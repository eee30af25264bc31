"""The schemas that records were written with, each fetched once per process."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from sparkcohort.runtime.shell.registry.schema_registry import RegisteredText, SchemaRegistry, UnknownSchemaError
from sparkcohort.runtime.shell.registry.settings import RegistrySettings

UNKNOWN_SECONDS = 30.0
"""How long an id that the registry does not have is not asked for again: it may be registered any time."""
MOST_UNKNOWN = 10_000


class WriterSchemas:
    """By id: the schema, or why there is none.  For any thread; one asks the registry, others wait for its answer."""

    def __init__(self, registry: SchemaRegistry, clock: Callable[[], float] = time.monotonic) -> None:
        self._registry, self._clock = registry, clock
        self._lock = threading.Lock()
        self._asking = threading.Lock()
        self._schemas: dict[int, RegisteredText] = {}
        self._unknown: OrderedDict[int, tuple[float, str]] = OrderedDict()

    def get(self, schema_id: int) -> RegisteredText | str:
        """The schema of an id; or the reason why no record that has it can be read.

        RegistryError when the registry is away or refuses us: the record is not known to be bad.
        """
        known = self._known(schema_id)
        if known is not None:
            return known
        with self._asking:
            known = self._known(schema_id)
            return self._fetch(schema_id) if known is None else known

    def close(self) -> None:
        """End what waits for the registry; what is known stays."""
        self._registry.close()

    def _known(self, schema_id: int) -> RegisteredText | str | None:
        with self._lock:
            if schema_id in self._schemas:
                return self._schemas[schema_id]
            until, why = self._unknown.get(schema_id, (0.0, ""))
            return why if why and self._clock() < until else None

    def _fetch(self, schema_id: int) -> RegisteredText | str:
        try:
            found = self._registry.by_id(schema_id)
        except UnknownSchemaError as error:
            with self._lock:
                self._unknown.pop(schema_id, None)
                self._unknown[schema_id] = self._clock() + UNKNOWN_SECONDS, str(error)
                while len(self._unknown) > MOST_UNKNOWN:
                    self._unknown.popitem(last=False)
            return str(error)
        with self._lock:
            self._schemas[schema_id] = found
        return found


_shared: dict[tuple[int, tuple[tuple[str, str], ...]], WriterSchemas] = {}
_sharing = threading.Lock()


def shared_writer_schemas(settings: RegistrySettings) -> WriterSchemas:
    """This process's schemas of a registry.  A forked process starts anew: a connection is not shared."""
    with _sharing:
        key = os.getpid(), settings.key
        if key not in _shared:
            _shared[key] = WriterSchemas(SchemaRegistry(settings))
        return _shared[key]
