"""The network between members and coordinator: late, lossy, repetitive, and sometimes cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from sparkcohort.runtime.protocol import messages as p
from tests.simulator.schedule import Schedule

if TYPE_CHECKING:
    from tests.simulator.process import Process

SLOWEST_MS = 8_000


@dataclass(slots=True)
class Weather:
    """Chances of a message; ``noticed`` is that of a loss that shows at once (a broken connection)."""

    drop: float = 0.0
    duplicate: float = 0.0
    slow: float = 0.0
    noticed: float = 1.0
    latency_ms: int = 5


class Network:
    """Carries messages; a process in ``cut`` neither sends nor hears."""

    def __init__(self, schedule: Schedule, random: Random) -> None:
        self.weather = Weather()
        self.cut: dict[Process, None] = {}  # in the order of cutting: a set's would not be the same in every run
        self.dropped = self.duplicated = self.slowed = 0
        self.latest_ms = 0  # when the last message now under way arrives
        self._schedule, self._random = schedule, random

    def request(self, process: Process, call: int, request: p.Request, deliver: Callable[..., None]) -> None:
        """From a process to the coordinator."""
        self._carry(process, call, type(request) is p.Heartbeat, deliver, (process, call, request))

    def reply(self, process: Process, call: int, reply: p.Reply) -> None:
        """The answer to a call."""
        self._carry(process, call, type(reply) is p.HeartbeatReply, process.reach, (process.replied, call, reply))

    def push(self, process: Process, generation: int, reason: str) -> None:
        """A word of the coordinator's own."""
        self._carry(process, None, False, process.reach, (process.pushed, generation, reason))

    def refuse(self, process: Process, call: int) -> None:
        """Nobody listens: the caller finds out, at once or by its time-out."""
        if self._random.random() < self.weather.noticed:
            self._schedule.after(self._random.randint(1, 50), process.reach, process.unreachable, call)

    def _carry(
        self, process: Process, call: int | None, beat: bool, deliver: Callable[..., None], args: tuple[Any, ...]
    ) -> None:
        schedule, weather = self._schedule, self.weather
        put = schedule.later if beat else schedule.after
        if process.local:
            put(0, deliver, *args)
            return
        random = self._random.random
        if process in self.cut or random() < weather.drop:
            self.dropped += 1
            if call is not None:
                self.refuse(process, call)
            return
        put(self._delay(), self._arrive, process, call, deliver, args)
        if random() < weather.duplicate:
            self.duplicated += 1
            put(self._delay(), self._arrive, process, None, deliver, args)

    def _delay(self) -> int:
        if self._random.random() < self.weather.slow:
            self.slowed += 1
            delay_ms = self._random.randint(500, SLOWEST_MS)
        else:
            delay_ms = self._random.randint(1, self.weather.latency_ms)
        self.latest_ms = max(self.latest_ms, self._schedule.now_ms + delay_ms)
        return delay_ms

    def _arrive(self, process: Process, call: int | None, deliver: Callable[..., None], args: tuple[Any, ...]) -> None:
        if process not in self.cut:
            deliver(*args)
            return
        self.dropped += 1
        if call is not None:
            self.refuse(process, call)
