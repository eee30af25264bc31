"""One member that says anything, through the port: it costs two honest members nothing."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Self

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from sparkcohort.runtime.batches.claims import Slot
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver.metric_values import values
from sparkcohort.runtime.shell.rpc.flight import CoordinatorRefused
from tests.kit.tier import of_tier
from tests.kit.waiting import wait_until
from tests.shell.coordinator.test_coordinator import PARTITIONS, Member, World, both_join
from tests.shell.coordinator.test_load_watch import described

SETTLED_S = 30


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """A running coordinator."""
    running = World()
    yield running
    running.close()


@pytest.fixture(scope="module")
def honest(world: World) -> tuple[Member, Member]:
    """Two members that have two partitions each."""
    return both_join(world)


def check_settled(world: World, honest: tuple[Member, Member]) -> None:
    """The two have everything between them, each what the coordinator knows it to have, and no assignor ever failed."""

    def settled() -> bool:
        a, b = honest
        owners = world.coordinator.owners()
        own = {tp: member.member_id for member in (a, b) for tp in member.owned}
        return world.coordinator.group.state == "Stable" and owners == own and set(own) == set(PARTITIONS)

    wait_until(settled, SETTLED_S, "the honest members to have all partitions", every_s=0.01)
    assert world.coordinator.leadership.runner.failures == {}


class Liar:
    """A member whose joins say what the test wants; it is gone when the block ends."""

    def __init__(self, world: World, name: str = "liar") -> None:
        self.world, self.name, self.member_id, self.ids = world, name, "", set[str]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member_id in self.ids:
            self.world.call(p.LeaveGroup((p.LeavingMember(member_id, self.name),)))

    def join(self, wants: p.Subscription, **others: Any) -> ErrorCode:
        """Join, then sync; the first error of the two."""
        reply = self._ask(wants, others)
        if reply.error != ErrorCode.NONE:
            return reply.error
        synced = self.world.call(p.SyncGroup(self.member_id, self.name, reply.generation))
        assert isinstance(synced, p.SyncGroupReply)
        return synced.error

    def _ask(self, wants: p.Subscription, others: dict[str, Any]) -> p.JoinGroupReply:
        usual = p.JoinGroup(self.member_id, self.name, self.name, "h", 2_000, 2_000, self.world.names, wants)
        reply = self.world.call(structs.replace(usual, **others))
        assert isinstance(reply, p.JoinGroupReply)
        self.member_id = reply.member_id or self.member_id
        self.ids |= {self.member_id} - {""}
        return reply


def test_who_cannot_be_named_is_refused(world: World, honest: tuple[Member, Member]) -> None:
    """By a reason, and counted."""
    with Liar(world) as liar:
        assert liar.join(p.Subscription(("t",), rack="\n")) == ErrorCode.INVALID_REQUEST
    check_settled(world, honest)
    assert world.coordinator.counters["JoinGroup", "INVALID_REQUEST"] == 1


def test_an_agents_address_is_its_own(world: World, honest: tuple[Member, Member]) -> None:
    """Who says to be at another's address is nowhere: that one's tasks go on asking their own agent."""
    world.plans.register("p", [Slot(honest[0].member_id, ())])
    with Liar(world) as liar:
        liar.join(p.Subscription(process=p.ProcessInfo(address="a")))
        assert world.coordinator.members()[liar.member_id].address == ""
        body = json.dumps({"plan": "p", "index": 0, "address": "a"}).encode()
        assert json.loads(world.link.call("Claim", body, 5))["agent"] is True


def test_one_that_is_refused_again_and_again_is_one_line(
    world: World, honest: tuple[Member, Member], caplog: pytest.LogCaptureFixture
) -> None:
    """A minute's worth of heartbeats of somebody unknown, with a name that would break the line."""
    check_settled(world, honest)
    with caplog.at_level(logging.INFO, "sparkcohort.coordinator"):
        for _ in range(50):
            world.call(p.Heartbeat("who\n2026 ERROR nothing is well", "who", 3))
    (line,) = [record.getMessage() for record in caplog.records if "refused Heartbeat" in record.getMessage()]
    assert "refused Heartbeat of who\\n2026 ERROR nothing is well: UNKNOWN_MEMBER_ID" in line


INT32 = st.integers(-(2**31), 2**31 - 1) | st.sampled_from([0, 1, 3, 4, -1, -50, 2**31 - 1])
INT64 = st.integers(-(2**63), 2**63 - 1) | INT32
NAMES = st.sampled_from(["t", "gone", "liar", "a", "b", ""]) | st.text(max_size=300)
OWNED = st.lists(st.tuples(st.sampled_from(["t", "gone"]) | NAMES, INT32).map(TopicPartition._make), max_size=30)
FIGURES = (
    st.none() | st.booleans() | INT64 | st.floats() | st.integers() | st.text(max_size=9) | st.lists(INT64, max_size=3)
)
OF_ITSELF = st.builds(p.ProcessInfo, NAMES, NAMES, INT32, INT32, NAMES)
SUBSCRIPTIONS = st.builds(
    p.Subscription,
    st.lists(st.just("t") | NAMES, max_size=5).map(tuple),
    OWNED.map(tuple),
    INT32,
    NAMES,
    OF_ITSELF,
)
JOINS = st.fixed_dictionaries(
    {"wants": SUBSCRIPTIONS},
    optional={
        "client_id": NAMES,
        "client_host": NAMES,
        "session_timeout_ms": st.sampled_from([2_000, 1, 0, -1, 2**40]),
        "rebalance_timeout_ms": INT64,
        "reason": NAMES,
        "attempt": INT64,
    },
)
ROWS = st.lists(st.tuples(NAMES, INT64, INT64, INT64) | st.lists(FIGURES, max_size=4), max_size=3)
COUNTS = st.lists(FIGURES | INT64, min_size=2, max_size=2)
OTHERS = {
    "Delivered": st.fixed_dictionaries(
        {"plan": NAMES, "ranges": ROWS, "agent": COUNTS, "direct": COUNTS, "sizes": st.lists(FIGURES, max_size=3)},
        optional={"timed_out": FIGURES, "address": NAMES, "bad": ROWS},
    ),
    "MalformedRecords": st.fixed_dictionaries({"bad": st.lists(st.tuples(NAMES, st.just("syntax") | NAMES, FIGURES))}),
    "Fetched": st.fixed_dictionaries({"member": NAMES, "fetched": ROWS}),
    "PartitionLoads": st.fixed_dictionaries({"member": NAMES, "loads": st.dictionaries(NAMES, ROWS)}),
    "Claim": st.fixed_dictionaries({"plan": NAMES, "index": FIGURES, "address": NAMES}),
    "Story": st.fixed_dictionaries({"member": FIGURES}),
    "Rebalances": st.fixed_dictionaries({"last": FIGURES}) | st.fixed_dictionaries({"show": FIGURES}),
}  # fmt: skip
MESSAGES = st.one_of(
    [st.tuples(st.just(kind), said.map(lambda said: json.dumps(said).encode()) | st.binary()) for kind, said in OTHERS.items()]
)  # fmt: skip


@pytest.mark.timeout(180)
@settings(max_examples=of_tier(quick=20, thorough=100), suppress_health_check=list(HealthCheck))
@given(joins=st.lists(JOINS, min_size=1, max_size=3), messages=st.lists(MESSAGES, max_size=8), commits=OWNED, at=INT64)
def test_whatever_one_member_says(
    world: World,
    honest: tuple[Member, Member],
    joins: list[dict[str, Any]],
    messages: list[tuple[str, bytes]],
    commits: list[TopicPartition],
    at: int,
) -> None:
    """Any metadata, any figures, any bytes, as a member and when it is gone: the honest two are given everything."""
    with Liar(world) as liar:
        for said in joins:
            with suppress(CoordinatorRefused):  # a name too long, a number out of bounds
                liar.join(**said)
            positions = tuple(p.CommittedPosition(*tp, at, at) for tp in commits)
            with suppress(CoordinatorRefused):  # an offset below 0
                world.call(p.OffsetCommit(liar.member_id, liar.name, at, positions))
            world.call(p.SyncGroup(liar.member_id, liar.name, at, ((liar.member_id, said["wants"].owned),)))
        for action, body in messages:
            with suppress(CoordinatorRefused):
                world.link.call(action, body, 10)
    check_settled(world, honest)
    found = [value for rows in values(described(world)).values() for _, value in rows]
    numbers = [each["sum_ms"] if isinstance(each, dict) else each for each in found]  # a histogram's
    assert all(0 <= number < 1e16 for number in numbers)
