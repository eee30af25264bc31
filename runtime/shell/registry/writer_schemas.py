"""The schemas that records were written with, each fetched once per process, by threads of their own.

Who decodes is held up for a moment at most: records whose schema is on its way wait, and those of other schemas go on.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable

from sparkcohort.runtime.shell.process.daemon_thread import DaemonThread
from sparkcohort.runtime.shell.registry.schema_registry import (
    RegisteredText,
    RegistryError,
    RegistryUnavailableError,
    SchemaRegistry,
    UnknownSchemaError,
)
from sparkcohort.runtime.shell.registry.settings import RegistrySettings

UNKNOWN_SECONDS = 30.0
"""How long an id that the registry does not have is not asked for again: it may be registered any time."""
FAILED_SECONDS = 1.0
"""The same for an id that the registry gave no answer for."""
MOST_REFUSED = 10_000
WAIT_SECONDS = 0.5
"""How long an answer is waited for: a registry that is there has answered by then."""
MOST_THREADS = 4


class _SchemaFetch:
    """A schema that is being asked for: whoever needs it, too, waits for the same answer."""

    def __init__(self, schema_id: int) -> None:
        self.schema_id = schema_id
        self.done = threading.Event()
        self.until = time.monotonic() + WAIT_SECONDS


class WriterSchemas:
    """By id: the schema, or why there is none.  For any thread."""

    def __init__(self, registry: SchemaRegistry, clock: Callable[[], float] = time.monotonic) -> None:
        self._registry, self._clock = registry, clock
        self._lock = threading.Lock()
        self._requests: dict[int, _SchemaFetch] = {}  # all that are not done
        self._unasked: deque[_SchemaFetch] = deque()  # those of them that no thread has taken
        self._threads = 0
        self._schemas: dict[int, RegisteredText] = {}
        self._refused: OrderedDict[int, tuple[float, str | RegistryError]] = OrderedDict()  # until when, and why

    def get(self, schema_id: int) -> RegisteredText | str:
        """The schema of an id; or the reason why no record that has it can be read.

        RegistryError while the registry is slow or away, or refuses us: the record is not known to be bad.
        """
        with self._lock:
            known = self._known(schema_id)
            if known is not None:
                return known
            request = self._requests.get(schema_id) or self._request(schema_id)
        request.done.wait(max(request.until - time.monotonic(), 0.0))
        with self._lock:
            known = self._known(schema_id)
        if known is None:
            raise RegistryUnavailableError(
                f"The schema registry {self._registry.place} has not answered for schema {schema_id} yet."
            )
        return known

    def close(self) -> None:
        """End what waits for the registry; what is known stays."""
        self._registry.close()

    def _known(self, schema_id: int) -> RegisteredText | str | None:
        if schema_id in self._schemas:
            return self._schemas[schema_id]
        until, why = self._refused.get(schema_id, (0.0, ""))
        if not why or self._clock() >= until:
            return None
        if isinstance(why, RegistryError):
            raise type(why)(str(why))  # each thread its own
        return why

    def _request(self, schema_id: int) -> _SchemaFetch:
        """Have an id asked for; more than a few ids wait for each other."""
        request = self._requests[schema_id] = _SchemaFetch(schema_id)
        self._unasked.append(request)
        if self._threads < MOST_THREADS:
            try:
                DaemonThread(self._ask, "cohort-schemas").start()
                self._threads += 1
            except RuntimeError as error:  # no thread to be had
                self._unasked.remove(request)
                self._keep(request, RegistryError(f"Schema {schema_id} can't be asked for: {error}"))
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
                self._keep(request, answer)

    def _answer(self, schema_id: int) -> RegisteredText | str | RegistryError:
        try:
            return self._registry.by_id(schema_id)
        except UnknownSchemaError as error:
            return str(error)
        except RegistryError as error:
            return error
        except Exception as error:  # noqa: BLE001  whatever it is, those who wait have to hear of it
            return RegistryError(f"Schema {schema_id} could not be asked for: {type(error).__name__}: {error}")

    def _keep(self, request: _SchemaFetch, answer: RegisteredText | str | RegistryError) -> None:
        schema_id = request.schema_id
        self._refused.pop(schema_id, None)
        if isinstance(answer, RegisteredText):
            self._schemas[schema_id] = answer
        else:
            pause = UNKNOWN_SECONDS if isinstance(answer, str) else FAILED_SECONDS
            self._refused[schema_id] = self._clock() + pause, answer
            while len(self._refused) > MOST_REFUSED:
                self._refused.popitem(last=False)
        del self._requests[schema_id]
        request.done.set()


_shared: dict[tuple[int, tuple[tuple[str, str], ...]], WriterSchemas] = {}
_sharing = threading.Lock()


def shared_writer_schemas(settings: RegistrySettings) -> WriterSchemas:
    """This process's schemas of a registry.  A forked process starts anew: a connection is not shared."""
    with _sharing:
        key = os.getpid(), settings.key
        if key not in _shared:
            _shared[key] = WriterSchemas(SchemaRegistry(settings))
        return _shared[key]
