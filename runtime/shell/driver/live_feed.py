"""The status as a document that is watched: a whole one first, then what has changed, as server-sent events.

Nothing runs without a viewer, and there is no thread of its own: the first viewer whose wait is over makes the next
rendering, for all.  A rendering that costs more comes less often (``SHARE``).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from sparkcohort.runtime.errors import CohortError

STREAM_S: Final = 600.0
"""How long a stream lasts; the viewer's browser comes back and goes on."""
EVERY_S: Final = 0.5
SHARE: Final = 0.012
"""Of a core, for a rendering; with what ten viewers' streams take it stays below 0.02."""
MOST_CHANGES: Final = 16
"""Changes that are kept for a viewer that comes back."""
REPEAT: Final = b"retry: 1000\n\n"


class LiveFeed:
    """The events of one run; every method may be called from any thread.  ``status`` gives the document, {} at the end."""

    def __init__(self, status: Callable[[], Mapping[str, Any]]) -> None:
        """Nothing is asked before the first viewer."""
        self._status = status
        self._run = f"{time.time_ns():x}"  # numbers of another run mean nothing here
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._document: Mapping[str, Any] = {}
        self._number = 0
        self._changes: deque[bytes] = deque(maxlen=MOST_CHANGES)  # the last one leads to the document of ``_number``
        self._whole = b""  # of ``_number``, once a viewer needs it
        self._due = 0.0

    def close(self) -> None:
        """End the streams."""
        self._ended.set()

    def events(self, last_id: str) -> Iterator[bytes]:
        """A stream; ``last_id`` is that of the last event that this viewer got, "" for a new one."""
        run, _, number = last_id.partition(".")
        place = int(number[:18]) if run == self._run and number.isdecimal() else -1
        deadline = time.monotonic() + STREAM_S
        yield REPEAT
        while not self._ended.is_set() and time.monotonic() < deadline:
            try:
                place, data = self._next(place)
            except (CohortError, TimeoutError, OSError) as error:
                yield _event("failed", self._run, str(error) or type(error).__name__)
                self._ended.wait(1.0)
                continue
            if data:
                yield data
            self._ended.wait(max(self._due - time.monotonic(), 0.0))
        if self._ended.is_set():
            yield _event("failed", self._run, "the query is ending")

    def _next(self, place: int) -> tuple[int, bytes]:
        """The number of the document, and what leads a viewer there; nothing where it is there."""
        with self._lock:
            if time.monotonic() >= self._due:
                self._render()
            missed = self._number - place
            if 0 <= missed <= len(self._changes) and place >= 0:
                return self._number, b"".join(list(self._changes)[len(self._changes) - missed :])
            self._whole = self._whole or _event("document", f"{self._run}.{self._number}", self._document)
            return self._number, self._whole

    def _render(self) -> None:
        began = time.thread_time()
        document = self._status()
        if not document:
            self._ended.set()
            raise CohortError("the query is ending")
        if self._number:
            change = changes(self._document, document)
            self._changes.append(_event("change", f"{self._run}.{self._number + 1}", change))
        self._document, self._whole, self._number = document, b"", self._number + 1
        self._due = time.monotonic() + max(EVERY_S, (time.thread_time() - began) / SHARE)


def _event(kind: str, number: str, value: object) -> bytes:
    """An event; JSON has no line break of its own."""
    return b"event: %s\nid: %s\ndata: %s\n\n" % (kind.encode(), number.encode(), msgspec.json.encode(value))


def changes(former: Any, current: Any) -> Any:
    """What leads from one JSON value to the other, None where they are equal.

    ``[value]`` replaces.  An object changes the keys, or the places of a list, that it names; its key ``-`` lists keys that
    are gone, or is how many items go at a list's head, and ``+`` lists those that come at its end.
    """
    return None if former == current else _difference(former, current)


def _difference(former: Any, current: Any) -> Any:
    """As ``changes``, of two that differ."""
    if isinstance(former, dict) and isinstance(current, dict):
        change = {
            key: _difference(former[key], value) if key in former and isinstance(value, dict | list) else [value]
            for key, value in current.items()
            if key not in former or former[key] != value
        }
        dropped = former.keys() - current.keys()
        return {**change, "-": list(dropped)} if dropped else change
    if isinstance(former, list) and isinstance(current, list) and former and current:
        shift = former.index(current[0]) if current[0] in former else len(former)
        common = len(former) - shift
        if common and former[shift:] == current[:common]:
            return {"-": shift, "+": current[common:]}
        if len(former) == len(current):
            pairs = enumerate(zip(former, current, strict=True))
            return {str(place): _difference(*pair) for place, pair in pairs if pair[0] != pair[1]}
    return [current]
