"""Certificates as Java's options give them, at a broker with TLS: stores, PEM as text, and files that are replaced."""

from __future__ import annotations

import datetime as dt
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sparkcohort.runtime.kafka.cluster_messages import MetadataQuestion
from sparkcohort.runtime.kafka.handover import AskingState
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver.kafka_membership import GroupMembership
from sparkcohort.runtime.shell.kafka import clients
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient
from sparkcohort.runtime.shell.kafka.fetch.events import Records
from sparkcohort.runtime.shell.kafka.fetch.record_source import RecordSource
from sparkcohort.runtime.shell.kafka.handover_client import HandoverClient, HandoverDelayed, ask
from sparkcohort.runtime.shell.options.connection_settings import TransportError
from sparkcohort.runtime.shell.options.parse import SourceOptions, parse
from tests.kit.broker import Broker
from tests.kit.certificates import Authority
from tests.kit.join import join, membership_of
from tests.kit.polled import complaint, fetching, first
from tests.kit.produce import produce
from tests.kit.record_sources import by_librdkafka
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.timeout(240)  # a broker is stopped and started again
TP = TopicPartition("certificates", 0)
PASSWORD = "changeit"
IMPORT = ("-importcert", "-noprompt", "-alias")


@pytest.fixture(scope="module")
def secure(guarded: Broker) -> Broker:
    """A broker with TLS, which demands certificates of its clients at MUTUAL, and has TLS 1.2 alone at SASL_SSL."""
    guarded.admin.create_topic(TP.topic)
    produce(guarded.bootstrap, TP.topic, 10)
    guarded.admin.allow("alice", "topic", TP.topic, "read", "describe")
    return guarded


@pytest.fixture
def own() -> Iterator[Broker]:
    """One that is stopped."""
    with Broker(tls=True) as one:
        one.admin.create_topic(TP.topic)
        produce(one.bootstrap, TP.topic, 10)
        yield one


def authority(broker: Broker) -> Authority:
    """Who signed the broker's certificate."""
    assert broker.authority is not None
    return broker.authority


def options(broker: Broker, listener: str, **more: str) -> SourceOptions:
    """A query's options; ``__`` is a dot."""
    given = {f"kafka.{name.replace('__', '.')}": value for name, value in more.items()}
    servers = {"kafka.bootstrap.servers": broker.at[listener], "subscribe": TP.topic, "group.id": TP.topic}
    return parse({**servers, "kafka.security.protocol": "SSL", **given})


def assert_reads(given: SourceOptions) -> None:
    """The driver's clients, librdkafka and our own read the topic."""
    conf = dict(given.kafka)
    assert TP.topic in clients.new_consumer(conf).list_topics(TP.topic, timeout=20).topics
    assert TP.topic in clients.new_admin(conf).list_topics(TP.topic, timeout=20).topics
    for kind in (by_librdkafka, RecordSource):
        with fetching(conf, TP, kind=kind) as source:
            assert first(source, Records).next_offset == 10
            assert (source._librdkafka is None) == (kind is RecordSource), "it could do by itself what was asked"


def test_pem_as_text(secure: Broker) -> None:
    """Certificates and an encrypted key, in lines or in one."""
    me = authority(secure).identity("127.0.0.1")

    def given(spelt: Callable[[str], str]) -> SourceOptions:
        return options(
            secure,
            "MUTUAL",
            ssl__truststore__type="PEM",
            ssl__truststore__certificates=spelt(authority(secure).pem),
            ssl__keystore__type="PEM",
            ssl__keystore__certificate__chain=spelt(me.chain),
            ssl__keystore__key=spelt(key),
            ssl__key__password=PASSWORD,
        )

    key = me.key(PASSWORD)
    assert given(lambda pem: " ".join(pem.split("\n"))).kafka == given(str).kafka, "as in a properties file"
    assert given(lambda pem: pem.replace("\n", "\\n")).kafka == given(str).kafka, "as in JSON, twice"
    assert_reads(given(str))


def keytool(*arguments: str) -> None:
    """Java's own tool for stores."""
    subprocess.run(["keytool", *arguments], check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def javas_store(secure: Broker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that Java's tool has made, which trusts the broker: PKCS12, which it writes into files called .jks too."""
    trust = tmp_path_factory.mktemp("java") / "trust.jks"
    keytool(*IMPORT, "ca", "-file", str(authority(secure).path), "-keystore", str(trust), "-storepass", PASSWORD)
    return trust


def test_trust_stores_of_javas_tool(secure: Broker, javas_store: Path, tmp_path: Path) -> None:
    """With the client's own key in another."""
    own = tmp_path / "own.p12"
    own.write_bytes(authority(secure).identity("127.0.0.1").store(PASSWORD))
    assert_reads(
        options(
            secure,
            "MUTUAL",
            ssl__truststore__location=str(javas_store),
            ssl__truststore__password=PASSWORD,
            ssl__keystore__location=str(own),
            ssl__keystore__password=PASSWORD,
        )
    )


def test_a_chain_with_an_intermediate_authority(secure: Broker) -> None:
    """A broker that trusts the root alone is shown what is between it and us, by librdkafka too."""
    between, chain = authority(secure).subordinate()
    me = between.identity("127.0.0.1")
    assert_reads(
        options(
            secure,
            "MUTUAL",
            ssl__truststore__certificates=authority(secure).pem,
            ssl__keystore__certificate__chain=me.chain + chain,
            ssl__keystore__key=me.key(),
        )
    )


def test_protocols_and_suites(secure: Broker) -> None:
    """All clients connect with them."""
    more = {"ssl__enabled__protocols": "TLSv1.2,TLSv1.3", "ssl__cipher__suites": "ECDHE-ECDSA-AES128-GCM-SHA256"}
    assert_reads(options(secure, "SSL", ssl__ca__location=str(authority(secure).path), **more))


# --- files that are replaced --------------------------------------------------------------------------


def membership(given: SourceOptions) -> GroupMembership:
    """The driver's membership of the group, joined."""
    made = membership_of(given, {TP.topic: 1})
    join(made, 30)
    return made


def looks(client: ClusterClient) -> bool:
    """Whether the cluster answers."""
    try:
        return bool(client.metadata(MetadataQuestion((TP.topic,)), 5).nodes)
    except TransportError:
        return False


@pytest.mark.thorough("waits for a certificate to end, and restarts a broker")
def test_a_client_certificate_that_is_renewed(own: Broker, tmp_path: Path) -> None:
    """It ends while a query runs: refused then; the file that replaces it lets all clients in, without a restart."""
    mine, ends = tmp_path / "me.pem", dt.datetime.now(dt.UTC) + dt.timedelta(seconds=20)
    mine.write_text(authority(own).identity("127.0.0.1", ends=ends).pem())
    given = options(own, "MUTUAL", ssl__ca__location=str(authority(own).path), ssl__keystore__location=str(mine))
    with (
        closing(membership(given)) as group,
        closing(ClusterClient(given.kafka)) as looking,
        fetching(given.kafka, TP) as source,
    ):
        assert first(source, Records).next_offset == 10
        assert looks(looking)
        assert group.commit({TP: (1, "")}, 30) == {TP: 1}
        wait_until(lambda: dt.datetime.now(dt.UTC) > ends, 30, "the certificate's end")
        own.stop()
        own.start()
        assert complaint(source)
        wait_until(lambda: not looks(looking), 30, "no look")
        mine.write_text(authority(own).identity("127.0.0.1").pem())
        # Less than session.timeout.ms, for which librdkafka keeps a commit that finds no coordinator.
        assert group.commit({TP: (2, "")}, 30) == {TP: 2}
        assert group.failure() is None
        wait_until(lambda: looks(looking), 30, "another look")
        produce(own.bootstrap, TP.topic, 10)
        assert first(source, Records).next_offset == 20
        assert source._librdkafka is None


def test_a_trust_store_that_is_not_there_delays_a_hand_over(secure: Broker, javas_store: Path, tmp_path: Path) -> None:
    """Who asks tries again, and says so once; who watches is told of a delay; the clients are let go, whatever came of it."""
    trust, made = tmp_path / "trust.p12", tmp_path / "made.p12"
    for store in (trust, made):
        store.write_bytes(javas_store.read_bytes())
    given = options(secure, "SSL", ssl__truststore__location=str(trust), ssl__truststore__password=PASSWORD)
    client, pauses = HandoverClient(given.kafka, given.group_id), 0

    def pause(_: float) -> None:
        nonlocal pauses
        pauses += 1
        made.replace(trust)

    try:
        assert client.records() == ()
        trust.write_bytes(made.read_bytes()[:300])
        with pytest.raises(HandoverDelayed, match="no PKCS12 trust store"):
            client.records()
        trust.unlink()
        assert (ask(client, 60_000, pause).state, pauses) == (AskingState.ABSENT, 1)
        assert client.records() == ()
    finally:
        client.close()
