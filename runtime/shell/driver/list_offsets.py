"""Asking the leaders where the logs end: one ListOffsets to each, side by side, so that a silent broker costs its own only.

A leader that takes longer than ``ANSWER_S`` is *silent*: no round waits for it until it has answered.  Its question stays
open, and is repeated, so that its return is seen.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple

from confluent_kafka import KafkaError

from sparkcohort.runtime.kafka.cluster_messages import ListedOffset, OffsetsQuestion
from sparkcohort.runtime.protocol.offsets_json import LATEST
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver.discovery import Layout
from sparkcohort.runtime.shell.kafka import clients
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient, result_of
from sparkcohort.runtime.shell.options.connection_settings import TransportError

FIRST_S = 3.0  # patience with a leader that has to be connected to first
ANSWER_S = 1.0  # with one that is connected
OPEN_S = 5.0  # how long a question to a silent leader stays open
PROBE_GAP_S = 0.25  # and after what time it is asked again
MIN_GAP_S = 0.02  # between two requests to one broker, however often answers are asked for
ERROR_GAP_S = 0.1  # the same where some answered with an error: it costs them as much, and comes at once


class End(NamedTuple):
    """An offset, and the epoch of the leader that answered it (for the log's end only); -1 where there is none."""

    offset: int
    epoch: int


Answers = dict[TopicPartition, End]
Reasons = dict[TopicPartition, str]
_Listed = dict[TopicPartition, ListedOffset]


def ask_leaders(
    client: ClusterClient, layout: Layout, specs: Mapping[TopicPartition, int], timeout_s: float, *, committed: bool
) -> tuple[Answers, Reasons]:
    """Offsets by timestamp (or EARLIEST, LATEST), and the reason for each partition without one; waits."""
    shares: dict[int, dict[TopicPartition, int]] = {}
    for tp, spec in specs.items():
        shares.setdefault(layout.leaders.get(tp, -1), {})[tp] = spec
    reasons: Reasons = dict.fromkeys(shares.pop(-1, {}), "no leader is available")
    open_questions = {
        node: client.ask(OffsetsQuestion(share, committed), node, timeout_s) for node, share in shares.items()
    }
    answers: Answers = {}
    for node, future in open_questions.items():
        try:
            listed, refused = _split_outcomes(result_of(future, timeout_s), shares[node])
        except TransportError as error:
            listed, refused = {}, dict.fromkeys(shares[node], _silence(node, layout, error))
        answers |= listed
        reasons |= refused
    return answers, reasons


def _split_outcomes(listed: _Listed, partitions: Mapping[TopicPartition, object]) -> tuple[Answers, Reasons]:
    answers = {tp: End(entry.offset, entry.epoch) for tp, entry in listed.items() if not entry.error}
    errors = {tp: clients.text_of(KafkaError(entry.error)) for tp, entry in listed.items() if entry.error}
    untold = dict.fromkeys((tp for tp in partitions if tp not in listed), "its leader has left it out of the answer")
    return answers, {**errors, **untold}


def _silence(node: int, layout: Layout, error: TransportError | None = None) -> str:
    return f"broker {node} ({layout.address(node)}) does not answer{f': {error}' if error else ''}"


@dataclass
class _Leader:
    """What is known of a leader; ``future`` is None while it owes no answer."""

    future: Future[dict[TopicPartition, ListedOffset]] | None = None
    partitions: Mapping[TopicPartition, int] | None = None  # of the question
    sent_at: float = 0.0
    patience_s: float = FIRST_S
    silence: str = ""  # why its partitions are left out
    silences: int = 0  # in a row
    probe_at: float = 0.0


class EndRounds:
    """Ends of all partitions, round by round; for the client's thread."""

    def __init__(self, client: ClusterClient, *, committed: bool) -> None:
        self._client, self._committed = client, committed
        self._leaders: dict[int, _Leader] = {}
        self._errors: dict[int, Reasons] = {}
        self._began = self._took_s = 0.0
        self.answers: Answers = {}
        """What has come since the caller has emptied it."""

    def begin(self, layout: Layout) -> None:
        """Ask every leader that owes no answer."""
        self._began = time.monotonic()
        self._errors = {}
        for node in layout.by_leader:
            if self._leaders.setdefault(node, _Leader()).future is None:
                self._ask(node, layout)

    def is_over(self) -> bool:
        """Whether no answer is missing, but for silent leaders'."""
        return all(leader.future is None or leader.silence for leader in self._leaders.values())

    def step(self, layout: Layout) -> bool:
        """Take what has come, ask silent leaders again; whether a leader that was silent has answered."""
        now, is_back = time.monotonic(), False
        for node, leader in list(self._leaders.items()):
            if leader.future is not None and leader.future.done():
                is_back |= self._take(node, leader, leader.future, layout)
            elif leader.future is not None:
                if not leader.silence and now >= leader.sent_at + leader.patience_s:
                    self._fall_silent(node, leader, _silence(node, layout), layout)
            elif node not in layout.by_leader:
                del self._leaders[node]
            elif leader.silence and now >= leader.probe_at:
                self._ask(node, layout)
        self._took_s = now - self._began
        return is_back

    def reasons(self, layout: Layout) -> Reasons:
        """Why partitions have no end, as of the last answers."""
        refused = {tp: reason for each in self._errors.values() for tp, reason in each.items() if tp in layout.leaders}
        silent = {node: leader.silence for node, leader in self._leaders.items() if leader.silence}
        return refused | {tp: silent[node] for node in silent for tp in layout.by_leader.get(node, ())}

    def has_refusals(self) -> bool:
        """Whether a leader has answered with an error: it may not lead the partition any more."""
        return any(self._errors.values())

    def next_begin(self) -> float:
        """When the next round may begin: later where a round is dear, or of no use."""
        troubled = self.has_refusals() or any(leader.silence for leader in self._leaders.values())
        return self._began + (ERROR_GAP_S if troubled else max(MIN_GAP_S, 2 * min(self._took_s, MIN_GAP_S)))

    def due(self) -> float:
        """When ``step`` has something to do although nothing has come."""
        times = [
            leader.sent_at + leader.patience_s if leader.future is not None else leader.probe_at
            for leader in self._leaders.values()
            if (leader.future is None) == bool(leader.silence)
        ]
        return min(times, default=float("inf"))

    def _ask(self, node: int, layout: Layout) -> None:
        leader = self._leaders[node]
        leader.patience_s = ANSWER_S if self._client.is_connected(node) else FIRST_S
        leader.sent_at = time.monotonic()
        leader.partitions = dict.fromkeys(layout.by_leader[node], LATEST)
        leader.future = self._client.ask(OffsetsQuestion(leader.partitions, self._committed), node, OPEN_S)

    def _take(
        self, node: int, leader: _Leader, future: Future[dict[TopicPartition, ListedOffset]], layout: Layout
    ) -> bool:
        leader.future, leader.probe_at = None, time.monotonic() + PROBE_GAP_S
        try:
            listed, self._errors[node] = _split_outcomes(future.result(), leader.partitions or {})
        except TransportError as error:
            self._fall_silent(node, leader, _silence(node, layout, error), layout)
            return False
        self.answers |= listed
        was_silent = bool(leader.silence)
        if leader.silences > 1:
            clients.log.info("broker %d answers again", node)
        leader.silence, leader.silences = "", 0
        return was_silent

    def _fall_silent(self, node: int, leader: _Leader, reason: str, layout: Layout) -> None:
        leader.silence, leader.silences = reason, leader.silences + 1
        if leader.silences == 2:  # logged at the second silence: a busy machine is late now and then
            broker = f"broker {node} ({layout.address(node)})"
            clients.log.warning("%s does not answer; its partitions are left out until it does", broker)
