"""The events that are pushed to agents, each by its own stream; all methods need the coordinator's lock."""

from __future__ import annotations

import queue
from collections.abc import Callable

from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.shell.rpc.flight import EventQueue


class EventStreams:
    """The streams of one run; each event has the topics that ``subscribed`` returns."""

    def __init__(self, subscribed: Callable[[], tuple[str, ...]]) -> None:
        self._subscribed = subscribed
        self._streams: dict[EventQueue, str] = {}

    def add(self, address: str) -> EventQueue:
        """The queue of the events for the agent at this address; the first one has the topics."""
        events: EventQueue = queue.SimpleQueue()
        for earlier in [queued for queued, listens in self._streams.items() if listens == address]:
            self._streams.pop(earlier)  # an agent has one stream: it connected again before the old one broke
            earlier.put(None)
        self._streams[events] = address
        events.put(self._event("subscription"))
        return events

    def remove(self, events: EventQueue) -> None:
        """Forget a queue."""
        self._streams.pop(events, None)

    def rejoin(self, address: str, reason: str, generation: int) -> None:
        """Push to one agent that it is to rejoin, if its generation is this one."""
        for events, listens in self._streams.items():
            if listens == address:
                events.put(self._event("rejoin", reason, generation))

    def push_topics(self) -> None:
        """Push the topics to all agents."""
        event = self._event("subscription")
        for events in self._streams:
            events.put(event)

    def end(self, event: str) -> None:
        """Push the end of this run to all agents; ``event`` is "stop" or "restart"."""
        for events in self._streams:
            events.put(self._event(event))
            events.put(None)

    def _event(self, kind: str, reason: str = "", generation: int = -1) -> bytes:
        return calls.encode(calls.PushEvent(kind, self._subscribed(), reason, generation))
