"""Tokens that a user's function makes: every kind of client logs in with them, and goes on with the next ones."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka import membership_state
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.kafka import clients, errors, tokens
from sparkcohort.runtime.shell.kafka.fetch.range_reader import FetchError, RangeReader
from sparkcohort.runtime.shell.kafka.fetch.record_source import RecordSource
from sparkcohort.runtime.shell.kafka.token_provider import NoToken
from sparkcohort.runtime.shell.options.parse import parse
from tests.kit.broker import Broker
from tests.kit.join import join, membership_of
from tests.kit.polled import fetching, read_to
from tests.kit.produce import produce
from tests.kit.record_sources import by_librdkafka
from tests.kit.scripted_broker import ScriptedBroker
from tests.kit.scripted_login import SASL_AUTHENTICATE, Logins
from tests.kit.tier import of_tier
from tests.kit.tokens import Desk, token, token_conf, token_options
from tests.kit.waiting import wait_until

TP = TopicPartition("tokens", 0)
LIFE_S = of_tier(quick=4.0, thorough=5.0)
KINDS: dict[str, Any] = {"ours": RecordSource, "librdkafka": by_librdkafka}


@pytest.fixture(scope="module")
def broker(guarded: Broker) -> Broker:
    """The broker that wants to see a token again before it ends, and every 60 s."""
    guarded.admin.create_topic(TP.topic)
    for kind in ("topic", "group"):
        guarded.admin.allow("alice", kind, TP.topic, "read", "describe")
    return guarded


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider that has failed is called again soon."""
    monkeypatch.setattr(tokens, "LEAST_PACE_S", 0.2)
    monkeypatch.setattr(tokens, "MOST_PACE_S", 1.0)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Tokens that live for some seconds."""
    return Desk(tmp_path, lifetime_s=LIFE_S)


def told(source: RecordSource, words: str) -> bool:
    """Whether the source says so, after a poll."""
    source.poll(0.1)
    return words in source.last_error


@contextmanager
def all_kinds(conf: Mapping[str, str], start: int) -> Iterator[dict[str, RecordSource]]:
    """A source of each kind, at the same place."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(fetching(conf, TP, start, kind=kind)) for name, kind in KINDS.items()}


def test_tokens_that_end_while_records_are_read(broker: Broker, desk: Desk) -> None:
    """Some lives of a token: nothing is lost or comes twice, and nobody but the one thread asks for tokens."""
    conf = token_conf(broker.at["SASL_PLAINTEXT"], desk)
    start = broker.admin.ends(TP.topic)[0]
    lives = of_tier(quick=2, thorough=4)
    ends, made = time.monotonic() + lives * LIFE_S, 0
    got: dict[str, list[int]] = {name: [] for name in KINDS}
    with all_kinds(conf, start) as sources:
        while time.monotonic() < ends:
            produce(broker.bootstrap, TP.topic, 10, partitions=1)
            made += 10
            for name, source in sources.items():
                got[name] += read_to(source, start + made)
    assert got == {name: list(range(start, start + made)) for name in KINDS}
    assert lives <= len(desk.calls()) <= 2 * lives + 1
    # confluent-kafka is asked for a token by a clock of a second: with lives this short a login may come too late, and again.
    assert sources["ours"].complaints <= {KafkaError._TRANSPORT}, sources["ours"].last_error


def test_the_drivers_clients(broker: Broker, desk: Desk) -> None:
    """A consumer and an administrator share a token; both go on behind its end, polled or not."""
    conf = token_conf(broker.at["SASL_PLAINTEXT"], desk)
    refused: list[KafkaError] = []
    consumer, admin = clients.new_consumer(conf, refused.append), clients.new_admin(conf)
    assert len(desk.calls()) == 1
    ends = time.monotonic() + 1.2 * LIFE_S
    while time.monotonic() < ends:
        assert TP.topic in consumer.list_topics(TP.topic, timeout=10).topics
        assert admin.describe_cluster(request_timeout=10).result(10).nodes
        threading.Event().wait(0.5)
    consumer.poll(0)
    assert [each for each in refused if each.code() in errors.AUTHENTICATION] == []
    assert 2 <= len(desk.calls()) <= 5
    consumer.close()


def test_a_provider_that_fails_for_a_while(broker: Broker, desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """The token in use is used until it ends; then nothing comes, with the reason; then all goes on. The secret is in no log."""
    conf = token_conf(broker.at["SASL_PLAINTEXT"], desk)
    start = broker.admin.ends(TP.topic)[0]
    reason = "raised ConnectionError: away"
    with all_kinds(conf, start) as sources:
        produce(broker.bootstrap, TP.topic, 10, partitions=1)
        for source in sources.values():
            assert read_to(source, start + 10) == list(range(start, start + 10))
        desk.fails = f"away; Bearer {token('alice', time.time())}"
        # A client that nobody polls may log in with the token that ends, and ask for no other before that.
        every = sources.values()

        def failures() -> list[tuple[int, float]]:
            for source in every:
                source.poll(0.1)
            return desk.failures()

        ((_, failed_at), *_) = wait_until(failures, 60, "a call that fails", every_s=0)
        (_, _, ends) = desk.calls()[-1]
        assert failed_at < ends
        produce(broker.bootstrap, TP.topic, 10, partitions=1)
        for source in every:
            assert read_to(source, start + 20) == list(range(start + 10, start + 20))
        wait_until(lambda: {told(source, reason) for source in every} == {True}, 40, "the reason", every_s=0)
        for name, source in sources.items():
            assert KafkaError._AUTHENTICATION in source.complaints, name
        assert len(desk.failures()) <= 2 + (time.time() - ends + LIFE_S) / 2
        desk.fails = ""
        produce(broker.bootstrap, TP.topic, 10, partitions=1)
        for source in every:
            assert read_to(source, start + 30) == list(range(start + 20, start + 30))
    assert any("can't be renewed yet" in line for line in caplog.messages)
    errors_told = [source.last_error for source in sources.values()]
    assert not [line for line in [*caplog.messages, *errors_told] if "eyJ" in line]


@pytest.mark.usefixtures("soon")
def test_a_refused_token_is_made_anew(broker: Broker, desk: Desk) -> None:
    """The broker doesn't know this user's token any more: it is told why, and another one is made before this one's end."""
    desk.become("", lifetime_s=300)  # Kafka refuses tokens without a subject
    conf = token_conf(broker.at["SASL_PLAINTEXT"], desk)
    start = broker.admin.ends(TP.topic)[0]
    with fetching(conf, TP, start) as source:
        wait_until(lambda: told(source, "refused the login by OAUTHBEARER"), 30, "a refusal", every_s=0)
        assert "kafka.sasl.oauthbearer.provider" in source.last_error
        desk.become("alice")
        produce(broker.bootstrap, TP.topic, 10, partitions=1)
        assert read_to(source, start + 10) == list(range(start, start + 10))


@pytest.mark.usefixtures("soon")
def test_a_driver_that_gets_no_token(broker: Broker, desk: Desk) -> None:
    """One error at once for a consumer, an administrator and a reader, which names the option; none quotes the token."""
    desk.fails = "no such tenant; token=hunter2&x=1"
    conf = token_conf(broker.at["SASL_PLAINTEXT"], desk)
    with pytest.raises(CohortError) as raised:
        clients.new_consumer(conf)
    with pytest.raises(KafkaException) as refused:
        clients.new_admin(conf)
    for text in (str(raised.value), str(refused.value), str(errors.unauthenticated(conf, "refused"))):
        assert (
            "option kafka.sasl.oauthbearer.provider=tests.kit.tokens:unsecured raised ConnectionError: no such" in text
        )
        assert "hunter2" not in text
    reader = RangeReader(conf)
    with pytest.raises(FetchError, match="no such tenant"):
        list(reader.read([Range(*TP, 0, 5)]))
    reader.close()
    began = time.monotonic()
    with pytest.raises(NoToken, match="no such tenant"):
        tokens.await_token(conf, patience_s=1)
    assert time.monotonic() - began >= 1
    threading.Timer(1, lambda: setattr(desk, "fails", "")).start()
    tokens.await_token(conf)
    assert len(desk.calls()) == 1


def test_one_thread_for_all_clients(desk: Desk) -> None:
    """However many ask, in however many threads: one call, one thread; another query's brokers have a token of their own."""
    conf = token_conf("127.0.0.1:1", desk)
    askers = [threading.Thread(target=tokens.await_token, args=({**conf, "client.id": str(n)},)) for n in range(20)]
    before = [each.name for each in threading.enumerate()]
    for each in askers:
        each.start()
    for each in askers:
        each.join(10)
    assert len(desk.calls()) == 1
    assert [each.name for each in threading.enumerate()].count("cohort-tokens") == 1 + before.count("cohort-tokens")
    tokens.await_token({**conf, "bootstrap.servers": "127.0.0.1:2"})
    assert len(desk.calls()) == 2


class Quoting(Logins):
    """Refuses, and quotes what it was told."""

    def answer(self, api: int, body: bytes) -> tuple[bytes, bool]:
        """As a broker that is too talkative."""
        self.refuses = body[4:].decode(errors="replace") if api == SASL_AUTHENTICATE else ""
        return super().answer(api, body)


def test_a_broker_that_quotes_the_token(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever it says, the token gets into no message."""
    caplog.set_level("DEBUG")
    logins = ScriptedBroker(lambda _: b"", logins=Quoting({}))
    with logins as broker, fetching(token_conf(broker.bootstrap, desk), TP) as source:
        wait_until(lambda: told(source, "auth=Bearer [redacted]"), 20, "the refusal", every_s=0)
    assert not [line for line in [*caplog.messages, source.last_error] if "eyJ" in line]


def test_a_driver_whose_provider_fails_for_good(broker: Broker, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The membership goes on with the old token, then for as long as logins may be refused; its end says why."""
    monkeypatch.setattr(membership_state, "LOGIN_REFUSED_MS", 6_000)
    options = token_options(broker.at["SASL_PLAINTEXT"], desk) | {"group.id": TP.topic, "subscribe": TP.topic}
    membership = membership_of(parse(options), {TP.topic: 1})
    try:
        join(membership, 30)
        desk.fails = "away for good"
        wait_until(desk.failures, 10, "a call that fails")
        assert membership.failure() is None
        wait_until(membership.failure, 60, "the end")
        failure = str(membership.failure())
        assert (
            "option kafka.sasl.oauthbearer.provider=tests.kit.tokens:unsecured raised ConnectionError: away" in failure
        )
        assert time.time() > desk.calls()[-1][2] + 2
    finally:
        membership.close()
