"""A client that is made when it is needed, and made anew once the files that its settings name have changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from confluent_kafka import KafkaException

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.kafka import clients
from sparkcohort.runtime.shell.options.certificate_files import Stamp, stamp
from sparkcohort.runtime.shell.options.late_values import are_read

T = TypeVar("T")


class RenewedClient(Generic[T]):
    """Keeps one client; for one thread at a time.

    librdkafka reads certificates when a client is made, never again.  Which state of the files a client was made of is written
    down together with the client, so a change is never taken for dealt with where no client could be made of it: nor where
    one was made, but of the values that were looked up before.
    """

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """Nothing is made yet."""
        self._conf = conf
        self._client: T | None = None
        self._made_of: Stamp | None = None
        self._told: Stamp | None = None

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
            self._made_of = now if are_read(self._conf) else None
            self._client = make()
        elif now != self._made_of and are_read(self._conf):
            try:
                self._client, self._made_of = make(), now
            except (CohortError, KafkaException) as error:
                self._warn(now, str(error) if isinstance(error, CohortError) else clients.text_of(error))
        return self._client

    def release(self) -> None:
        """Let go of the client; the next one is another."""
        self._client = None

    def _warn(self, now: Stamp, why: str) -> None:
        if now != self._told:
            self._told = now
            clients.log.warning("changed files of certificates are not taken up: %s", why)
