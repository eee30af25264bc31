"""The machine of the driver's membership: every event in every state, and what holds whatever happens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkcohort.runtime.kafka import membership_state as s
from sparkcohort.runtime.kafka.membership import TABLE, deadline, is_void, new_membership, step
from sparkcohort.runtime.kafka.membership_state import (
    Committed,
    LoginRefusals,
    Membership,
    MembershipState,
    OffsetToCommit,
    Phase,
)
from sparkcohort.runtime.kafka.run_epoch import decode
from sparkcohort.runtime.protocol.partitions import TopicPartition
from tests.kit.membership_world import CONFIG, DENIED, REFUSED, MembershipWorld, joined, parts
from tests.kit.tier import of_tier

STANDALONE, JOINING, MEMBER, WATCHING, ENDED = MembershipState
COMMITTING = (STANDALONE, MEMBER)
TP = TopicPartition("orders", 0)
REQUESTS = (s.FetchRequested, s.CommitRequested, s.ReserveRequested)
EVENTS: tuple[type, ...] = (*REQUESTS, *(each for each in get_args(s.MembershipEvent) if each not in REQUESTS))


def events(call: int, request: int) -> dict[type, s.MembershipEvent]:
    """One event of each kind; results are those of this call."""
    samples: tuple[s.MembershipEvent, ...] = (
        s.TimePassed(),
        s.TopicsChanged(("items", "orders"), parts("items-0", "orders-0")),
        s.ClientFailed(),
        s.AssignmentReceived(parts("orders-0")),
        s.RevocationReceived(),
        s.Fenced("FENCED_INSTANCE_ID"),
        s.LoginFailed(REFUSED),
        s.StepFailed(DENIED),
        s.OffsetsFetched(call, {TP: Committed(7, "")}),
        s.CommitAnswered(call, {TP: 8}, tuple(parts("orders-1"))),
        s.CallFailed(call, "no answer"),
        s.Join(),
        s.Close(),
        s.FetchRequested(request, (TP,)),
        s.CommitRequested(request, {TP: (5, "x")}, False, {}, {}),
        s.ReserveRequested(request, {TP: 5}, "", "", {}, {}),
    )
    return {type(event): event for event in samples}


# --- memberships in every state, with every phase of a request -----------------------------------------


def standalone() -> MembershipWorld:
    """Not asked to join yet; what earlier runs have left is known."""
    world = MembershipWorld(standalone=True)
    world.set_topics(orders=2)
    world.after(100)
    return world


def reserved() -> MembershipWorld:
    """The same, with a run of its own; a commit is on its way."""
    world = standalone()
    world.reserve()
    world.holding = True
    world.commit({TP: 5})
    world.let_go()
    world.holding = True
    world.commit({TP: 6})
    return world


def known() -> MembershipWorld:
    """Subscribed, not joined yet."""
    world = MembershipWorld()
    world.set_topics(orders=2)
    world.after(100)
    return world


def reading() -> MembershipWorld:
    """Assigned; the metadata are being read."""
    world = known()
    world.holding = True
    world.feed(s.AssignmentReceived(world.membership.partitions))
    world.after(100)
    return world


def member_of_nothing() -> MembershipWorld:
    """There is no topic."""
    world = MembershipWorld()
    world.after(600)
    return world


def waiting(act: Callable[[MembershipWorld], None]) -> Callable[[], MembershipWorld]:
    """A member whose coordinator does not answer what it is asked."""

    def make() -> MembershipWorld:
        world = joined()
        world.holding = True
        act(world)
        return world

    return make


def preparing() -> MembershipWorld:
    """A commit after a rebalance: it is not known what is committed."""
    world = joined()
    world.feed(s.RevocationReceived())
    world.feed(s.AssignmentReceived(world.membership.partitions))
    world.after(300)
    world.holding = True
    world.commit({TP: 5})
    return world


def watching() -> MembershipWorld:
    """Fenced; a request waits."""
    world = waiting(lambda world: world.fetch(parts("orders-0")))()
    world.feed(s.Fenced("FENCED_INSTANCE_ID"))
    world.after(100)
    return world


def ended() -> MembershipWorld:
    """Failed for good."""
    world = joined()
    world.feed(s.StepFailed(DENIED))
    return world


def closed() -> MembershipWorld:
    """Closed."""
    world = joined()
    world.feed(s.Close())
    return world


WORLDS: dict[str, Callable[[], MembershipWorld]] = {
    "new": lambda: MembershipWorld(standalone=True),
    "standalone": standalone,
    "reserved": reserved,
    "joining": MembershipWorld,
    "known": known,
    "reading": reading,
    "member": joined,
    "member of nothing": member_of_nothing,
    "fetching": waiting(lambda world: world.fetch(parts("orders-0"))),
    "reserving": waiting(MembershipWorld.reserve),
    "preparing": preparing,
    "committing": waiting(lambda world: world.commit({TP: 5})),
    "watching": watching,
    "ended": ended,
    "closed": closed,
}


def check(before: Membership, event: s.MembershipEvent, after: Membership, actions: tuple[Any, ...]) -> None:
    """What holds after every step."""
    assert (after.failure is None) or after.state is ENDED
    superseded = after.failure is not None and after.failure.error == "FENCED_INSTANCE_ID"
    assert superseded == (after.successor is not None)
    if before.state is ENDED:
        assert after is before or (after.state, after.failure) == (ENDED, before.failure)
    assert not after.committed or after.state in COMMITTING
    assert after.pending is None or after.state is not ENDED
    assert after.reading is None or after.state in (STANDALONE, JOINING, WATCHING)
    assert after.state is not STANDALONE or (before.state is STANDALONE and not after.subscribed)
    assert after.assigned is None or after.state in (JOINING, MEMBER)
    assert after.client >= before.client
    assert after.calls >= before.calls
    assert deadline(after) is None or after.state is not ENDED
    for action in actions:
        assert not is_void(after, action)
        if isinstance(action, s.CommitOffsets):
            assert after.state in COMMITTING
            assert after.pending is not None and after.pending.phase is Phase.COMMIT
    if (
        after.state is MEMBER and before.state is not MEMBER
    ):  # only after the metadata have been read, or there are none
        assert before.state is JOINING
        assert type(event) in (s.OffsetsFetched, s.TimePassed)
        assert isinstance(event, s.OffsetsFetched) or not after.partitions
    assert len([each for each in actions if isinstance(each, s.MembershipAnswer) and not each.later]) <= 1


# --- totality -------------------------------------------------------------------------------------------


def test_the_worlds_are_in_every_state_and_every_phase() -> None:
    """So every cell of the table is driven below."""
    made = [make().membership for make in WORLDS.values()]
    assert {each.state for each in made} == set(MembershipState)
    assert {each.pending.phase for each in made if each.pending} == set(Phase)
    assert set(events(1, 1)) == set(EVENTS)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
@pytest.mark.parametrize("name", WORLDS)
def test_every_state_answers_every_event(name: str, event: type) -> None:
    """What is in the table is done, what isn't changes nothing, and what has to hold, holds; results also for no call."""
    for late_ms in (0, 300, 60_000):
        for call in (-1, *range(12)):
            before = WORLDS[name]().membership
            sample = events(call, 99)[event]
            after, actions = step(before, sample, 1_001_000 + late_ms)
            check(before, sample, after, actions)
            if event not in TABLE[before.state]:
                assert (after, actions) == (before, ())
            if call == -1 and event in (s.OffsetsFetched, s.CommitAnswered, s.CallFailed):
                assert (after, actions) == (before, ())


@pytest.mark.parametrize("name", [name for name, make in WORLDS.items() if make().membership.pending])
def test_whatever_ends_a_membership_answers_who_waits(name: str) -> None:
    """Closing, failing, another client: at once; whatever comes of the call afterwards is void."""
    for event in (s.Close(), s.StepFailed(DENIED), s.ClientFailed()):
        before = WORLDS[name]().membership
        assert before.pending is not None and before.pending.call is not None
        after, actions = step(before, event, 2_000_000)
        (answer,) = (each for each in actions if isinstance(each, s.MembershipAnswer))
        assert answer.later
        assert answer.request == before.pending.request.request
        assert after.pending is None
        late = s.CommitAnswered(before.pending.call, {TP: 5})
        assert not [each for each in step(after, late, 2_000_000)[1] if isinstance(each, s.MembershipAnswer)]


# --- whatever happens -----------------------------------------------------------------------------------

KINDS = st.tuples(st.sampled_from(EVENTS), st.integers(0, 3), st.sampled_from((0, 50, 300, 5_000)))


@settings(max_examples=of_tier(quick=40, thorough=300))
@given(st.lists(KINDS, max_size=60))
def test_each_request_is_answered_once(happening: list[tuple[type, int, int]]) -> None:
    """Results come for calls that were made, in any order, twice, or never; in the end it is closed."""
    membership, now_ms = new_membership(CONFIG, "ours", 0), 0
    membership, _ = step(membership, s.TopicsChanged(("orders",), parts("orders-0", "orders-1")), now_ms)
    asked, answered = 0, Counter[int]()
    for kind, back, wait_ms in [*happening, (s.Close, 0, 0)]:
        now_ms += wait_ms
        asked += kind in REQUESTS
        event = events(membership.calls - back, asked)[kind]
        before = membership
        membership, actions = step(before, event, now_ms)
        check(before, event, membership, actions)
        answered.update(each.request for each in actions if isinstance(each, s.MembershipAnswer))
    assert answered == Counter(range(1, asked + 1))


class Drivers:
    """Two drivers of one query, and the broker's rule: the newest joiner of an instance id has it (KIP-345)."""

    def __init__(self) -> None:
        """Neither has begun."""
        self.worlds = [MembershipWorld("first"), MembershipWorld("second")]
        self.store: dict[TopicPartition, Committed] = {}
        self.owner = -1
        for number, world in enumerate(self.worlds):
            world.store = self.store
            world.call = self._caller(number)  # type: ignore[method-assign, assignment]

    def _caller(self, number: int) -> Callable[[s.FetchOffsets | s.CommitOffsets], s.MembershipEvent]:
        def call(action: s.FetchOffsets | s.CommitOffsets) -> s.MembershipEvent:
            if isinstance(action, s.FetchOffsets):
                return s.OffsetsFetched(
                    action.call, {tp: self.store.get(tp, Committed(None, "")) for tp in action.partitions}
                )
            if self.owner != number:
                self.worlds[number].feed(s.Fenced("FENCED_INSTANCE_ID"))
                return s.CallFailed(action.call, "FENCED_INSTANCE_ID")
            self._take(action.offsets)
            return s.CommitAnswered(action.call, {each.partition: each.offset for each in action.offsets})

        return call

    def _take(self, offsets: tuple[OffsetToCommit, ...]) -> None:
        for each in offsets:
            run = decode(each.metadata).run
            assert all(decode(known.metadata).run <= run for known in self.store.values()), "an older run has committed"
            self.store[each.partition] = Committed(each.offset, each.metadata)

    def act(self, number: int, what: str) -> None:
        """One driver does something."""
        world = self.worlds[number]
        match what:
            case "start":
                world.set_topics(orders=2)
                world.after(100)
            case "join" if world.membership.subscribed and world.membership.state is not ENDED:
                # A rejoin of librdkafka's waits for our revocation callback; one that thaws does it, too.
                world.feed(s.RevocationReceived())
                self.owner = number
                world.feed(s.AssignmentReceived(world.membership.partitions))
            case "poll" if self.owner not in (-1, number) and world.membership.subscribed:
                world.feed(s.Fenced("FENCED_INSTANCE_ID"))
            case "wait":
                world.after(500)
            case "reserve":
                world.reserve()
            case "commit" if world.membership.reservation.own is not None:
                world.commit({TP: 5})


STORIES = {  # what a driver does in one go, with the other one's acts between
    **{each: (each,) for each in ("start", "join", "poll", "wait", "reserve", "commit")},
    "take over": ("start", "join", "wait", "reserve"),
    "thaw": ("join", "wait"),
    "watch": ("poll", *("wait",) * 7),
}
ACTS = st.tuples(st.integers(0, 1), st.sampled_from(sorted(STORIES)))


@settings(max_examples=of_tier(quick=40, thorough=500))
@given(st.lists(ACTS, min_size=3, max_size=40))
def test_an_older_run_never_commits_after_a_newer_one(acts: list[tuple[int, str]]) -> None:
    """However two drivers start, freeze, thaw, join, fence each other, reserve and commit."""
    drivers = Drivers()
    for what in ("start", "join", "wait", "reserve"):
        drivers.act(0, what)
    for number, story in acts:
        for what in STORIES[story]:
            drivers.act(number, what)


# --- commits --------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=20))
def test_a_committed_offset_goes_down_by_reset_only(commits: list[tuple[int, bool]]) -> None:
    """Law I6, over rebalances."""
    world = joined()
    for offset, reset in commits:
        before = world.store[TP].offset or 0
        world.commit({TP: offset}, reset=reset)
        assert world.store[TP].offset == (offset if reset else max(offset, before))
        if offset % 3 == 0:
            world.feed(s.RevocationReceived())
            world.feed(s.AssignmentReceived(world.membership.partitions))
            world.after(300)


def test_a_commit_names_topic_id_and_leader_epoch() -> None:
    """The id that the offset is of stands in its metadata; an epoch only beside the offset that it belongs to (KIP-320)."""
    world = joined()
    world.commit({TP: 9})
    text = world.membership.reservation.metadata()
    sent = [
        action
        for offset in (10, 3)
        for action in step(
            world.membership, s.CommitRequested(9, {TP: (offset, text)}, False, {"orders": "id"}, {TP: 4}), world.now_ms
        )[1]
        if isinstance(action, s.CommitOffsets)
    ]
    assert [(each.offset, each.epoch, decode(each.metadata).topic) for action in sent for each in action.offsets] == [
        (10, 4, "id"),
        (9, -1, "id"),
    ]


def test_what_kafka_took_beside_an_error_is_known() -> None:
    """Some partitions are committed, one is not: the request is made again, and does not undo what was taken."""
    world = waiting(lambda world: world.commit({TP: 5, TopicPartition("orders", 1): 5}))()
    after, (answer,) = step(world.membership, s.CommitAnswered(world.membership.calls, {TP: 5}, (), "busy"), 2_000_000)
    assert isinstance(answer, s.MembershipAnswer) and answer.later == "busy"
    assert after.committed[TP] == 5


# --- logins ---------------------------------------------------------------------------------------------


def test_refusals_in_the_middle_of_a_run_are_believed_after_a_minute() -> None:
    """Told of every second or every half minute; after a time without any they begin anew."""
    for every in (1, 30):
        refusals = LoginRefusals()
        believed = []
        for at in range(0, 91, every):
            refusals = refusals.add_refusal(100_000 + at * 1000)
            believed.append(refusals.believed)
        assert believed == [at >= 60 for at in range(0, 91, every)]
        for at, expected in ((250, False), (280, False), (310, True)):
            refusals = refusals.add_refusal(at * 1000)
            assert refusals.believed is expected
