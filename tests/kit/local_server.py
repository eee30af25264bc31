"""A server of tasks' requests whose rows a test chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkcohort.runtime.protocol.partitions import Range
from sparkcohort.runtime.shell.agent.task_server import TaskServer


def new_server(
    name: str,
    token: str,
    source: Any,
    on_served: Callable[[Sequence[Range]], None] = lambda _: None,
    call_coordinator: Callable[[str, bytes, float], bytes] = lambda *_: b"",
) -> TaskServer:
    """A server of what ``source`` has: a prefetcher, or what has its ``serve``."""
    return TaskServer(name, token, source, on_served, call_coordinator, lambda _: None)
