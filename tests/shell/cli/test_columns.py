"""The command's columns against those of Kafka's own command."""

from __future__ import annotations

from confluent_kafka import Consumer

from sparkcohort.cli import views
from tests.kit.broker import Broker
from tests.kit.consumer_groups import one_jvm
from tests.kit.waiting import wait_until


def test_the_columns_are_kafkas(broker: Broker, topic: str) -> None:
    """The header lines of kafka-consumer-groups --describe are ours, word for word."""
    broker.admin.create_topic(topic, partitions=2)
    group = f"columns-{topic}"
    member = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest", "log_level": 0}
    )
    member.subscribe([topic])
    wait_until(lambda: member.poll(0.1) or member.assignment(), 30, "an assignment")
    with one_jvm() as tool:
        for flags, columns in (([], views.OFFSETS), (["--members"], views.MEMBERS), (["--state"], views.STATE)):
            said = tool(broker.bootstrap, "--describe", "--group", group, *flags)
            (header,) = (line for line in said.splitlines() if line.startswith("GROUP"))
            assert " ".join(header.split()) == " ".join(columns)
