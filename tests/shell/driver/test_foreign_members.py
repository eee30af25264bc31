"""What a driver makes of the members of its group, and of coordinators that don't answer yet (real ones: test_kafka_membership.py)."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError

from sparkcohort.runtime.kafka.cluster_messages import DescribedMember, GroupDescription
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

    def describe_group(self, _group: str, _timeout_s: float) -> GroupDescription:
        """The next answer."""
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, GroupDescription):
            return answer
        raise TransportError(answer or "no answer in time")


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


def test_a_member_that_stays_ends_the_query(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Not partitions that nobody has yet, and not a moment in which the group can't be described; it is told of once."""
    stranger = DescribedMember("m-1", "", "somebody", "/10.0.0.7", frozenset({TP}))
    held, free = GroupDescription(0, "Stable", (stranger,)), GroupDescription(0, "Stable", ())
    clock = [100.0]
    monkeypatch.setattr(foreign_members.time, "monotonic", lambda: clock[0])  # type: ignore[attr-defined]
    watched = members(Client(free, held, free, held, "no broker answers", held, held))
    failures = []
    for _ in range(7):
        failures.append(watched.look(frozenset({TP})))
        clock[0] += 21.0
    assert [failure is None for failure in failures] == [True] * 5 + [False] * 2 and "10.0.0.7" in str(failures[-1])
    assert (watched.total, watched.present) == (1, 1) and caplog.text.count("somebody") == 1
    assert watched.look(frozenset()) is None and watched.present == 0
