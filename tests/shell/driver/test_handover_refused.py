"""A running query whose answers Kafka does not take: refused, late, or for a place that is gone.  It runs on, without waiting."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import pytest
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient
from msgspec.structs import replace

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka import handover as machine
from sparkcohort.runtime.kafka.handover import HandoverAnswer, HandoverRecord, RunName, encode_handover
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver import handover
from sparkcohort.runtime.shell.driver.handover import HandoverWatch
from sparkcohort.runtime.shell.kafka import group_requests
from sparkcohort.runtime.shell.kafka.handover_client import SUFFIX, HandoverClient, HandoverDelayed, HandoverDenied
from tests.kit.broker import Broker
from tests.kit.waiting import hold_for, wait_until

if TYPE_CHECKING:
    from sparkcohort.runtime.shell.driver.group_commits import GroupCommits

RUN = RunName(7, "seven")
REQUESTED = HandoverRecord(HandoverAnswer.REQUESTED, "me", *RUN, "host")
CONFIRMED = replace(REQUESTED, answer=HandoverAnswer.CONFIRMED)
PARKED = replace(REQUESTED, answer=HandoverAnswer.PARKED)
DENIED = HandoverDenied("hand-over of group billing: GROUP_AUTHORIZATION_FAILED")
DELAYED = HandoverDelayed("hand-over of group billing: UNKNOWN_TOPIC_OR_PART")
QUICK_S, HOLD_S = 10.0, 0.5  # twenty batches that wait, each for a second, take twice as long
PLACE = TopicPartition("t", 0)


class Kafka:
    """The one record of a group, and what Kafka says to each try to write it; None takes it.  The last answer stays."""

    group_id = "billing"

    def __init__(self, record: HandoverRecord, *answers: CohortError | None) -> None:
        """Nobody has tried yet."""
        self.record = record
        self.answers: Sequence[CohortError | None] = answers
        self.looks: list[float] = []
        self.tries: list[tuple[float, HandoverAnswer]] = []
        self.renewed = 0

    def records(self) -> tuple[HandoverRecord, ...]:
        """What stands there."""
        self.looks.append(time.monotonic())
        return (self.record,)

    def write(self, record: HandoverRecord) -> None:
        """Or not; a further sign of life is always taken."""
        if record.answer is HandoverAnswer.CONFIRMED and record.renewal > 1:
            self.record, self.renewed = record, self.renewed + 1
            return
        answer = self.answers[min(len(self.tries), len(self.answers) - 1)]
        self.tries.append((time.monotonic(), record.answer))
        if answer is not None:
            raise answer
        self.record = record

    def close(self) -> None:
        """No client to let go of."""

    def tried(self, answer: HandoverAnswer) -> list[float]:
        """When this was tried."""
        return [at for at, each in self.tries if each is answer]


class Commits:
    """The commits of the run: ``flush`` as it is given, fenced once there is a successor."""

    def __init__(self, flush: Callable[[float], bool] = lambda _: True) -> None:
        """Not fenced."""
        self.flush, self.successors = flush, list[RunName]()

    def successor(self) -> RunName | None:
        """The run that has fenced this one."""
        return next(iter(self.successors), None)

    def end(self) -> None:
        """Nothing is committed."""


@contextmanager
def watching(
    kafka: Kafka | HandoverClient, commits: Commits | None = None, run: RunName = RUN
) -> Iterator[HandoverWatch]:
    """The run's hand-over, which looks."""
    watch = HandoverWatch(cast("HandoverClient", kafka), run, cast("GroupCommits", commits or Commits()))
    watch.start()
    try:
        yield watch
    finally:
        watch.close()


def batch(watch: HandoverWatch, number: int) -> None:
    """As a query with a listener: plan, log, and stop at the next trigger if somebody waits for that."""
    end = {PLACE: number}
    watch.plan(end)
    watch.logged(end)
    if watch.requested:
        watch.reach()
    watch.check()


def batches(watch: HandoverWatch, count: int = 20) -> None:
    """So many, without waiting for anybody."""
    began = time.monotonic()
    for number in range(count):
        batch(watch, number)
    assert time.monotonic() - began < QUICK_S


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look in 50 ms, an answer is of use for a second."""
    monkeypatch.setattr(handover, "WATCH_S", 0.05)
    monkeypatch.setattr(handover, "DENIED_S", 0.1)
    monkeypatch.setattr(handover, "COMMITS_S", 1.0)
    monkeypatch.setattr(handover, "ANSWER_S", 1.0)
    monkeypatch.setattr(machine, "RENEWAL_MS", 100)


def test_an_answer_that_does_not_arrive_is_tried_at_each_look() -> None:
    """After another look, which finds where it is wanted now; no batch waits for it."""
    kafka = Kafka(REQUESTED, DELAYED)
    with watching(kafka) as watch:
        wait_until(lambda: len(kafka.tries) >= 2, 5, "a second try")
        batches(watch)
        wait_until(lambda: len(kafka.tries) >= 10, 10, "further tries")
        assert not watch.requested
        tries = kafka.tried(HandoverAnswer.CONFIRMED)
        assert all(any(a < look < b for look in kafka.looks) for a, b in pairwise(tries))
        kafka.answers = (None,)
        wait_until(lambda: watch.requested, 5, "the request to be heard")


def test_who_lives_says_so_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of a batch, and while Kafka takes no commit; never behind the answer."""
    monkeypatch.setattr(handover, "COMMITS_S", QUICK_S)
    kafka, taken = Kafka(REQUESTED, None), threading.Event()

    def renewed_again() -> None:
        before = kafka.renewed
        wait_until(lambda: kafka.renewed >= before + 3, 5, "words that are renewed")

    with watching(kafka, Commits(taken.wait)) as watch, ThreadPoolExecutor(1) as beside:
        renewed_again()
        stopping = beside.submit(watch.reach)
        renewed_again()
        taken.set()
        assert "HANDED_OVER" in str(stopping.exception(5))
        renewed = kafka.renewed
        hold_for(
            lambda: (kafka.renewed, kafka.record.answer) == (renewed, HandoverAnswer.PARKED), HOLD_S, "no word more"
        )


def test_an_answer_that_is_refused_is_not_taken_back() -> None:
    """The commits are in Kafka: the query has ended, and its answer is tried with pauses."""
    kafka = Kafka(REQUESTED, None, DELAYED, DENIED)
    with watching(kafka) as watch:
        wait_until(lambda: watch.requested, 5, "a request")
        with pytest.raises(CohortError, match=r"^HANDED_OVER"):
            batch(watch, 1)
        assert watch.handed_over
        tries = kafka.tried(HandoverAnswer.PARKED)
        assert len(tries) >= 2
        with pytest.raises(CohortError, match=r"^HANDED_OVER"):
            watch.plan({PLACE: 2})


def test_commits_of_a_batch_before_stop_nothing() -> None:
    """A batch that is planned while they are waited for has commits of its own."""
    waits, planned = threading.Event(), threading.Event()

    def flush(_timeout_s: float) -> bool:
        first = not waits.is_set()
        waits.set()
        return first and planned.wait(10)  # as Kafka has not taken the later batch

    kafka = Kafka(CONFIRMED, None)
    with watching(kafka, Commits(flush)) as watch:
        wait_until(lambda: watch.requested, 5, "a request")
        for number in (1, 2):
            watch.plan({PLACE: number})
            watch.logged({PLACE: number})
            assert waits.wait(5)
        planned.set()
        hold_for(lambda: not watch.handed_over, HOLD_S, "no end")
        watch.check()


def asks(conf: dict[str, str], group: str, place: TopicPartition, record: HandoverRecord) -> None:
    """As whoever may.  Raises KafkaException for who may not."""
    written = [Position(*place, 0, encode_handover(record))]
    admin = AdminClient({**conf})  # whose end would end the request
    answer = group_requests.commit_offsets(admin, group + SUFFIX, written).result(30)
    for each in answer.topic_partitions or ():
        if each.error is not None:
            raise KafkaException(each.error)


def test_an_answer_stands_where_its_request_stands(broker: Broker, topic: str) -> None:
    """What a request that was never answered has left beside another partition takes no answer meant for a later one."""
    broker.admin.create_topic(topic, 2)
    places = [TopicPartition(topic, number) for number in (0, 1)]
    gone = replace(REQUESTED, request="gone")
    conf = {"bootstrap.servers": broker.bootstrap}
    asks(conf, topic, places[0], REQUESTED)
    asks(conf, topic, places[1], gone)
    client = HandoverClient(conf, topic, lambda: places)
    try:
        assert set(client.records()) == {REQUESTED, gone}
        client.write(CONFIRMED)
        assert set(client.records()) == {CONFIRMED, gone}
    finally:
        client.close()


NEWER = RunName(8, "eight")


def test_a_fenced_driver_says_so_to_the_one_that_goes_on(
    broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Also when it ends before its next look; the newer one counts it once, and says who it was."""
    broker.admin.create_topic(topic, 2)
    places = [TopicPartition(topic, number) for number in (0, 1)]
    conf = {"bootstrap.servers": broker.bootstrap}
    commits = Commits()
    with watching(HandoverClient(conf, topic, lambda: places), run=NEWER) as newer:
        with watching(HandoverClient(conf, topic, lambda: places), commits) as older:
            older._next_look = time.monotonic() + 3600
            commits.successors.append(NEWER)
        wait_until(lambda: newer.fencings, 30, "the word of the one that was fenced")
        looks = newer._next_look
        wait_until(lambda: newer._next_look > looks, 30, "another look")
        assert newer.fencings == 1
    assert caplog.text.count("still ran when this query took the group over") == 1
    assert socket.gethostname() in caplog.text
    asks(
        conf, topic, places[0], replace(REQUESTED, run=NEWER.run, id=NEWER.id)
    )  # as whoever hands over next: the word stops nobody
    with watching(HandoverClient(conf, topic, lambda: places), run=NEWER) as again:
        wait_until(lambda: again.requested, 30, "the request")
