"""What the client of the cluster knows of an open question, and of a broker that it asks."""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import Any, Final

from sparkcohort.runtime.kafka.cluster_messages import AnyQuestion
from sparkcohort.runtime.kafka.fetch_messages import Node
from sparkcohort.runtime.shell.kafka.fetch.broker import BrokerLink, FrameReader
from sparkcohort.runtime.shell.options.connection_settings import TransportError

TRY_S: Final = 1.0
"""After so long without an answer a question to any broker goes to another one, too; then after twice as long, and so on."""


class BrokerRequest:
    """A question that is open; ``node`` is None where any broker may answer."""

    def __init__(self, question: AnyQuestion, node: Node | int | None, deadline: float) -> None:
        """``deadline`` is the monotonic clock's."""
        self.question, self.node, self.deadline = question, node, deadline
        self.future: Future[Any] = Future()
        self.asked_nodes: list[Node] = []
        self.open = 0  # brokers that may still answer
        self.errors: list[TransportError] = []
        self.next_try, self.try_s = 0.0, TRY_S

    def answer(self, result: Any) -> None:
        """The answer has come; a later one counts for nothing."""
        if not self.future.done():
            self.future.set_result(result)

    def fail(self, error: Exception) -> None:
        """There is no answer."""
        if not self.future.done():
            self.future.set_exception(error)


class QuestionLink(BrokerLink):
    """One broker: what waits to be sent to it, and what was sent."""

    def __init__(self, node: Node, frames: FrameReader) -> None:
        """Not connected."""
        super().__init__(node, frames)
        self.connecting_until = 0.0
        self.queue: list[BrokerRequest] = []
        self.in_flight: dict[int, tuple[BrokerRequest, AnyQuestion]] = {}  # by correlation id, in order
        self.has_answered = False  # since it was connected
        self.error: TransportError | None = None  # why it is left alone until ``not_before``

    def disconnect(self) -> None:
        """See ``BrokerLink``."""
        super().disconnect()
        self.in_flight, self.has_answered = {}, False

    @property
    def is_silent(self) -> bool:
        """Whether it owes answers and has sent nothing for a while."""
        return bool(self.in_flight) and time.monotonic() > self.heard_at + TRY_S
