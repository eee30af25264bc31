"""Asking leaders where the epochs before theirs end in their logs (KIP-320), on the thread of the one client.

librdkafka asks that only for what it fetches itself.  No call waits here, and a question stays open for ``PATIENCE_S`` at most.
Where no broker can answer (before Kafka 3.1, or with a login that only librdkafka can do) that is logged once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Final

from sparkcohort.runtime.kafka.cluster_messages import EpochEnd, EpochEndsQuestion, MetadataQuestion
from sparkcohort.runtime.kafka.fetch_messages import Metadata
from sparkcohort.runtime.kafka.leader_epochs import Question
from sparkcohort.runtime.protocol.partitions import TopicPartition, names_of
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient
from sparkcohort.runtime.shell.options.connection_settings import TransportError, UnsupportedBroker

log = logging.getLogger("sparkcohort.epoch_ends")

PATIENCE_S = 5.0
GAP_S = 0.1
NOT_NOW: Final = frozenset({3, 5, 6, 7, 9, 56, 74, 75})
"""Kafka's errors of brokers that don't lead the partition, or don't know its leader yet: asked again.  Others are final."""

Ends = dict[TopicPartition, int | None]


@dataclass(slots=True)
class _Lookup:
    """A question; ``end`` is None as long as it isn't answered, and where no leader can tell."""

    question: Question
    opened_at: float
    is_answered: bool = False
    end: int | None = None


class EpochEndLookup:
    """Answers to questions as they come; every method may be called from any thread."""

    def __init__(self, client: ClusterClient) -> None:
        """Nothing is opened before the first question."""
        self._client = client
        self._lock = threading.Lock()
        self._lookups: dict[TopicPartition, _Lookup] = {}
        self._trouble = "no answer"
        self._logged = False
        self._due = 0.0  # when what is open is asked again

    def look_up(self, questions: Mapping[TopicPartition, Question]) -> Ends:
        """The ends that are known; None where no leader can tell.  Asks for the missing ones, and forgets all other questions."""
        now = time.monotonic()
        with self._lock:
            old = {tp: each for tp, each in self._lookups.items() if questions.get(tp) == each.question}
            new = {tp: _Lookup(question, now) for tp, question in questions.items() if tp not in old}
            self._lookups = old | new
            late = [tp for tp, each in old.items() if not each.is_answered and now > each.opened_at + PATIENCE_S]
            if late:
                log.warning("%s: not known whether records were lost with a leader: %s", names_of(late), self._trouble)
            for tp in late:
                old[tp].is_answered = True
            pending = {tp: each.question for tp, each in self._lookups.items() if not each.is_answered}
            ends = {tp: each.end for tp, each in self._lookups.items() if each.is_answered}
            begins = bool(pending) and (now >= self._due or bool(new))
            if begins:
                self._due = now + PATIENCE_S  # sooner, once what was asked is answered
        if begins:
            look = self._client.ask(MetadataQuestion({tp.topic for tp in pending}), None, PATIENCE_S)
            look.add_done_callback(partial(self._ask_leaders, pending))
        return ends

    # --- the client's thread -----------------------------------------------------------------------------

    def _ask_leaders(self, questions: Mapping[TopicPartition, Question], look: Future[Metadata]) -> None:
        try:
            shares = _by_leader(look.result(), questions)
        except TransportError as error:
            self._note(error)
            return
        if not shares:
            self._note(TransportError("no leader is known"))
        for node, share in shares.items():
            partitions = [TopicPartition(topic, number) for topic, each in share.items() for number in each]
            answer = self._client.ask(EpochEndsQuestion(share), node, PATIENCE_S)
            answer.add_done_callback(partial(self._take_answer, questions, partitions))

    def _take_answer(
        self,
        questions: Mapping[TopicPartition, Question],
        partitions: list[TopicPartition],
        answer: Future[dict[TopicPartition, EpochEnd]],
    ) -> None:
        try:
            self._take(answer.result(), questions)
        except UnsupportedBroker as error:
            self._tell_once(str(error))
            self._take(dict.fromkeys(partitions), questions)
        except TransportError as error:
            self._note(error)

    def _note(self, error: TransportError) -> None:
        with self._lock:
            self._trouble, self._due = str(error), time.monotonic() + GAP_S

    def _tell_once(self, reason: str) -> None:
        if not self._logged:
            self._logged = True
            log.info("after an unclean election a log that is longer again passes for the old one: %s", reason)

    def _take(
        self, answers: Mapping[TopicPartition, EpochEnd | None], questions: Mapping[TopicPartition, Question]
    ) -> None:
        ends: Ends = {}
        for tp, end in answers.items():
            if tp not in questions or (end is not None and end.error in NOT_NOW):
                continue
            valid = end is not None and not end.error and 0 <= end.epoch <= questions[tp].epoch and end.end >= 0
            ends[tp] = end.end if valid and end is not None else None
            if end is not None and not valid:
                reason = f"Kafka's error {end.error}" if end.error else "no such epoch there"
                log.info("%s: not known whether records were lost with a leader: %s", names_of([tp]), reason)
        with self._lock:
            self._due = time.monotonic() + GAP_S
            for tp, answered_end in ends.items():
                lookup = self._lookups.get(tp)
                if lookup is not None and lookup.question == questions[tp]:
                    lookup.is_answered, lookup.end = True, answered_end


def _by_leader(
    metadata: Metadata, questions: Mapping[TopicPartition, Question]
) -> dict[int, dict[str, dict[int, tuple[int, int]]]]:
    """The questions for each leader, without partitions that have none, or whose leader in these metadata is an old one."""
    shares: dict[int, dict[str, dict[int, tuple[int, int]]]] = {}
    for tp, question in questions.items():
        topic = metadata.topics.get(tp.topic)
        leader = topic.leaders.get(tp.partition) if topic is not None else None
        # librdkafka tells no epoch, and has no such question: it says so.
        if leader is not None and (leader.epoch >= question.now or leader.epoch < 0) and leader.node in metadata.nodes:
            shares.setdefault(leader.node, {}).setdefault(tp.topic, {})[tp.partition] = leader.epoch, question.epoch
    return shares
