"""The core knows nothing of partitions of topics: a protocol of seats in rooms, in bytes of its own, goes through unread."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest

from sparkcohort.runtime import group as g
from sparkcohort.runtime.group import (
    context,
    fencing,
    joins,
    partition_ownership,
    rebalance,
    records,
    replay,
    requests,
    state,
)
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.partitions import TopicPartition

ROOM = "room"


class Seats:
    """One byte a seat: what a guest sits on, after a byte for how hungry it is; the plan is likewise, without that byte."""

    def assigned(self, assignment: bytes) -> frozenset[TopicPartition]:
        """The seats of a plan."""
        return frozenset(TopicPartition(ROOM, seat) for seat in assignment)

    def claimed(self, metadata: bytes) -> frozenset[TopicPartition]:
        """The seats that a guest says it sits on."""
        return self.assigned(metadata[1:])

    def subscription(self, metadata: bytes) -> bytes:
        """How hungry it is."""
        return metadata[:1]


class Table:
    """A group of guests, asked by hand."""

    def __init__(self) -> None:
        """Nobody is there."""
        self.group = g.new_group(g.GroupConfig("dinner", protocol_type="seating"), Seats())
        self.replies: dict[int, p.Reply] = {}
        self.asked = 0

    def ask(self, request: p.Request) -> int:
        """Ask; what is answered is kept."""
        self.asked += 1
        self.group, actions = g.step(self.group, p.Received(self.asked, request), 0)
        self.replies |= {action.correlation: action.reply for action in actions if isinstance(action, p.Answer)}
        return self.asked

    def join(self, name: str, metadata: bytes, kind: str = "seating", member_id: str = "") -> int:
        """A guest with a name card: a static member."""
        protocols = (p.Protocol("by hunger", metadata), p.Protocol("by age", metadata))
        return self.ask(p.JoinGroup(member_id, name, name, "hall", 500, 500, kind, protocols))


def test_metadata_and_plans_go_through_unread() -> None:
    """Bytes that no ConsumerProtocol reader could read reach the leader and the guests as they were, and move seats."""
    table = Table()
    first = table.join("ann", b"\x09")
    second = table.join("bob", b"\x05")
    third = table.join("ann", b"\x09", member_id="ann-1")
    leads = table.replies[third]
    assert isinstance(leads, p.JoinGroupReply)
    assert isinstance(table.replies[first], p.JoinGroupReply)
    assert isinstance(table.replies[second], p.JoinGroupReply)
    assert [(x.member_id, x.metadata) for x in leads.members] == [("ann-1", b"\x09"), ("bob-2", b"\x05")]
    assert (leads.protocol_type, leads.protocol_name) == ("seating", "by hunger")
    plan = (("ann-1", b"\x01\x02\xff"), ("bob-2", b"\x03"))
    table.ask(p.SyncGroup("ann-1", "ann", leads.generation, "seating", "by hunger", plan))
    given = table.replies[table.ask(p.SyncGroup("bob-2", "bob", leads.generation, "seating", "by hunger"))]
    assert isinstance(given, p.SyncGroupReply)
    assert given.assignment == b"\x03"
    assert {tp.partition for tp in g.owned(table.group, "ann-1")} == {1, 2, 255}
    table.join("ann", b"\x09\x01", member_id="ann-1")
    assert {tp.partition for tp in g.owned(table.group, "ann-1")} == {1}


def test_another_protocol_type_is_another_group() -> None:
    """A consumer is no guest, in an empty group and in one with guests."""
    table = Table()
    for _ in range(2):
        reply = table.replies[table.join("con", b"\x00\x00", "consumer")]
        assert isinstance(reply, p.JoinGroupReply)
        assert reply.error.name == "INCONSISTENT_GROUP_PROTOCOL"
        table.join("ann", b"\x09")


@pytest.mark.parametrize(
    "module", [requests, replay, fencing, g, joins, partition_ownership, rebalance, records, state, context]
)
def test_the_core_reads_no_consumer_protocol(module: ModuleType) -> None:
    """What the group is made of does not so much as name the module that reads subscriptions."""
    assert "consumer_protocol" not in inspect.getsource(module)
