"""The command's columns against those of Kafka's own command."""

from __future__ import annotations

import subprocess

import pytest
from confluent_kafka import Consumer

from sparkcohort.runtime.shell.cli import views
from tests.kit.broker import LOGGING, Broker
from tests.kit.class_archives import quick
from tests.kit.jars import class_path, java
from tests.kit.waiting import wait_until

COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@pytest.mark.parametrize(
    ("flags", "columns"), [([], views.OFFSETS), (["--members"], views.MEMBERS), (["--state"], views.STATE)]
)
def test_the_columns_are_kafkas(broker: Broker, topic: str, flags: list[str], columns: tuple[str, ...]) -> None:
    """The header line of kafka-consumer-groups --describe is ours, word for word."""
    broker.admin.create_topic(topic, partitions=2)
    group = f"columns-{topic}"
    member = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest", "log_level": 0}
    )
    member.subscribe([topic])
    wait_until(lambda: member.poll(0.1) or member.assignment(), 30, "an assignment")
    kafka = [java(), *quick("broker"), *LOGGING, "-cp", class_path("broker", "tools"), COMMAND]
    arguments = ["--bootstrap-server", broker.bootstrap, "--describe", "--group", group, *flags]
    said = subprocess.run([*kafka, *arguments], capture_output=True, text=True, timeout=60, check=True)
    (header,) = (line for line in said.stdout.splitlines() if line.startswith("GROUP"))
    assert " ".join(header.split()) == " ".join(columns)
