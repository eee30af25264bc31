"""Asking leaders where the epochs before theirs end in their logs (KIP-320), by a thread in the background.

librdkafka asks that only for what it fetches itself, so this goes over connections of our own, made for each round of
questions: there are some only when leaders have changed.  Nobody waits here, and a question stays open for ``PATIENCE_S`` at
most.  Where no answer can be had (a broker before Kafka 3.1, a login that only librdkafka can do) that is told once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, Final

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.addresses import servers
from sparkcohort.runtime.kafka.fetch_messages import (
    EPOCH_ENDS,
    EPOCH_ENDS_VERSION,
    EpochEnd,
    Metadata,
    Node,
    epoch_ends_answer,
    epoch_ends_request,
    framed,
)
from sparkcohort.runtime.kafka.leader_epochs import Question
from sparkcohort.runtime.protocol.partitions import TopicPartition, names_of
from sparkcohort.runtime.shell.kafka.consumer.record_source import settings_of
from sparkcohort.runtime.shell.kafka.fetch.connection import Beyond, Settings, TransportError, unsupported
from sparkcohort.runtime.shell.kafka.fetch.metadata import MetadataClient, bootstrap_of, connect_to, send_and_receive
from sparkcohort.runtime.shell.process.threads import Supervised

log = logging.getLogger("sparkcohort.epoch_ends")

PATIENCE_S = 5.0
CONNECT_S = 2.0
GAP_S = 0.1
NEEDED: Final = {EPOCH_ENDS: EPOCH_ENDS_VERSION}
NOT_NOW: Final = frozenset({3, 5, 6, 7, 9, 56, 74, 75})
"""Kafka's errors of brokers that don't lead the partition, or don't know yet who does; the others stay as they are."""

Ends = dict[TopicPartition, int | None]


class EpochEndLookup:
    """Answers to questions as they come; every method may be called from any thread."""

    def __init__(self, conf: Mapping[str, Any], give_up: Callable[[CohortError], None]) -> None:
        """Nothing is opened before the first question."""
        self._conf = conf
        self._changed = threading.Condition()
        self._open: dict[TopicPartition, tuple[Question, float]] = {}  # since when
        self._answers: dict[TopicPartition, tuple[Question, int | None]] = {}
        self._thread = Supervised("cohort-epoch-ends", self._wait, self._work, give_up)
        self._impossible = ""  # why
        self._trouble = "no answer"
        self._told = self._started = self._closed = False
        self._due = 0.0

    def of(self, asked: Mapping[TopicPartition, Question]) -> Ends:
        """What is known of these; None where nobody can tell.  What is left out is asked for, what isn't asked is forgotten."""
        now = time.monotonic()
        with self._changed:
            self._answers = {tp: known for tp, known in self._answers.items() if asked.get(tp) == known[0]}
            self._open = {tp: known for tp, known in self._open.items() if asked.get(tp) == known[0]}
            late = {tp for tp, (_, since) in self._open.items() if now > since + PATIENCE_S}
            if self._impossible:
                self._tell_once()
                late = set(asked)
            elif late:
                log.warning("%s: not known whether records were lost with a leader: %s", names_of(late), self._trouble)
            self._answers |= {tp: (asked[tp], None) for tp in late}
            self._open |= {tp: (asked[tp], now) for tp in asked.keys() - self._open.keys()}
            self._open = {tp: known for tp, known in self._open.items() if tp not in self._answers}
            if self._open:
                self._changed.notify_all()
                self._start()
            return {tp: end for tp, (_, end) in self._answers.items()}

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._closed = True
            self._thread.close()
            self._changed.notify_all()

    # --- inside ------------------------------------------------------------------------------------

    def _start(self) -> None:
        if not self._started:
            self._started = True
            self._thread.start()

    def _tell_once(self) -> None:
        if not self._told:
            self._told = True
            log.info(
                "after an unclean election a log that is longer again passes for the old one: %s", self._impossible
            )

    def _wait(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._closed, max(self._due - time.monotonic(), 0.0))
            self._changed.wait_for(lambda: self._closed or self._open)
            return not self._closed

    def _work(self) -> None:
        """One round: who leads what, then each leader; what stays open is for the next round."""
        with self._changed:
            asked = {tp: question for tp, (question, _) in self._open.items()}
        self._due = time.monotonic() + GAP_S
        said = settings_of(self._conf)
        self._impossible = unsupported(said)
        if self._impossible:
            return
        try:
            settings = Settings.of(said)
            with closing(MetadataClient(servers(bootstrap_of(said)), settings)) as client:
                metadata = client.ask({tp.topic for tp in asked}, ())
        except (Beyond, ValueError) as error:
            self._impossible = str(error)
            return
        except TransportError as error:
            self._trouble = str(error)
            return
        for node, share in _by_leader(metadata, asked).items():
            try:
                self._take(_ask(node, settings, share), asked)
            except Beyond as error:
                self._take(dict.fromkeys((TopicPartition(*at) for at in _partitions(share)), None), asked, str(error))
            except TransportError as error:
                self._trouble = str(error)

    def _take(
        self, found: Mapping[TopicPartition, EpochEnd | None], asked: Mapping[TopicPartition, Question], why: str = ""
    ) -> None:
        ends: Ends = {}
        for tp, end in found.items():
            if tp not in asked or (end is not None and end.error in NOT_NOW):
                continue
            known = end is not None and not end.error and 0 <= end.epoch <= asked[tp].epoch and end.end >= 0
            ends[tp] = end.end if known and end is not None else None
            if not known:
                reason = why or (
                    f"Kafka's error {end.error}" if end is not None and end.error else "no such epoch there"
                )
                log.info("%s: not known whether records were lost with a leader: %s", names_of([tp]), reason)
        with self._changed:
            self._answers |= {tp: (asked[tp], end) for tp, end in ends.items()}
            self._open = {tp: known for tp, known in self._open.items() if tp not in ends or known[0] != asked[tp]}


Share = dict[str, dict[int, tuple[int, int]]]


def _partitions(share: Share) -> list[tuple[str, int]]:
    return [(topic, index) for topic, each in share.items() for index in each]


def _by_leader(metadata: Metadata, asked: Mapping[TopicPartition, Question]) -> dict[Node, Share]:
    """Whom to ask for what; the rest is not led, or those who were asked are behind with the metadata."""
    shares: dict[Node, Share] = {}
    for tp, question in asked.items():
        topic = metadata.topics.get(tp.topic)
        leader = topic.leaders.get(tp.partition) if topic is not None else None
        if leader is not None and leader.epoch >= question.now and leader.node in metadata.nodes:
            share = shares.setdefault(metadata.nodes[leader.node], {})
            share.setdefault(tp.topic, {})[tp.partition] = leader.epoch, question.epoch
    return shares


def _ask(node: Node, settings: Settings, share: Share) -> dict[TopicPartition, EpochEnd]:
    transport = connect_to(node, settings, CONNECT_S, NEEDED)
    try:
        request = framed(EPOCH_ENDS, EPOCH_ENDS_VERSION, 1, settings.client_id, epoch_ends_request(share))
        found = send_and_receive(
            transport, request, "OffsetForLeaderEpoch", lambda of: epoch_ends_answer(of, len(of), 1)
        )
    finally:
        transport.close()
    return {TopicPartition(*at): end for at, end in found.items()}
