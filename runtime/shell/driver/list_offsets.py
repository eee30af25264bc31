"""Asking the leaders where the logs end, with one call for all of them, that one silent broker cannot stall for long.

All leaders are asked in one call (librdkafka sends one ListOffsets to each, side by side).  Such a call answers as a whole
or not at all.  When it takes too long, the leaders are asked one by one; those that stay silent are *suspects*, left out of
the calls until a thread of their own has had an answer from them.

Over thousands of partitions there are several calls, one after the other: librdkafka looks every answer up in a list, which
costs 5 ns for each pair of a call's partitions (3,000: 46 ms in one call, 13 in six), and a call costs a round trip.

confluent-kafka lets one thread at a time into a client, and a thread inside waits there for its timeout: hence a
client of its own for each of the two threads here, apart from the one that reads metadata.  (Its AdminClient would
not block, but answers for a silent broker with an offset instead of an error.)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from math import inf, sqrt
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Position

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.offsets_json import LATEST
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver.discovery import Layout
from sparkcohort.runtime.shell.kafka import clients
from sparkcohort.runtime.shell.kafka.renewed_client import RenewedClient
from sparkcohort.runtime.shell.process.threads import Supervised

FIRST_S = 3.0  # the first call connects to every leader
LEAST_S, MOST_S = 0.1, 1.0  # bounds of a later call's timeout
PATIENCE = 4.0  # a call may take so many times what it usually takes
ALONE_S = 0.05  # one leader alone, after the common call has timed out: silent for longer, it is a suspect
PAIR_S = 5e-9  # of a call's time, for each pair of its partitions
EACH_S = 6e-6  # and for each partition, however many calls there are
QUICKEST_S = 0.0005  # round trip
UNKNOWN_S = 0.01  # the same, where nothing is known of it
MIN_GAP_S = 0.02  # between two requests to one broker, however often answers are asked for
ERROR_GAP_S = 0.1  # the same where some answered with an error: it costs them as much, and comes at once
PROBE_S = 0.3
PROBE_GAP_S = 0.1
REFRESH_S = 1.0  # age of metadata after which errors are worth another look


class End(NamedTuple):
    """An offset, and the epoch of the leader that told it (where that is asked: of the log's end); -1 where it tells none."""

    offset: int
    epoch: int


Answers = dict[TopicPartition, End]
Reasons = dict[TopicPartition, str]


class OffsetsAnswer(NamedTuple):
    """Offsets, the reason for each partition without one, and how long a round trip takes."""

    found: Answers
    reasons: Reasons
    trip_s: float


class NoAnswer(Exception):
    """The call ran into its timeout."""


def ask(consumer: Consumer, specs: Mapping[TopicPartition, int], timeout_s: float) -> tuple[Answers, Reasons]:
    """Offsets by timestamp (or EARLIEST, LATEST), and the reason for each partition without one.

    Raises NoAnswer on timeout, KafkaException for an error of the call as a whole.
    """
    if not specs:
        return {}, {}
    try:
        answers = consumer.offsets_for_times(
            [Position(tp.topic, tp.partition, spec) for tp, spec in specs.items()], timeout=timeout_s
        )
    except KafkaException as error:
        if clients.code_of(error) in (KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT):
            raise NoAnswer from None
        raise
    found: Answers = {}
    reasons: Reasons = {}
    for answer in answers:
        tp = TopicPartition(answer.topic, answer.partition)
        if answer.error is not None:
            reasons[tp] = clients.text_of(answer.error)
        else:
            found[tp] = End(answer.offset, clients.epoch_of(answer))
    return found, reasons


def calls_for(partitions: int, trip_s: float) -> int:
    """Into how many calls to divide so many partitions where a round trip takes so long, to be done soonest.

    >>> [calls_for(partitions, 0.001) for partitions in (300, 1_000, 3_000)]
    [1, 2, 7]
    >>> calls_for(3_000, 0.2)
    1
    """
    return max(1, round(partitions * sqrt(PAIR_S / max(trip_s, QUICKEST_S))))


def ask_in(calls: int, consumer: Consumer, specs: Mapping[TopicPartition, int], timeout_s: float) -> OffsetsAnswer:
    """As ``ask``, in so many calls of about as many partitions each; also the round trip as far as it shows."""
    deadline, trip_s = time.monotonic() + timeout_s, inf
    items, size = list(specs.items()), max(-(-len(specs) // calls), 1)
    found: Answers = {}
    reasons: Reasons = {}
    for first in range(0, len(items), size):
        began, part = time.monotonic(), dict(items[first : first + size])
        if began > deadline:
            raise NoAnswer
        more, why = ask(consumer, part, deadline - began)
        found |= more
        reasons |= why
        trip_s = min(trip_s, time.monotonic() - began - EACH_S * len(part) - PAIR_S * len(part) ** 2)
    return OffsetsAnswer(found, reasons, max(trip_s, QUICKEST_S))


def ask_apart(
    consumer: Consumer, specs: Mapping[TopicPartition, int], layout: Layout, timeout_s: float
) -> tuple[Answers, Reasons]:
    """The same topic by topic and leader by leader, so that each failure takes only its own partitions along."""
    groups: dict[tuple[int, str], dict[TopicPartition, int]] = {}
    for tp, spec in specs.items():
        groups.setdefault((layout.leaders.get(tp, -1), tp.topic), {})[tp] = spec
    found: Answers = {}
    reasons: Reasons = {}
    for (node, _), group in groups.items():
        try:
            consumer.list_topics(next(iter(group)).topic, timeout=timeout_s)
            more, why, _ = ask_in(calls_for(len(group), UNKNOWN_S), consumer, group, timeout_s)
        except NoAnswer:
            more, why = {}, dict.fromkeys(group, f"broker {node} ({layout.address(node)}) does not answer")
        except KafkaException as error:
            more, why = {}, dict.fromkeys(group, _unknown(error, node, layout))
        found |= more
        reasons |= why
    return found, reasons


def _unknown(error: KafkaException, node: int, layout: Layout) -> str:
    if clients.code_of(error) == KafkaError._UNKNOWN_PARTITION:
        return f"broker {node} ({layout.address(node)}) cannot be reached, or does not lead it any more"
    return clients.text_of(error)


class KeptClient:
    """A consumer to ask with, made when it is needed, by one thread, and anew where it is stuck."""

    def __init__(self, conf: Mapping[str, str], renewed: Callable[[], None] = lambda: None) -> None:
        """``renewed`` is called when another one has been made, which is connected to nobody."""
        self._conf, self._renewed = conf, renewed
        self._kept: RenewedClient[Consumer] = RenewedClient(conf)

    def get(self) -> Consumer:
        """The consumer; raises CohortError where none can be made."""
        consumer = self._kept.get(self._new)
        consumer.poll(0)  # serves log lines
        return consumer

    def release(self) -> None:
        """Let go of the consumer; for the thread that asks."""
        self._kept.release()

    def answered(self, *, yes: bool) -> None:
        """Whether anybody has answered it just now."""
        self._kept.answered(yes=yes)

    def _new(self) -> Consumer:
        made = clients.new_consumer(self._conf)
        self._renewed()
        return made


class Asker:
    """Ends of all partitions, over and over, called by one thread; ``woken`` is called when a suspect has answered."""

    def __init__(
        self, conf: Mapping[str, str], woken: Callable[[], None], give_up: Callable[[CohortError], None]
    ) -> None:
        self._client = KeptClient(conf, self._forget)
        self._forget()
        self._suspects = Suspects(conf, woken, give_up)
        self.took_s = 0.0
        self.troubled = False
        self._refreshed = 0.0

    def ends(self, layout: Layout) -> tuple[Answers, Reasons]:
        """One round: the ends of every partition whose leader answers, the reason for every other one."""
        silent = self._suspects.keep(layout)
        specs = {tp: LATEST for tp, leader in layout.leaders.items() if leader >= 0 and leader not in silent}
        began = time.monotonic()
        if self.troubled and began - self._refreshed > REFRESH_S:
            self._refresh(layout)
        try:
            consumer = self._client.get()  # first: another one has the patience of a first call
            calls, timeout_s = calls_for(len(specs), self._trip_s), max(PATIENCE * self._usual_s, LEAST_S)
            found, reasons, trip_s = ask_in(calls, consumer, specs, timeout_s)
            if specs:  # else nobody was asked
                self._learn(time.monotonic() - began, trip_s)
        except NoAnswer:
            found, reasons = self._ask_each(layout, silent)
        except KafkaException:
            found, reasons = ask_apart(self._client.get(), specs, layout, LEAST_S)
        self.took_s = time.monotonic() - began
        self.troubled = bool(reasons)
        if specs:
            self._client.answered(yes=bool(found))
        return found, reasons | self._silent(layout)

    def gap_s(self) -> float:
        """How long after the beginning of one round the next may begin: longer where a round is dear, or of no use."""
        return ERROR_GAP_S if self.troubled else max(MIN_GAP_S, 2 * min(self.took_s, MIN_GAP_S))

    def release(self) -> None:
        """Let go of the client; for the thread that asks."""
        self._client.release()

    def close(self) -> None:
        """End the suspects' thread."""
        self._suspects.close()

    def _refresh(self, layout: Layout) -> None:
        """Read metadata: by itself, librdkafka may not look again for minutes after an error of ListOffsets."""
        self._refreshed = time.monotonic()
        try:
            for topic in sorted({tp.topic for tp in layout.leaders}):
                self._client.get().list_topics(topic, timeout=PROBE_S)
        except KafkaException as error:
            clients.log.debug("no metadata: %s", clients.text_of(error))

    def _forget(self) -> None:
        """Nothing is known of how long a call takes: the first one connects."""
        self._usual_s = self._trip_s = FIRST_S / PATIENCE

    def _learn(self, took_s: float, trip_s: float) -> None:
        self._trip_s = trip_s
        self._usual_s = min(0.8 * self._usual_s + 0.2 * took_s, 2 * took_s, MOST_S / PATIENCE)

    def _ask_each(self, layout: Layout, silent: frozenset[int]) -> tuple[Answers, Reasons]:
        """Leader by leader, to find out who is silent."""
        found: Answers = {}
        reasons: Reasons = {}
        for node, partitions in layout.by_leader.items():
            if node in silent:
                continue
            try:
                more, why = ask(self._client.get(), dict.fromkeys(partitions, LATEST), max(2 * self._usual_s, ALONE_S))
            except NoAnswer:
                self._suspects.add(node, layout)
                continue
            except KafkaException as error:
                more, why = {}, dict.fromkeys(partitions, _unknown(error, node, layout))
            found |= more
            reasons |= why
        return found, reasons

    def _silent(self, layout: Layout) -> Reasons:
        silent = self._suspects.keep(layout)
        return {
            tp: f"broker {leader} ({layout.address(leader)}) does not answer"
            for tp, leader in layout.leaders.items()
            if leader in silent
        }


class Suspects:
    """Silent leaders, asked again and again by a thread of their own until they answer."""

    def __init__(
        self, conf: Mapping[str, str], woken: Callable[[], None], give_up: Callable[[CohortError], None]
    ) -> None:
        self._client = KeptClient(conf)
        self._woken = woken
        self._changed = threading.Condition()
        self._silent: dict[int, TopicPartition] = {}  # with one partition each to ask for
        self._told: set[int] = set()
        self._addresses: dict[int, str] = {}
        self._thread = Supervised("cohort-suspects", self._wait, self._probe, give_up, ended=self._client.release)
        self._due = 0.0
        self._started = self._closed = False

    def keep(self, layout: Layout) -> frozenset[int]:
        """Who is silent; whoever leads nothing any more is forgotten."""
        shares = layout.by_leader
        with self._changed:
            self._silent = {node: shares[node][0] for node in self._silent if node in shares}
            return frozenset(self._silent)

    def add(self, node: int, layout: Layout) -> None:
        """A leader gave no answer."""
        with self._changed:
            self._silent[node] = layout.by_leader[node][0]
            self._addresses[node] = layout.address(node)
            self._changed.notify_all()
            if not self._started:
                self._started = True
                self._thread.start()

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._closed = True
            self._thread.close()
            self._changed.notify_all()

    def _wait(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._closed, max(self._due - time.monotonic(), 0.0))
            self._changed.wait_for(lambda: self._closed or self._silent)
            return not self._closed

    def _probe(self) -> None:
        consumer = self._client.get()
        with self._changed:
            silent = dict(self._silent)
        for node, tp in silent.items():
            answers = self._is_reachable(consumer, tp)
            self._client.answered(yes=answers)
            if answers:
                self._clear(node)
            elif node not in self._told:  # told at the second silence: a busy machine is late once now and then
                self._told.add(node)
                where = f"broker {node} ({self._addresses[node]})"
                clients.log.warning("%s does not answer; its partitions are left out until it does", where)
        self._due = time.monotonic() + PROBE_GAP_S

    def _is_reachable(self, consumer: Consumer, tp: TopicPartition) -> bool:
        try:
            # A client that never met the broker learns of it this way only.
            consumer.list_topics(tp.topic, timeout=PROBE_S)
            ask(consumer, {tp: LATEST}, PROBE_S)
        except NoAnswer:
            return False
        except KafkaException as error:
            return clients.code_of(error) > 0  # an error of the broker's own is an answer, one of the library's is none
        return True

    def _clear(self, node: int) -> None:
        with self._changed:
            self._silent.pop(node, None)
        if node in self._told:
            self._told.discard(node)
            clients.log.info("broker %d answers again", node)
        self._woken()
