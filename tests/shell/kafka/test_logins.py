"""Logins that are refused: by the broker, tried again ever more slowly by the same client; by us, never by another."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError

from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.kafka import blocking_client, clients
from sparkcohort.runtime.shell.kafka.fetch.events import Records
from sparkcohort.runtime.shell.kafka.fetch.range_reader import FetchError, RangeReader
from sparkcohort.runtime.shell.kafka.fetch.record_source import RecordSource
from sparkcohort.runtime.shell.options.connection_settings import TransportError
from sparkcohort.runtime.shell.options.parse import parse
from tests.kit.broker import Broker
from tests.kit.join import join, membership_of
from tests.kit.polled import fetching, first, poll_for
from tests.kit.produce import produce
from tests.kit.record_batches import Batch, Record, encode
from tests.kit.record_sources import by_librdkafka
from tests.kit.relay import Relay
from tests.kit.scripted_broker import ScriptedBroker, fetched, partition
from tests.kit.scripted_login import SASL_AUTHENTICATE, Logins
from tests.kit.waiting import wait_until

TP = TopicPartition("t", 0)
USERS = {"bob": "secret-of-bob"}
DATA = encode(Batch(0, tuple(Record(n, value=b"v") for n in range(10))))


def script(number: int) -> bytes:
    """Ten records, again and again."""
    threading.Event().wait(0.02)
    return fetched(number, partition(end=10, records=DATA))


def conf(bootstrap: str, mechanism: str, **more: Any) -> dict[str, Any]:
    """Settings with which Bob logs in."""
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.username": "bob"}
    given = {"bootstrap.servers": bootstrap, "sasl.password": USERS["bob"], **login}
    return given | {name.replace("_", "."): value for name, value in more.items()}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_refusal_by_the_broker_is_tried_again(mechanism: str) -> None:
    """Ever more slowly, by the client that fetches; when the broker knows the password all goes on there."""
    logins = Logins(USERS)
    logins.refuses = "not\nyet\x1b[2J"
    with ScriptedBroker(script, logins=logins) as broker, fetching(conf(broker.bootstrap, mechanism), TP) as source:
        poll_for(lambda: source.poll(0.1), 2)
        assert 3 <= broker.counts["connections"] <= 7
        assert source.complaints == {KafkaError._AUTHENTICATION}
        assert r"refused the login of bob" in source.last_error
        assert r"not\nyet\x1b[2J" in source.last_error
        logins.refuses = ""
        assert first(source, Records).next_offset == 10
        assert source._fetcher is not None
        assert source._librdkafka is None


@pytest.mark.parametrize(
    ("logins", "words"),
    [
        (Logins(USERS, iterations=1), "asks for 1 iterations"),
        (Logins(USERS, forged=True), "signature is wrong"),
    ],
)
def test_a_broker_that_we_refuse_is_left_to_no_other_client(logins: Logins, words: str) -> None:
    """Not for records, and not for a question about the log; it is asked ever more rarely, and the task fails with the reason."""
    with ScriptedBroker(script, logins=logins) as broker:
        reader = RangeReader(conf(broker.bootstrap, "SCRAM-SHA-256"))
        with pytest.raises(FetchError, match=words):
            list(reader.read([Range("t", 0, 0, 5)]))
        with pytest.raises(TransportError, match=words):
            blocking_client.log_range(reader._source.cluster, TP, 1, committed=False)
        reader.close()
        # Each own attempt ends with what was wrong: librdkafka would have sent its proof to the first one.
        assert broker.counts[SASL_AUTHENTICATE] == len(logins.told) <= 2 * broker.counts["connections"]
        assert broker.counts["connections"] <= 12


@pytest.fixture(scope="module")
def secure(guarded: Broker) -> Broker:
    """The broker that refuses at once, as most do not; Bob may read the topic, and commit."""
    guarded.admin.create_topic(TP.topic)
    produce(guarded.bootstrap, TP.topic, 10)
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        guarded.admin.add_users(mechanism, USERS)
    for kind in ("group", "topic"):
        guarded.admin.allow("bob", kind, TP.topic, "read", "describe")
    return guarded


@pytest.fixture
def door(secure: Broker) -> Iterator[Relay]:
    """The way to the broker's logins."""
    relay = Relay("127.0.0.1", int(secure.at["SASL_PLAINTEXT"].split(":")[1]))
    yield relay
    relay.close()


@pytest.mark.parametrize(
    ("kind", "mechanism"), [("ours", "PLAIN"), ("librdkafka", "SCRAM-SHA-256"), ("driver", "PLAIN")]
)
def test_a_wrong_password_is_no_storm(door: Relay, mechanism: str, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """Two attempts a second at most, of librdkafka too, which makes forty if it is let; few lines in our log."""
    settings = conf(f"127.0.0.1:{door.port}", mechanism, sasl_password="wrong")
    caplog.set_level("INFO")
    began = time.monotonic()
    if kind == "driver":
        polled = clients.new_consumer(settings)
        poll_for(lambda: polled.poll(0.1), 2)
        polled.close()
    else:
        with fetching(settings, TP, kind=RecordSource if kind == "ours" else by_librdkafka) as source:
            poll_for(lambda: source.poll(0.1), 2)
    assert 2 <= door.accepted <= 2 * (time.monotonic() - began) + 3
    assert len(caplog.messages) <= 5


@pytest.mark.thorough("a broker is stopped and started")
def test_a_driver_outlasts_a_password_that_is_changed(secure: Broker, caplog: pytest.LogCaptureFixture) -> None:
    """All its connections end, and none is let in: a minute of that ends the query, less doesn't."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    options = {
        "kafka.bootstrap.servers": secure.sasl_bootstrap,
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.jaas.config": f'{module} required username="bob" password="{USERS["bob"]}";',
        "group.id": TP.topic,
        "subscribe": TP.topic,
    }
    membership = membership_of(parse(options), {TP.topic: 1})
    try:
        join(membership, 30)
        secure.admin.add_users("SCRAM-SHA-256", {"bob": "another"})
        secure.stop()
        secure.start()
        wait_until(lambda: any("tried again for a minute" in line for line in caplog.messages), 30, "a refusal")
        assert membership.failure() is None
        secure.admin.add_users("SCRAM-SHA-256", USERS)
        assert membership.commit({TP: (1, "")}, 60) == {TP: 1}
        assert membership.failure() is None
    finally:
        membership.close()
