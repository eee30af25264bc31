"""What a listener tells of batches is taken for the batch in flight of this query, and for nothing else."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from sparkcohort.assignors import ASSIGNORS
from sparkcohort.runtime.batches.claims import Slot
from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.coordinator.coordinator import Coordinator
from sparkcohort.runtime.shell.coordinator.group_settings import GroupSettings
from sparkcohort.runtime.shell.coordinator.plan_registry import PlanRegistry
from sparkcohort.runtime.shell.coordinator.service import Service
from sparkcohort.runtime.shell.driver.query_progress import QueryProgress

END = {"orders": {"0": 7}, "orders@id": {}}
BEHIND = calls.OffsetsBehindLatest(0, 3, 1.5)


class KeptCommits:
    """A query's progress, and what was committed."""

    def __init__(self) -> None:
        self.commits: list[tuple[Mapping[TopicPartition, int], Mapping[str, str]]] = []
        self.progress = QueryProgress(lambda *end: self.commits.append(end))
        self.progress.serves("q1")
        self.progress.plan(END, {TopicPartition("orders", 0): 7}, {"orders": "id"})

    def tell(self, *ends: dict[str, dict[str, int]], query: str = "q1", name: str = "bills") -> str:
        """A batch of a query with these sources."""
        return self.progress.batch_committed(
            calls.BatchCommitted(query, name, tuple(calls.SourceProgress(end, BEHIND) for end in ends))
        )


def test_the_batch_in_flight_is_committed() -> None:
    """As the reader planned it; its figures are in the status."""
    kept = KeptCommits()
    assert kept.progress.as_value() is None
    assert kept.tell({"payments": {"0": 1}}, END) == "q1"
    assert kept.commits == [({TopicPartition("orders", 0): 7}, {"orders": "id"})]
    assert kept.progress.as_value() == {"id": "q1", "name": "bills", "offsets_behind_latest": BEHIND._asdict()}


@pytest.mark.parametrize(
    "end",
    [
        {"orders": {"0": 6}, "orders@id": {}},
        {"orders": {"0": 7}, "orders@another": {}},
        {"orders": {"0": 7}},
        {"orders": {"0": 7, "1": 0}, "orders@id": {}},
        {},
    ],
)
def test_another_batch_is_not(end: dict[str, dict[str, int]]) -> None:
    """A late event, another source's end, the same offsets of a topic made anew."""
    kept = KeptCommits()
    kept.tell(end)
    assert kept.commits == []
    assert kept.progress.as_value() is None


def test_another_query_is_not() -> None:
    """However alike its offsets are; who tells is told whose run this is."""
    kept = KeptCommits()
    assert kept.tell(END, query="q2") == "q1"
    assert kept.commits == []


def test_before_a_task_has_said_whose_it_is() -> None:
    """Nothing is taken, and whoever tells may ask again; the first task's word stands."""
    progress = QueryProgress(lambda *_: pytest.fail("committed"))
    progress.plan(END, {}, {})
    progress.serves("")
    assert progress.batch_committed(calls.BatchCommitted("", "", (calls.SourceProgress(END, None),))) == ""
    progress.serves("q1")
    progress.serves("q2")
    assert progress.batch_committed(calls.BatchCommitted("q2", "", ())) == "q1"


def test_a_task_of_the_run_before_does_not_say_whose_this_is() -> None:
    """It finds this run at the port and with the token of its own, and asks for a slot of a plan that is gone."""
    plans, progress = PlanRegistry(), QueryProgress(lambda *_: None)
    coordinator = Coordinator(GroupSettings("g", "run", 1000, 2_000, 500, 2_000, ("range",)), dict, assignors=ASSIGNORS)
    service = Service(coordinator, plans, failure=lambda: None, status=dict, on_query=progress.serves)
    claim = service.handlers()["Claim"]
    plans.register("new", [Slot(None, (Range("orders", 0, 0, 7),))])

    assert b"PLAN_GONE" in claim(calls.encode(calls.Claim("old", 0, "", query="q1")))
    assert progress.batch_committed(calls.BatchCommitted("q1", "", ())) == ""
    claim(calls.encode(calls.Claim("new", 0, "", query="q2")))
    assert progress.batch_committed(calls.BatchCommitted("q1", "", ())) == "q2"
