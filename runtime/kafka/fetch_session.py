"""What a broker remembers of a client's fetches, so that requests name only what has changed (KIP-227).

A session begins with a full request (epoch 0) and goes on with incremental ones; any doubt begins a new one.  A broker
that keeps none answers with session id 0, and every request is full.  Source: Kafka's ``FetchSessionHandler``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkcohort.runtime.kafka.fetch_messages import FetchPartition

_LAST_EPOCH = 2**31 - 1
Key = tuple[bytes, int]
"""A topic's id, or its name in UTF-8, and a partition."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to tell the broker: ``session`` is (id, epoch)."""

    session: tuple[int, int]
    wanted: Mapping[Key, FetchPartition]
    forgotten: frozenset[Key]


@dataclass(slots=True)
class FetchSession:
    """One broker's; ``known`` is what it has been told to fetch."""

    session_id: int = 0
    epoch: int = 0
    known: dict[Key, FetchPartition] = field(default_factory=dict)

    def reset(self) -> None:
        """The next request is full; the broker forgets the session that there was."""
        self.epoch, self.known = 0, {}

    def lost(self) -> None:
        """The connection is gone, or the broker knows no such session."""
        self.session_id = 0
        self.reset()

    def request(self, wanted: Mapping[Key, FetchPartition], anew: frozenset[Key] = frozenset()) -> Request:
        """The next request for exactly these partitions.

        ``anew`` are those whose state is to be told whether it has changed or not: a broker that has told it for the same
        offset before says nothing, so for them the session begins anew.
        """
        if not anew.isdisjoint(self.known):
            self.reset()
        if self.epoch == 0:
            request = Request((self.session_id, 0), dict(wanted), frozenset())
        else:
            changed = {key: one for key, one in wanted.items() if self.known.get(key) != one}
            request = Request((self.session_id, self.epoch), changed, frozenset(self.known.keys() - wanted.keys()))
        self.known = dict(wanted)
        return request

    def more(self, changed: Mapping[Key, FetchPartition]) -> Request | None:
        """The next request when nothing but these, known before, has changed; None if it has to be a full one."""
        if self.epoch == 0:
            return None
        self.known.update(changed)
        return Request((self.session_id, self.epoch), dict(changed), frozenset())

    def answered(self, session_id: int) -> None:
        """The broker has answered without an error."""
        self.session_id = session_id
        if session_id == 0:
            self.reset()
        else:
            self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1
