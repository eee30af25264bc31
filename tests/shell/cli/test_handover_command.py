"""What ``cohort handover`` says and does where Kafka fails after the query has stopped, and of its settings.

The hand-over itself, between real queries, is tests/e2e/test_exclusivity.py.
"""

from __future__ import annotations

from typing import cast

import pytest

from sparkcohort.cli import handover
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.handover import FREE, HandoverAnswer, HandoverRecord, HandoverView, RunName
from sparkcohort.runtime.kafka.run_epoch import CommitMetadata, encode
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.handover_client import HandoverClient, HandoverDelayed

RUN = CommitMetadata(run=3, id="abc")
NOBODY = "127.0.0.1:1"


class Kafka:
    """A group whose driver has parked, at a broker that then fails so many times, at once."""

    group_id = "billing"

    def __init__(self, failures: int) -> None:
        self._failures = failures
        self.tries = 0
        self.written: list[HandoverRecord] = []

    def look(self) -> HandoverView:
        """The query has stopped."""
        return HandoverView(RUN, (HandoverRecord(HandoverAnswer.PARKED, FREE, RunName(RUN.run, RUN.id)),))

    def committed(self) -> dict[TopicPartition, tuple[int, str]]:
        """Where it has ended."""
        self._fail()
        return {TopicPartition("t", 0): (7, encode(RUN))}

    def write(self, record: HandoverRecord) -> None:
        """Told that the group is free."""
        self._fail()
        self.written.append(record)

    def _fail(self) -> None:
        self.tries += 1
        if self.tries <= self._failures:
            raise HandoverDelayed("hand-over of group billing: _TRANSPORT: refused")


def hand_over(kafka: Kafka) -> None:
    """As the command does."""
    handover._hand_over(cast("HandoverClient", kafka), 10_000)


def test_a_broker_that_fails_at_once_is_asked_with_pauses(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Until it answers: what is printed then is all there is."""
    pauses: list[float] = []
    monkeypatch.setattr(handover.time, "sleep", pauses.append)  # type: ignore[attr-defined]
    kafka = Kafka(failures=5)
    hand_over(kafka)
    assert pauses == [0.25] * 5
    assert len(kafka.written) == 1
    assert capsys.readouterr().out == "t-0 7\n"


def test_what_fails_after_the_query_has_stopped_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 1 alone would read as "it has not"; another call goes on from there."""
    monkeypatch.setattr(handover, "READ_S", 0.0)
    stopped = r"^the query of group billing has stopped, but .*; run this again$"
    with pytest.raises(CohortError, match=stopped) as read:
        hand_over(Kafka(failures=1_000_000))
    assert "_TRANSPORT: refused" in str(read.value)
    hand_over(Kafka(failures=0))
    assert "has committed its last batch and stopped" in capsys.readouterr().err
