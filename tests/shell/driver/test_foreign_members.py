"""Who asks for the members of the group, and what becomes of a question that nobody wants answered any more.

With real consumers in real groups: test_kafka_membership.py.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ClassVar

import pytest

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver import foreign_members
from sparkcohort.runtime.shell.driver.foreign_members import ForeignMembers
from sparkcohort.runtime.shell.kafka import clients, group_requests

TP = TopicPartition("t", 0)


class Admin:
    """A client whose questions about groups are never answered."""

    made: ClassVar[weakref.WeakSet[Admin]] = weakref.WeakSet()
    on_metadata: ClassVar[Callable[[], object]] = staticmethod(lambda: None)

    def __init__(self, _conf: object) -> None:
        self.made.add(self)

    def list_topics(self, *_: object, **__: object) -> None:
        """Answered at once."""
        Admin.on_metadata()


@pytest.fixture
def members(monkeypatch: pytest.MonkeyPatch) -> ForeignMembers:
    """Asks such a client."""

    def never(_admin: Admin, groups: list[str]) -> dict[str, Future[Any]]:
        return {group: Future() for group in groups}

    monkeypatch.setattr(clients, "new_admin", Admin)
    monkeypatch.setattr(clients, "connect", lambda *_: None)
    monkeypatch.setattr(group_requests, "describe_groups", never)
    monkeypatch.setattr(foreign_members, "DESCRIBE_TIMEOUT_S", 0.2)
    return ForeignMembers({}, "g", "cohort-g", 45_000)


def test_a_question_that_is_of_no_use_any_more_is_ended(members: ForeignMembers) -> None:
    """With its client, which would keep it for an hour: see group_requests."""
    members.look(frozenset({TP}))
    assert members.asking
    members.look(frozenset())
    gc.collect()
    assert (members.asking, len(Admin.made)) == (False, 0)


def test_one_question_at_a_time(members: ForeignMembers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner of the membership looks while whoever started it asks who else is there."""
    both = threading.Barrier(2)
    together: list[str] = []

    def meet() -> None:
        try:
            both.wait(0.5)
        except threading.BrokenBarrierError:
            both.reset()
        else:
            together.append(threading.current_thread().name)

    monkeypatch.setattr(Admin, "on_metadata", staticmethod(meet))
    asking = [threading.Thread(target=members.everybody), threading.Thread(target=members.look, args=[frozenset({TP})])]
    for each in asking:
        each.start()
    for each in asking:
        each.join(20)
        assert not each.is_alive()
    assert together == []
