"""Asking leaders where the epochs before theirs end in their logs (KIP-320), on the thread of the one client.

librdkafka asks that only for what it fetches itself.  No call waits here, and a question stays open for ``PATIENCE_S`` at most.
Where no broker can answer (before Kafka 2.8, or with a login that only librdkafka can do) a log that is longer again passes for the
old one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Final

from sparkcohort.runtime.kafka.cluster_messages import EpochEnd, EpochEndsQuestion
from sparkcohort.runtime.kafka.leader_epochs import Question
from sparkcohort.runtime.protocol.partitions import TopicPartition, names_of
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient
from sparkcohort.runtime.shell.options.connection_settings import TransportError, UnsupportedBroker

log = logging.getLogger("sparkcohort.epoch_ends")

PATIENCE_S = 5.0
GAP_S = 0.1
NOT_NOW: Final = frozenset({3, 5, 6, 7, 9, 56, 74, 75})
"""Kafka's errors of brokers that don't lead the partition, or don't know its leader yet: asked again.  Others are final."""

Questions = Mapping[TopicPartition, Question]


class EpochEndLookup:
    """Answers to questions as they come; every method may be called from any thread."""

    def __init__(
        self,
        client: ClusterClient,
        leaders: Callable[[], Mapping[TopicPartition, int]],
        doubt: Callable[[], None],
    ) -> None:
        """Nothing is opened before the first question; ``doubt`` is called where a broker contradicts ``leaders``."""
        self._client, self._leaders, self._doubt = client, leaders, doubt
        self._lock = threading.Lock()
        self._opened: dict[tuple[TopicPartition, Question], float] = {}  # the questions, and since when they are open
        self._ends: dict[tuple[TopicPartition, Question], int | None] = {}  # None: no leader can tell
        self._trouble = "no leader is known"
        self._due = 0.0  # when what is open is asked again

    def look_up(self, questions: Questions) -> dict[TopicPartition, int | None]:
        """The ends that are known; None where no leader can tell.  Asks for the missing ones, and forgets all other questions."""
        now = time.monotonic()
        with self._lock:
            is_new = not questions.items() <= self._opened.keys()
            self._opened = {each: self._opened.get(each, now) for each in questions.items()}
            self._ends = {each: end for each, end in self._ends.items() if each in self._opened}
            pending = self._opened.keys() - self._ends.keys()
            late = {each for each in pending if now > self._opened[each] + PATIENCE_S}
            if late:
                partitions = names_of(tp for tp, _ in late)
                log.warning("%s: not known whether records were lost with a leader: %s", partitions, self._trouble)
            self._ends |= dict.fromkeys(late)
            begins = pending > late and (now >= self._due or is_new)
            if begins:
                self._due = now + PATIENCE_S  # sooner, once what was asked is answered
            ends = {tp: end for (tp, _), end in self._ends.items()}
        if begins:
            self._ask_leaders(dict(pending - late))
        return ends

    def _ask_leaders(self, questions: Questions) -> None:
        leaders, shares = self._leaders(), dict[int, dict[TopicPartition, Question]]()
        for tp, question in questions.items():
            if (leader := leaders.get(tp, -1)) >= 0:
                shares.setdefault(leader, {})[tp] = question
        for node, share in shares.items():
            epochs: dict[str, dict[int, tuple[int, int]]] = {}
            for tp, question in share.items():
                epochs.setdefault(tp.topic, {})[tp.partition] = question.now, question.epoch
            answer = self._client.ask(EpochEndsQuestion(epochs), node, PATIENCE_S)
            answer.add_done_callback(partial(self._take_answer, share))

    # --- the client's thread -----------------------------------------------------------------------------

    def _take_answer(self, questions: Questions, answer: Future[dict[TopicPartition, EpochEnd]]) -> None:
        ends: dict[tuple[TopicPartition, Question], int | None] = {}
        try:
            answers = answer.result()
        except UnsupportedBroker:
            ends, answers = dict.fromkeys(questions.items()), {}
        except TransportError as error:
            answers, self._trouble = {}, str(error)
        for tp in answers.keys() & questions.keys():
            end, question = answers[tp], questions[tp]
            if end.error in NOT_NOW:
                self._trouble = f"Kafka's error {end.error}"
                self._doubt()
                continue
            is_valid = not end.error and 0 <= end.epoch <= question.epoch and end.end >= 0
            ends[tp, question] = end.end if is_valid else None
            if not is_valid:
                reason = f"Kafka's error {end.error}" if end.error else "no such epoch there"
                log.info("%s: not known whether records were lost with a leader: %s", names_of([tp]), reason)
        with self._lock:
            self._due = time.monotonic() + GAP_S
            self._ends |= ends
