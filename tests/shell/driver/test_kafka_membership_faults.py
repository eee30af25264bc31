"""The driver's membership when brokers, drivers and permissions fail."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any, Self

import pytest

from sparkcohort.cli.kafka_group import KafkaGroup
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.membership_state import MembershipState
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver.kafka_membership import CommitDelayed, GroupMembership
from tests.kit.broker import Broker
from tests.kit.join import join
from tests.kit.join import member as unstarted
from tests.kit.mock import MockCluster
from tests.kit.processes import freeze
from tests.kit.waiting import hold_for, wait_until

SCRIPT = Path(__file__).with_name("scripts") / "member.py"
SESSION = {"session.timeout.ms": "2000", "heartbeat.interval.ms": "300"}


def options_of(bootstrap: str, topic: str, **more: str) -> dict[str, str]:
    """Options of a membership in the group that is called as its topic (``__`` stands for a dot)."""
    named = {name.replace("__", "."): value for name, value in more.items()}
    return {"kafka.bootstrap.servers": bootstrap, "group.id": topic, "subscribe": topic, **SESSION, **named}


def member(options: dict[str, str]) -> AbstractContextManager[GroupMembership]:
    """A membership, not started, of a topic with four partitions."""
    return unstarted(options, **{options["subscribe"]: 4})


class Driver:
    """A membership in a process of its own (see scripts/member.py), which can be frozen."""

    def __init__(self, options: dict[str, str], partitions: int = 4) -> None:
        """Start it; it is joined and has a run number when this returns."""
        command = [sys.executable, str(SCRIPT), json.dumps(options), str(partitions)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.first = self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def tell(self, line: str) -> None:
        """Send a command without waiting for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def ask(self, line: str) -> dict[str, Any]:
        """Send a command and return its answer."""
        self.tell(line)
        return self._answer()

    def freeze(self) -> None:
        """SIGSTOP."""
        freeze(self._process.pid)

    def thaw(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        """Nothing more: it runs."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill it."""
        self._process.kill()
        self._process.communicate()


def offsets(topic: str, offset: int, text: str) -> dict[TopicPartition, tuple[int, str]]:
    """A commit of partition 0."""
    return {TopicPartition(topic, 0): (offset, text)}


def start(membership: GroupMembership, topic: str) -> None:
    """Join and reserve."""
    join(membership, 20)
    membership.reserve({TopicPartition(topic, number): 0 for number in range(4)})


@pytest.mark.parametrize(
    "frozen_s",
    [
        pytest.param(0.0, id="at once"),
        pytest.param(4.0, id="after its session", marks=pytest.mark.thorough("a driver is frozen for a session")),
    ],
)
def test_a_thawed_driver_stops_and_the_newer_one_goes_on(
    broker: Broker, topic: str, frozen_s: float, caplog: pytest.LogCaptureFixture
) -> None:
    """A driver frozen, replaced and thawed ends with FENCED_INSTANCE_ID; what it commits late is refused.  Each names the other's host."""
    broker.admin.create_topic(topic, 4)
    options = options_of(broker.bootstrap, topic)
    with Driver(options) as older, member(options) as newer:
        assert older.ask("commit 0 5") == {"state": "member", "run": 1, "failure": ""}
        older.freeze()
        older.tell("commit 0 99")  # waits in its pipe: the first thing that it does when thawed
        if frozen_s:
            hold_for(lambda: True, frozen_s, "the older driver's session to end")
        start(newer, topic)
        newer.commit(offsets(topic, 50, newer.run_epoch.metadata()))
        older.thaw()
        late = older._answer()
        assert late["failure"] == "FENCED_INSTANCE_ID"
        assert f"FENCED_INSTANCE_ID: a newer driver on {socket.gethostname()[:64]} (run 2" in late["raised"]
        ended = f"(127.0.0.1) on {socket.gethostname()[:64]}, run 1, was its driver until now; this query takes over"
        assert (ended in caplog.text) == (frozen_s == 0), "Kafka forgets a member with its session"
        newer.commit(offsets(topic, 60, newer.run_epoch.metadata()), 30)
        assert newer.failure() is None
        wait_until(lambda: newer.state is MembershipState.MEMBER, 15, "the newer driver to be the member")
        assert broker.admin.committed(topic)[(topic, 0)] == 60
        hold_for(lambda: newer.failure() is None, 2, "the newer driver goes on")
        assert older.ask("state")["state"] == "ended"


def test_a_broker_paused_for_longer_than_a_session(guarded: Broker, topic: str) -> None:
    """It keeps its connections and says nothing: the membership and its commits survive that."""
    guarded.admin.create_topic(topic, 4)
    with member(options_of(guarded.bootstrap, topic)) as membership:
        start(membership, topic)
        guarded.pause()
        with pytest.raises(CommitDelayed):
            membership.commit(offsets(topic, 5, ""), 4)
        guarded.resume()
        assert membership.commit(offsets(topic, 6, ""), 60) == {TopicPartition(topic, 0): 6}
        assert membership.failure() is None


def test_a_client_that_does_not_get_in_is_replaced(
    guarded: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Who has tried to join for long tries anew, from the bootstrap servers on, and gets in when they answer."""
    guarded.admin.create_topic(topic, 4)
    with member(options_of(guarded.bootstrap, topic)) as membership:
        start(membership, topic)
        guarded.pause()
        wait_until(lambda: "once more by a new client" in caplog.text, 30, "another client")
        guarded.resume()
        assert membership.commit(offsets(topic, 6, ""), 60) == {TopicPartition(topic, 0): 6}
        assert membership.failure() is None


def test_missing_permissions_are_named(guarded: Broker, topic: str) -> None:
    """No right on the group, none on the topic, and a wrong password: one error each, naming it and what to do."""
    guarded.admin.create_topic(topic, 4)
    sasl = guarded.sasl_conf("alice")
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{}";'
    options = options_of(sasl["bootstrap.servers"], topic) | {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": jaas.format(guarded.users["alice"]),
    }
    assert "READ and DESCRIBE on Group" in _unseen(sasl, topic, "GROUP_AUTHORIZATION_FAILED")
    wrong_password = guarded.sasl_conf("alice", "hunter2")
    told = _unseen(wrong_password, topic, "SASL_AUTHENTICATION_FAILED")
    assert "hunter2" not in told
    assert "Authentication failed" in told
    assert "READ and DESCRIBE on Group" in _refusal(options, "GROUP_AUTHORIZATION_FAILED")
    guarded.admin.allow("alice", "group", topic, "read", "describe")
    assert f"no permission on topic {topic}:" in _refusal(options, "TOPIC_AUTHORIZATION_FAILED")
    guarded.admin.allow("alice", "topic", topic, "read", "describe")
    with member(options) as membership:
        start(membership, topic)
    wrong = options | {"kafka.sasl.jaas.config": jaas.format("hunter2")}
    assert "hunter2" not in _refusal(wrong, "SASL_AUTHENTICATION_FAILED")


def _refusal(options: dict[str, str], name: str) -> str:
    with member(options) as membership, pytest.raises(CohortError) as caught:
        join(membership, 20)
        membership.commit(offsets(options["subscribe"], 1, ""), 5)
    assert caught.value.error == name
    return str(caught.value)


def _unseen(conf: dict[str, str], group: str, name: str) -> str:
    """What somebody is told who only wants to look at the group."""
    with pytest.raises(CohortError) as caught, closing(KafkaGroup(group, conf)) as looked_at:
        looked_at.members()
    assert caught.value.error == name
    return str(caught.value)


def test_a_group_that_cannot_be_joined_is_an_error_in_time(mock_broker: MockCluster, topic: str) -> None:
    """No coordinator: the error comes within the limit and names it."""
    mock_broker.create_topic(topic, 4)
    options = options_of(mock_broker.bootstrap, topic)
    mock_broker.broker_down()
    with member(options) as membership, pytest.raises(CohortError, match=r"kafka\.default\.api\.timeout\.ms"):
        membership.start(2)
