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
    direct: Any = None,
) -> TaskServer:
    """A server of what ``source`` has, a prefetcher or what has its ``serve``; ``direct`` likewise."""
    return TaskServer(name, token, source, direct, on_served, call_coordinator, lambda _: None)
