"""A password that stands in a file (``kafka.config.providers``) and is renewed while a query runs: all clients take it up."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver.discovery import Discovery
from sparkcohort.runtime.shell.driver.kafka_membership import GroupMembership
from sparkcohort.runtime.shell.kafka.consumer.native_source import NativeSource
from sparkcohort.runtime.shell.kafka.fetch.source import FetchSource
from sparkcohort.runtime.shell.options.parse import SourceOptions, parse
from sparkcohort.runtime.values.columns import KAFKA_ROW
from tests.kit.broker import Broker
from tests.kit.join import join
from tests.kit.polled import read_to
from tests.kit.produce import produce
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.timeout(240)  # a broker is stopped and started again
MECHANISM, MODULE = "SCRAM-SHA-256", "org.apache.kafka.common.security.scram.ScramLoginModule"
FIRST, SECOND = "the-first-of-carol-1", "the-second-of-carol-2"
NO_END = 2**63 - 1


def options(broker: Broker, topic: str, secrets: Path) -> SourceOptions:
    """As a pod has them: a folder with a file for each secret."""
    return parse(
        {
            "kafka.bootstrap.servers": broker.sasl_bootstrap,
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": MECHANISM,
            "kafka.sasl.jaas.config": f'{MODULE} required username="carol" password="${{pod:{secrets}:password}}";',
            "kafka.config.providers": "pod",
            "kafka.config.providers.pod.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
            "group.id": topic,
            "subscribe": topic,
        }
    )


def test_everybody_takes_it_up(guarded: Broker, tmp_path: Path, topic: str) -> None:
    """The driver's group and its looks, our own fetch client, and a new client of librdkafka's; nobody starts again."""
    guarded.admin.create_topic(topic)
    produce(guarded.bootstrap, topic, 10)
    guarded.admin.add_users(MECHANISM, {"carol": FIRST})
    for kind in ("group", "topic"):
        guarded.admin.allow("carol", kind, topic, "read", "describe")
    secret, tp = tmp_path / "password", TopicPartition(topic, 0)
    secret.write_text(FIRST)
    given = options(guarded, topic, tmp_path)
    assert FIRST not in str(dict(given.kafka))
    group, looking = GroupMembership(given, lambda: {topic: 1}), Discovery(given)
    source = FetchSource(dict(given.kafka), columns=KAFKA_ROW)
    try:
        join(group, 30)
        source.assign({tp: (0, NO_END)})
        assert read_to(source, 10)
        assert looking.first().leaders
        guarded.admin.add_users(MECHANISM, {"carol": SECOND})
        secret.write_text(SECOND)
        guarded.stop()
        guarded.start()
        assert group.commit({tp: (1, "")}, 60) == {tp: 1}
        assert group.failure() is None
        wait_until(lambda: looking.again() is not None, 60, "another look")
        produce(guarded.bootstrap, topic, 10)
        assert read_to(source, 20) == list(range(10, 20))
        assert source._librdkafka is None
    finally:
        source.close()
        looking.release()
        group.close()
    other = NativeSource(dict(given.kafka), columns=KAFKA_ROW)
    try:
        other.assign({tp: (0, NO_END)})
        assert read_to(other, 20) == list(range(20))
    finally:
        other.close()
