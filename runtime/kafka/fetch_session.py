"""What a broker remembers of a client's fetches, so that requests name only what has changed (KIP-227).

A session begins with a full request (epoch 0) and goes on with incremental ones; any doubt begins a new one.  A broker
that keeps none answers with session id 0, and every request is full.  Source: Kafka's ``FetchSessionHandler``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkcohort.runtime.kafka.fetch_messages import FetchPartition, Key, Request

_LAST_EPOCH = 2**31 - 1


@dataclass(slots=True)
class FetchSession:
    """One broker's; ``partitions`` are those that it has been told to fetch."""

    session_id: int = 0
    epoch: int = 0
    partitions: dict[Key, FetchPartition] = field(default_factory=dict)

    def reset(self) -> None:
        """Make the next request a full one, with which the broker replaces the session."""
        self.epoch, self.partitions = 0, {}

    def drop_session(self) -> None:
        """The connection has ended, or the broker knows no such session: the next request begins another one."""
        self.session_id = 0
        self.reset()

    def request(self, partitions: Mapping[Key, FetchPartition], refresh: frozenset[Key] = frozenset()) -> Request:
        """The next request for exactly these partitions.

        ``refresh`` are those whose state the broker has to tell although it has not changed.  Within a session it would say
        nothing of them, so they end it, and this request is a full one.
        """
        if not refresh.isdisjoint(self.partitions):
            self.reset()
        if self.epoch == 0:
            request = Request((self.session_id, 0), dict(partitions), frozenset())
        else:
            changed = {key: one for key, one in partitions.items() if self.partitions.get(key) != one}
            request = Request((self.session_id, self.epoch), changed, frozenset(self.partitions.keys() - partitions))
        self.partitions = dict(partitions)
        return request

    def request_changes(self, changed: Mapping[Key, FetchPartition]) -> Request | None:
        """The next request where only these partitions, which the session has, have changed; None if it has to be full."""
        if self.epoch == 0:
            return None
        self.partitions.update(changed)
        return Request((self.session_id, self.epoch), dict(changed), frozenset())

    def record_answer(self, session_id: int) -> None:
        """Go on to the session's next epoch: the broker has answered without an error."""
        self.session_id = session_id
        if session_id == 0:
            self.reset()
        else:
            self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1
