"""A client that is made when it is needed, and made anew once its files have changed, or where it is stuck."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

from confluent_kafka import KafkaException

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.kafka import clients
from sparkcohort.runtime.shell.options.certificate_files import Stamp, stamp

T = TypeVar("T")

SILENT_S: Final = 10.0
"""For so long a client may get no answer; then another is made, which may have none for twice as long, and so on."""
MOST_SILENT_S: Final = 80.0


class Replaced:
    """How many clients of this process got no answer and were replaced; each query has a process of its own on the driver."""

    def __init__(self) -> None:
        """None yet."""
        self._lock = threading.Lock()
        self.total = 0

    def add(self) -> None:
        """One more, whichever thread says so."""
        with self._lock:
            self.total += 1


replaced: Final = Replaced()


class RenewedClient(Generic[T]):
    """Keeps one client; for one thread at a time.

    librdkafka reads certificates when a client is made, never again.  Which state of the files a client was made of is written
    down together with the client, so a change is never taken for dealt with where no client could be made of it.

    A client may be stuck: told of no broker by a broker that has just come back, librdkafka (2.16) forgets all that it
    knew, and at times asks nobody ever again, its bootstrap servers neither (its issue 5301).
    """

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """Nothing is made yet."""
        self._conf = conf
        self._client: T | None = None
        self._made_of: Stamp | None = None
        self._told: Stamp | None = None
        self._silent_since: float | None = None  # when the first question failed since an answer; None after an answer
        self._silent_s = SILENT_S  # the patience with the client that there is
        self._before_s = 0.0  # for how long the client before was silent; 0 once this one has been asked

    @property
    def client(self) -> T | None:
        """The client that there is."""
        return self._client

    def get(self, make: Callable[[], T]) -> T:
        """The client, made of the files as they are; raises what ``make`` raises where there is none yet.

        One that is there goes on while no other can be made, since a file may be half written; that is tried again each time.
        """
        now = stamp(self._conf)  # before they are read: what changes meanwhile is another state
        if self._client is None:
            self._client, self._made_of = make(), now
        elif now != self._made_of:
            try:
                self._client, self._made_of = make(), now
            except (CohortError, KafkaException) as error:
                self._warn(now, str(error) if isinstance(error, CohortError) else clients.text_of(error))
        return self._client

    @contextmanager
    def asking(self, make: Callable[[], T]) -> Iterator[T]:
        """The client, as ``get`` has it, to ask brokers with: what is raised inside tells whether any has answered."""
        try:
            yield self.get(make)
        except (KafkaException, TimeoutError) as error:
            self.answered(yes=isinstance(error, KafkaException) and clients.code_of(error) > 0)
            raise
        self.answered(yes=True)

    def answered(self, *, yes: bool) -> None:
        """Whether a broker has just answered; where none has for too long, the next client is another."""
        now = time.monotonic()
        if yes:
            if self._before_s:  # at once, where the one before had waited: that one was stuck
                text = "a Kafka client was stuck: no answer for %.0f s; another one was answered at once and goes on"
                clients.log.warning(text, self._before_s)
            self._silent_since, self._silent_s = None, SILENT_S
        elif self._silent_since is None:
            self._silent_since = now
        elif now >= self._silent_since + self._silent_s:
            self.release()
            replaced.add()
            self._before_s, self._silent_since = now - self._silent_since, None
            self._silent_s = min(2 * self._silent_s, MOST_SILENT_S)
            return
        self._before_s = 0.0

    def release(self) -> None:
        """Let go of the client; the next one is another."""
        self._client = None

    def _warn(self, now: Stamp, why: str) -> None:
        if now != self._told:
            self._told = now
            clients.log.warning("changed files of certificates are not taken up: %s", why)
