"""A group's commits, asked while its coordinator comes and goes, and where they are refused."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.clients import code_of
from sparkcohort.runtime.shell.kafka.group_offsets import GroupOffsets
from tests.kit.broker import Broker
from tests.kit.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]


def test_who_may_not_is_told_at_once(guarded: Broker, topic: str) -> None:
    """librdkafka's consumer would try until the time is over (here longer than a test may take), and not say why."""
    guarded.admin.create_topic(topic)
    guarded.admin.allow("alice", "topic", topic, "describe")
    group = GroupOffsets(guarded.sasl_conf("alice") | {"log_level": "0"}, topic)
    asked = [TopicPartition(topic, 0)]
    with pytest.raises(KafkaException) as refused:
        group.committed(asked, 600)
    assert code_of(refused.value) == KafkaError.GROUP_AUTHORIZATION_FAILED
    guarded.admin.allow("alice", "group", topic, "describe")

    def answered() -> bool:
        with suppress(KafkaException):
            return group.committed(asked, 5) == {}
        return False

    wait_until(answered, 30, "the permission to count")
    group.close()


def test_nobody_asks_the_other_way() -> None:
    """The call that ends the process is in no module."""
    sources = [path for room in ("runtime", "streaming", "cli", "sparkcohort") for path in (ROOT / room).rglob("*.py")]
    assert [path.name for path in sources if "list_consumer_group_offsets(" in path.read_text()] == []
