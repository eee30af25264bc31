"""The coordinator behind its port: joining, moving, fencing, all over the wire."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator

import pytest

from sparkcohort.assignors import ASSIGNORS, Assignor
from sparkcohort.runtime.batches.claims import Slot
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.messages import (
    REPLIES,
    CommittedPosition,
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinGroupReply,
    LeaveGroup,
    LeavingMember,
    OffsetCommit,
    OffsetCommitReply,
    OffsetFetch,
    OffsetFetchReply,
    ProcessInfo,
    Request,
    Subscription,
    SyncGroup,
    SyncGroupReply,
)
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.coordinator import service
from sparkcohort.runtime.shell.coordinator.coordinator import Coordinator
from sparkcohort.runtime.shell.coordinator.group_loop import Clock
from sparkcohort.runtime.shell.coordinator.group_settings import GroupSettings
from sparkcohort.runtime.shell.coordinator.plan_registry import PlanRegistry
from sparkcohort.runtime.shell.coordinator.service import Service
from sparkcohort.runtime.shell.rpc.certificates import new_authority
from sparkcohort.runtime.shell.rpc.flight import CoordinatorRefused, GroupServer, Link
from tests.kit.rebalances import rebalances_of
from tests.kit.waiting import wait_until

PARTITIONS = [TopicPartition("t", number) for number in range(4)]


class World:
    """A coordinator with its port, and members that speak the protocol by hand."""

    def __init__(self, max_delay_ms: int = 0, own: Assignor | None = None, balance_after_ms: int = 60_000) -> None:
        """``own`` is a user's assignor, or one of ours, the only one that the group offers."""
        self.authority = new_authority()
        self.failure: CohortError | None = None
        self.members: list[Member] = []
        self.topics = {"t": 4}
        self.plans = PlanRegistry()
        self.assignors = ASSIGNORS if own is None else {own.name: own}
        self.names = ("cooperative-sticky", "range") if own is None else (own.name,)
        balance = (1.2, balance_after_ms, 5)
        settings = GroupSettings("g", "run", 1000, 2_000, 500, 2_000, self.names, max_delay_ms, balance)
        self.coordinator = Coordinator(settings, lambda: self.topics, assignors=self.assignors)
        self.coordinator.start()
        service = self.service = Service(self.coordinator, self.plans, failure=lambda: self.failure, status=dict)
        self.server = GroupServer(
            self.authority, service.handlers(), service.subscribe, service.unsubscribe, host="127.0.0.1"
        )
        self.link = Link("127.0.0.1", self.server.port, self.authority.client)
        wait_until(lambda: self.coordinator.group.state == "Stable", 5, "the driver to have joined")

    def call(self, request: Request) -> object:
        """The reply to one request."""
        return calls.decode(self.link.call(type(request).__name__, calls.encode(request), 10), REPLIES[type(request)])

    def close(self) -> None:
        """End everything."""
        for member in self.members:
            member.freeze()
        self.coordinator.stop()
        self.link.close()
        self.server.stop(5)


class Member:
    """A member by hand in a thread of its own: joins, gives up what it is told to, rejoins when a heartbeat says so."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.member_id, self.generation = "", -1
        self.owned: dict[TopicPartition, int] = {}
        self._frozen = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)
        world.members.append(self)
        self._thread.start()

    def _live(self) -> None:
        self.join()
        while not self._frozen.wait(0.02):
            if self.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS:
                self.join()

    def freeze(self) -> None:
        """Do nothing from now on."""
        self._frozen.set()
        self._thread.join(10)

    def join(self) -> None:
        """One join and sync, with what is owned claimed."""
        process = ProcessInfo(self.name, address=self.name)
        said = Subscription(("t",), tuple(self.owned), self.generation, process=process)
        reply = self.world.call(
            JoinGroup(self.member_id, self.name, self.name, "h", 2_000, 2_000, self.world.names[:1], said)
        )
        assert isinstance(reply, JoinGroupReply)
        assert reply.error == ErrorCode.NONE
        self.member_id, self.generation = reply.member_id, reply.generation
        synced = self.world.call(SyncGroup(self.member_id, self.name, self.generation))
        assert isinstance(synced, SyncGroupReply)
        if synced.error == ErrorCode.REBALANCE_IN_PROGRESS:
            return self.join()
        assert synced.error == ErrorCode.NONE
        gives_up = bool(set(self.owned) - set(synced.assignment))
        self.owned = {tp: self.owned.get(tp, self.generation) for tp in synced.assignment}
        return self.join() if gives_up else None

    def commit(self, tp: TopicPartition, offset: int, assignment_generation: int) -> ErrorCode:
        """The error of a commit of one partition."""
        position = CommittedPosition(tp.topic, tp.partition, offset, assignment_generation)
        reply = self.world.call(OffsetCommit(self.member_id, self.name, self.generation, (position,)))
        assert isinstance(reply, OffsetCommitReply)
        return reply.partitions[0][1]

    def heartbeat(self) -> ErrorCode:
        """The error of a heartbeat."""
        reply = self.world.call(Heartbeat(self.member_id, self.name, self.generation))
        assert isinstance(reply, HeartbeatReply)
        return reply.error


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A running coordinator; its parameter is the delay after a departure."""
    running = World(getattr(request, "param", 0))
    yield running
    running.close()


def joined(world: World, name: str, partitions: int = 4) -> Member:
    """A member that has settled with so many partitions."""
    member = Member(world, name)
    wait_until(lambda: len(member.owned) == partitions, 10, f"{name} to own {partitions} partitions")
    return member


def both_join(world: World) -> tuple[Member, Member]:
    """Member a with everything, then b comes and both settle at two partitions each."""
    a = joined(world, "a")
    b = joined(world, "b", 2)
    wait_until(lambda: a.generation == b.generation and len(a.owned) == 2, 10, "both to be in one generation")
    return a, b


def test_members_share_and_generations_start_above_the_reserved_block(world: World) -> None:
    """Two members own two partitions each, disjoint, at generations above 1000."""
    a, b = both_join(world)

    assert set(PARTITIONS) == set(a.owned) | set(b.owned)
    assert a.generation == b.generation > 1000


def test_a_kept_partition_commits_and_a_moved_one_is_refused_and_counted(world: World) -> None:
    """After the move a's old claim on what b has now is ILLEGAL_GENERATION; what a kept goes through all the time."""
    a = joined(world, "a")
    before = dict(a.owned)
    b = Member(world, "b")
    kept = min(PARTITIONS)  # the latest acquired go first, and of those acquired together the highest
    errors = set()

    def settled() -> bool:
        errors.add(a.commit(kept, 5, before[kept]))
        return len(b.owned) == 2

    wait_until(settled, 10, "b to own two partitions", every_s=0.001)

    assert errors == {ErrorCode.NONE}
    moved = min(b.owned)
    assert a.commit(moved, 7, before[moved]) == ErrorCode.ILLEGAL_GENERATION
    assert world.coordinator.counters["OffsetCommit", "ILLEGAL_GENERATION"] == 1


def test_a_member_unheard_of_for_a_session_is_out_and_its_late_commit_refused(world: World) -> None:
    """After the session timeout the other one has everything; the zombie is UNKNOWN_MEMBER_ID."""
    a, b = both_join(world)
    late = min(b.owned)
    b.freeze()
    wait_until(lambda: len(a.owned) == 4, 15, "a to have all partitions")

    assert b.commit(late, 9, b.owned[late]) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.coordinator.counters["OffsetCommit", "UNKNOWN_MEMBER_ID"] == 1


def test_after_its_end_for_good_the_group_is_unloaded(world: World) -> None:
    """A parked join and every later request are answered NOT_COORDINATOR, at once; nothing is committed any more."""
    a = joined(world, "a")
    a.freeze()  # owes its rejoin, so the newcomer's join is parked
    join = JoinGroup("", "c", "c", "h", 2_000, 2_000, world.names[:1], Subscription(("t",)))
    answers: list[object] = []
    joining = threading.Thread(target=lambda: answers.append(world.call(join)))
    joining.start()
    wait_until(lambda: any(name.startswith("c-") for name in world.coordinator.group.joins), 5, "a join to be parked")
    world.coordinator.stop()
    joining.join(10)
    assert [answer.error for answer in answers if isinstance(answer, JoinGroupReply)] == [ErrorCode.NOT_COORDINATOR]
    assert a.heartbeat() == ErrorCode.NOT_COORDINATOR
    tp = min(a.owned)
    assert a.commit(tp, 9, a.owned[tp]) == ErrorCode.NOT_COORDINATOR
    assert world.coordinator.group.state == "Dead"


def test_after_an_end_that_is_not_for_good_a_request_is_told_at_once(world: World) -> None:
    """The next run has the group: it is not unloaded, and nothing is answered in its place."""
    world.coordinator.stop(for_good=False)
    with pytest.raises(TimeoutError, match="has ended"):
        world.coordinator.request(Heartbeat("driver-run-1", "driver", 1001), 60)
    assert world.coordinator.group.state == "Stable"


def b_leaves(world: World) -> tuple[Member, dict[TopicPartition, int], set[TopicPartition]]:
    """Of a and b, b leaves: a, what a owned and what b owned."""
    a, b = both_join(world)
    before, lost = dict(a.owned), set(b.owned)
    b.freeze()
    world.call(LeaveGroup((LeavingMember(b.member_id, b.name, "done"),)))
    return a, before, lost


@pytest.mark.parametrize("world", [60_000], indirect=True)
def test_what_a_departed_member_had_waits_for_a_replacement(world: World) -> None:
    """Nobody owns it meanwhile; who comes gets it in one round, and the survivor never gains or loses anything."""
    a, before, lost = b_leaves(world)
    wait_until(lambda: world.coordinator.leadership.scheduled() is not None, 5, "the wait to begin")
    waiting = world.coordinator.leadership.scheduled()
    assert waiting is not None
    assert waiting[0] == lost
    assert 0 < waiting[1] <= 60_000
    wait_until(lambda: world.coordinator.group.state == "Stable", 5, "the round to end")
    assert world.coordinator.owners().keys() == before.keys()
    left, moved = len(rebalances_of(world.coordinator)), world.coordinator.history.rebalance_totals.partitions_moved

    c = joined(world, "c", 2)

    assert set(c.owned) == lost
    assert a.owned == before
    assert world.coordinator.leadership.scheduled() is None
    assert len(rebalances_of(world.coordinator)) == left + 1
    assert world.coordinator.history.rebalance_totals.partitions_moved == moved + len(lost)


@pytest.mark.parametrize("world", [300], indirect=True)
def test_without_a_replacement_the_others_get_it_when_the_delay_is_over(world: World) -> None:
    """The coordinator's own clock begins the round, which says why by the executor's name."""
    a, before, lost = b_leaves(world)
    wait_until(lambda: len(a.owned) == 4, 10, "a to own all partitions")

    assert before.items() <= a.owned.items()
    assert lost <= a.owned.keys()
    wait_until(
        lambda: str(rebalances_of(world.coordinator)[-1].reason).startswith("the grace"), 5, "the round to be told"
    )
    assert str(rebalances_of(world.coordinator)[-1].reason) == "the grace period of executor-b on h is over"
    assert world.coordinator.leadership.scheduled() is None


def test_rejoin_is_pushed_to_the_members_stream(world: World) -> None:
    """A member with an open stream hears of a rebalance without a heartbeat."""
    joined(world, "a")
    events = world.link.events(b"a")
    assert json.loads(next(events)) == {"event": "subscription", "topics": ["t"]}
    Member(world, "b")

    assert json.loads(next(events))["event"] == "rejoin"


def test_added_partitions_are_one_rebalance_and_no_change_is_none(world: World) -> None:
    """However often the driver looks; what the members had stays theirs, the new ones are given out."""
    a, b = both_join(world)
    before, generation = {**a.owned, **b.owned}, world.coordinator.group.generation
    world.topics = {"t": 6}
    for _ in range(3):
        world.coordinator.topics_changed()
    wait_until(lambda: len(a.owned) == len(b.owned) == 3, 10, "both to have a new partition")

    assert world.coordinator.group.generation == generation + 1
    assert str(rebalances_of(world.coordinator)[-1].reason) == "topics or partitions changed"
    assert before.items() <= {**a.owned, **b.owned}.items()


def test_new_topics_are_told_before_the_push_to_rejoin(world: World) -> None:
    """So a member that listens joins once, with the new subscription."""
    joined(world, "a")
    events = world.link.events(b"a")
    assert json.loads(next(events)) == {"event": "subscription", "topics": ["t"]}
    world.topics = {"t": 4, "u": 2}
    world.coordinator.topics_changed()
    told = [json.loads(next(events)) for _ in range(2)]

    assert [(event["event"], event["topics"]) for event in told] == [
        ("subscription", ["t", "u"]),
        ("rejoin", ["t", "u"]),
    ]


def test_positions_to_prefetch_from_are_the_ends_of_the_plan(world: World) -> None:
    """OffsetFetch tells the end of what is planned, and -1 for what never was."""
    world.plans.register("p", [Slot(None, (Range("t", 0, 0, 10),))])
    reply = world.call(OffsetFetch((TopicPartition("t", 0), TopicPartition("t", 1))))

    assert isinstance(reply, OffsetFetchReply)
    assert {TopicPartition("t", 0): 10, TopicPartition("t", 1): -1} == dict(reply.offsets)


def claim(world: World, index: int, address: str) -> dict[str, object]:
    """What a task at ``address`` gets."""
    body = json.dumps({"plan": "p", "index": index, "address": address}).encode()
    reply: dict[str, object] = json.loads(world.link.call("Claim", body, 5))
    return reply


def test_a_task_is_sent_to_its_own_agent_and_to_no_other(world: World) -> None:
    """A slot of a's, claimed where a lives, comes from the agent; claimed elsewhere it is read directly."""
    a = joined(world, "a")
    world.plans.register("p", [Slot(a.member_id, (Range("t", 0, 0, 10),)), Slot(a.member_id, (Range("t", 1, 0, 5),))])

    assert claim(world, 0, "a")["agent"] is True
    assert claim(world, 1, "elsewhere")["agent"] is False
    assert claim(world, 0, "elsewhere")["ranges"] == [["t", 0, 0, 10]]


def tell_silence(world: World, address: str) -> None:
    """Report as a task that got no answer from the agent at this address."""
    counts: dict[str, object] = {"agent": [0, 0], "direct": [0, 0], "sizes": []}
    delivered = {"plan": "p", "ranges": [], **counts, "address": address, "timed_out": True}
    world.link.call("Delivered", json.dumps(delivered).encode(), 5)


def test_an_agent_that_left_a_task_waiting_is_not_asked_for_a_while(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reported time-out sends the next tasks to Kafka; a report that comes late doesn't make it longer."""
    monkeypatch.setattr(service, "SILENT_MS", 1_000)
    a = joined(world, "a")
    a.freeze()
    world.plans.register("p", [Slot(a.member_id, (Range("t", 0, 0, 10),))])
    tell_silence(world, "a")

    assert claim(world, 0, "a")["agent"] is False
    assert world.service.silent() == {"a"}
    silences = dict(world.service._silences)
    tell_silence(world, "a")
    assert world.service._silences == silences
    wait_until(lambda: claim(world, 0, "a")["agent"] is True, 10, "it to be asked again")
    assert world.service.silent() == frozenset()


def test_a_frozen_agent_is_not_asked_when_its_member_was_removed(world: World) -> None:
    """It takes connections all the same, and tasks would wait for it; who joins at its address is another agent, and is asked."""
    a = joined(world, "a")
    a.freeze()
    tell_silence(world, "a")
    wait_until(lambda: a.member_id not in world.coordinator.members(), 10, "its removal")
    tell_silence(world, "b")  # which was removed before any task asked it
    assert world.service.silent() == {"a", "b"}
    joined(world, "a")
    assert world.service.silent() == {"b"}
    Member(world, "b")
    wait_until(lambda: world.service.silent() == frozenset(), 10, "b to join")


def test_tasks_tell_how_large_records_are(world: World) -> None:
    """Bytes by range, as many as there are ranges; a report that can't be is refused, and nothing of it is counted."""
    world.plans.register("p", [Slot(None, (Range("t", 0, 0, 10),))])
    said = {"plan": "p", "ranges": [["t", 0, 0, 10]], "agent": [0, 0], "direct": [10, 900], "address": ""}
    for sizes in ([], [1, 2], [-1], ["many"]):
        with pytest.raises(CoordinatorRefused):
            world.link.call("Delivered", json.dumps({**said, "sizes": sizes, "timed_out": False}).encode(), 5)
    assert world.plans.audit.records_direct == 0
    world.link.call("Delivered", json.dumps({**said, "sizes": [900], "timed_out": False}).encode(), 5)

    assert world.plans.sizes().mean(TopicPartition("t", 0)) == 90


def test_an_agent_listens_once(world: World) -> None:
    """Its second stream ends the first: one that is never closed costs nothing for long."""
    first = world.link.events(b"a")
    assert next(first)
    second = Link("127.0.0.1", world.server.port, world.authority.client)
    stream = second.events(b"a")
    assert next(stream)

    assert list(first) == []
    world.coordinator.trigger("a look")
    world.coordinator.stop()
    assert [json.loads(event)["event"] for event in stream][-1] == "stop"
    second.close()


def test_the_drivers_own_join_is_no_line(caplog: pytest.LogCaptureFixture) -> None:
    """It was the first line of every start, and said that nothing moved; what concerns an agent is told."""
    caplog.set_level(logging.INFO, "sparkcohort")
    world = World()
    try:
        assert "rebalance to generation" not in caplog.text
        Member(world, "a")
        wait_until(lambda: "assigned 4 partitions that no member had" in caplog.text, 30, "a line")
    finally:
        world.close()


def test_a_fenced_driver_refuses_claims_by_name(world: World) -> None:
    """Once the real group has fenced this driver no task gets a slot."""
    world.plans.register("p", [Slot(None, ())])
    world.failure = CohortError("a newer driver runs", "FENCED_INSTANCE_ID")

    assert claim(world, 0, "")["error"] == "FENCED_INSTANCE_ID"


def test_nobody_else_is_the_driver(world: World) -> None:
    """A join, sync, heartbeat, leave or commit in the name of the driver's own member stops at the port."""
    before = world.coordinator.group
    (driver,) = before.members
    for request in (
        JoinGroup("", "driver", "c", "h", 2_000, 2_000, world.names),
        SyncGroup(driver, "driver", before.generation, assignments=((driver, ()),)),
        Heartbeat(driver, "driver", before.generation),
        LeaveGroup((LeavingMember("x-9", "x"), LeavingMember(driver, "driver"))),
        LeaveGroup((LeavingMember("", "driver"),)),
        OffsetCommit("", "driver", 0, ()),
    ):
        with pytest.raises(CoordinatorRefused, match="only the driver"):
            world.call(request)
    assert (before.state, before.members) == (world.coordinator.group.state, world.coordinator.group.members)


def test_time_in_which_the_process_did_not_run_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a freeze of an hour the clock has gone on by the wait and a second."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    clock = Clock()
    now[0] += 0.5
    assert clock.advance(1_000) == 500
    now[0] += 3600

    assert clock.advance(1_000) == 500 + 2_000
