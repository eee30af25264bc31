"""A password that stands in a file (``kafka.config.providers``) and is renewed while a query runs: all clients take it up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver.discovery import Discovery
from sparkcohort.runtime.shell.driver.kafka_membership import GroupMembership
from sparkcohort.runtime.shell.kafka.consumer.native_source import NativeSource
from sparkcohort.runtime.shell.kafka.consumer.record_source import Event, Records
from sparkcohort.runtime.shell.kafka.fetch.source import FetchSource
from sparkcohort.runtime.shell.options.parse import SourceOptions, parse
from sparkcohort.runtime.values.columns import KAFKA_ROW
from tests.kit.broker import Broker
from tests.kit.join import join
from tests.kit.produce import produce
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.timeout(240)  # a broker is stopped and started again
MECHANISM, MODULE = "SCRAM-SHA-256", "org.apache.kafka.common.security.scram.ScramLoginModule"
FIRST, SECOND = "the-first-of-bob-1", "the-second-of-bob-2"
TP, NO_END = TopicPartition("t", 0), 2**63 - 1


@pytest.fixture
def broker() -> Iterator[Broker]:
    """One whose user may read topic and group."""
    with Broker(scram={"bob": FIRST}, users={"nobody": "x"}) as one:
        one.admin.create_topic("t")
        produce(one.bootstrap, "t", 10)
        for kind in ("group", "topic"):
            one.admin.allow("bob", kind, "t", "read", "describe")
        yield one


def options(broker: Broker, secrets: Path) -> SourceOptions:
    """As a pod has them: a folder with a file for each secret."""
    return parse(
        {
            "kafka.bootstrap.servers": broker.sasl_bootstrap,
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": MECHANISM,
            "kafka.sasl.jaas.config": f'{MODULE} required username="bob" password="${{pod:{secrets}:password}}";',
            "kafka.config.providers": "pod",
            "kafka.config.providers.pod.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
            "group.id": "t",
            "subscribe": "t",
        }
    )


def until_records(source: FetchSource | NativeSource) -> int:
    """Where the next records end."""
    found: list[Event] = []

    def seen() -> bool:
        found.extend(event for event in source.poll(0.1) if isinstance(event, Records))
        return bool(found)

    wait_until(seen, 60, "records", every_s=0)
    return int(found[-1].next_offset)  # type: ignore[union-attr]


def test_everybody_takes_it_up(broker: Broker, tmp_path: Path) -> None:
    """The driver's group and its looks, our own fetch client, and a new client of librdkafka's; nobody starts again."""
    secret = tmp_path / "password"
    secret.write_text(FIRST)
    given = options(broker, tmp_path)
    assert FIRST not in str(dict(given.kafka))
    group, looking = GroupMembership(given, lambda: {"t": 1}), Discovery(given)
    source = FetchSource(dict(given.kafka), columns=KAFKA_ROW)
    try:
        join(group, 30)
        source.assign({TP: (0, NO_END)})
        assert until_records(source) == 10
        assert looking.first().leaders
        broker.admin.add_users(MECHANISM, {"bob": SECOND})
        secret.write_text(SECOND)
        broker.stop()
        broker.start()
        assert group.commit({TP: (1, "")}, 60) == {TP: 1}
        assert group.failure() is None
        wait_until(lambda: looking.again() is not None, 60, "another look")
        produce(broker.bootstrap, "t", 10)
        assert until_records(source) == 20
        assert source._librdkafka is None
    finally:
        source.close()
        looking.release()
        group.close()
    other = NativeSource(dict(given.kafka), columns=KAFKA_ROW)
    try:
        other.assign({TP: (0, NO_END)})
        assert until_records(other) >= 10
    finally:
        other.close()
