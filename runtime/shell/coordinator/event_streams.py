"""What is pushed to agents, each of which listens by one stream; used by whoever owns the group, but for ``remove``."""

from __future__ import annotations

import queue
from collections.abc import Callable

from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.shell.rpc.flight import EventQueue


class EventStreams:
    """The streams of one run; every event tells the topics that ``subscribed`` gives."""

    def __init__(self, subscribed: Callable[[], tuple[str, ...]]) -> None:
        self._subscribed = subscribed
        self._streams: dict[EventQueue, str] = {}

    def add(self, address: str) -> EventQueue:
        """A queue of what is pushed to the agent at this address; the first event tells the topics."""
        events: EventQueue = queue.SimpleQueue()
        for earlier in [queued for queued, listens in self._streams.items() if listens == address]:
            self._streams.pop(earlier)  # an agent listens once: this one has come back before its stream was missed
            earlier.put(None)
        self._streams[events] = address
        events.put(self._event("subscription"))
        return events

    def remove(self, events: EventQueue) -> None:
        """Forget a queue."""
        self._streams.pop(events, None)

    def rejoin(self, address: str, reason: str, generation: int) -> None:
        """Tell one agent to rejoin, if its generation is this one."""
        for events, listens in self._streams.items():
            if listens == address:
                events.put(self._event("rejoin", reason, generation))

    def tell_topics(self) -> None:
        """Tell everybody the topics."""
        event = self._event("subscription")
        for events in self._streams:
            events.put(event)

    def end(self, event: str) -> None:
        """Tell everybody that this run ends, and how."""
        for events in self._streams:
            events.put(self._event(event))
            events.put(None)

    def _event(self, kind: str, reason: str = "", generation: int = -1) -> bytes:
        return calls.encode(calls.PushEvent(kind, self._subscribed(), reason, generation))
