"""What a driver makes of the members of its group, and of coordinators that don't answer yet (real ones: test_kafka_membership.py)."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError

from sparkcohort.runtime.kafka.cluster_messages import GroupDescription
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver import foreign_members
from sparkcohort.runtime.shell.driver.foreign_members import ForeignMembers
from sparkcohort.runtime.shell.options.connection_settings import TransportError

TP = TopicPartition("t", 0)


class Client:
    """Answers with these, the last one for ever; a text is an error, None is no answer yet."""

    def __init__(self, *answers: GroupDescription | str | None) -> None:
        self.answers, self.asked = list(answers), 0

    def describe_group(self, _group: str, _timeout_s: float) -> Future[Any]:
        """The next answer."""
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        future: Future[Any] = Future()
        if isinstance(answer, str):
            future.set_exception(TransportError(answer))
        elif answer is not None:
            future.set_result(answer)
        return future


def members(client: Client) -> ForeignMembers:
    """Of a group asked through this client."""
    given: Any = client
    return ForeignMembers(given, "g", "cohort-g", 45_000)


def test_a_coordinator_that_comes_up_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a cluster that has had no group yet: nobody is in it, which is known a moment later."""
    monkeypatch.setattr(foreign_members, "NOT_YET_GAP_S", 0.01)
    client = Client(
        GroupDescription(ErrorCode.COORDINATOR_NOT_AVAILABLE, "", ()),
        GroupDescription(KafkaError.COORDINATOR_LOAD_IN_PROGRESS, "", ()),
        GroupDescription(0, "Dead", ()),
    )
    assert members(client).is_empty() and client.asked == 3


@pytest.mark.parametrize(
    ("answer", "memberless"),
    [
        (GroupDescription(KafkaError.GROUP_ID_NOT_FOUND, "", ()), True),
        (GroupDescription(0, "Empty", ()), True),
        (GroupDescription(0, "Stable", ()), False),
        (GroupDescription(30, "", ()), False),
        ("no broker answers", False),
    ],
)
def test_who_is_known_to_be_in_no_group(
    answer: GroupDescription | str, memberless: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Only a clear answer counts; any other is told."""
    assert members(Client(answer)).is_empty() is memberless
    assert ("cannot be described" in caplog.text) is (isinstance(answer, str) or answer.error == 30)


def test_one_question_at_a_time() -> None:
    """However often is looked; one that is of no use any more is forgotten."""
    client = Client(None)
    watched = members(client)
    for _ in range(3):
        watched.look(frozenset({TP}))
    assert (watched._question is not None, client.asked) == (True, 1)
    watched.look(frozenset())
    assert watched._question is None
