"""A group's commits, asked while its coordinator comes and goes, and where they are refused."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.clients import code_of
from sparkcohort.runtime.shell.kafka.group_offsets import TRIES, GroupOffsets
from tests.kit.broker import Broker
from tests.kit.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]
ASKS = """
import sys, threading
from confluent_kafka import KafkaException
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.group_offsets import GroupOffsets

ended = threading.Event()

def ask():
    group = GroupOffsets({"bootstrap.servers": sys.argv[1], "log_level": "0"}, "group")
    while not ended.wait(0.05):
        try:
            found = group.committed([TopicPartition("topic", 0)], 2)
        except KafkaException:
            continue
        assert found == {TopicPartition("topic", 0): (7, "")}, found
        answered.set()
    group.close()

answered = threading.Event()
threads = [threading.Thread(target=ask) for _ in range(12)]
for each in threads:
    each.start()
for line in sys.stdin:
    answered.clear()
    print("answered" if answered.wait(30) else "silent", flush=True)
ended.set()
for each in threads:
    each.join()
"""


@pytest.mark.thorough("four restarts of a broker")
@pytest.mark.timeout(240)
def test_a_coordinator_that_loads() -> None:
    """Asked all the time while its broker is restarted, again and again: the process lives, and is answered."""
    with Broker() as broker:
        broker.admin.create_topic("topic")
        broker.admin.commit("group", "topic", {0: 7})
        command = [sys.executable, "-P", "-c", ASKS, broker.bootstrap]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as asking:
            assert asking.stdin is not None and asking.stdout is not None
            for _ in range(4):
                print(file=asking.stdin, flush=True)
                assert asking.stdout.readline() == "answered\n", asking.poll()
                broker.stop()
                broker.start()
            asking.stdin.close()
            assert asking.wait(60) == 0


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


class Counted(GroupOffsets):
    """Counts what may end the process where brokers don't answer."""

    described = 0

    def _describe(self) -> None:
        self.described += 1
        super()._describe()


def test_a_group_is_not_described_where_brokers_stop_answering(guarded: Broker, topic: str) -> None:
    """Once, after some tries that they answered; never in a try that they don't."""
    group = Counted({"bootstrap.servers": guarded.bootstrap, "log_level": "0"}, topic)
    for _ in range(TRIES):
        assert group.described == 0
        wait_until(lambda: _counts(group), 30, "the broker to answer")
    assert group.described == 1
    guarded.pause()
    for _ in range(2):
        group._refuse()
    assert group.described == 1
    guarded.resume()
    group.close()


def _counts(group: Counted) -> bool:
    before = group._tries
    group._refuse()
    return group._tries > before


def test_nobody_asks_the_other_way() -> None:
    """The call that ends the process is in no module."""
    sources = [path for room in ("runtime", "streaming", "cli", "sparkcohort") for path in (ROOT / room).rglob("*.py")]
    assert [path.name for path in sources if "list_consumer_group_offsets(" in path.read_text()] == []
