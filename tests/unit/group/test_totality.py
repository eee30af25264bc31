"""Totality: every cell of the transition table is driven, and those that no event can reach are named with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from sparkcohort.runtime import group as g
from sparkcohort.runtime.group import rebalance
from sparkcohort.runtime.group.table import TABLE, Effect, GroupState, Input, Row
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.reasons import requested
from tests.kit.group_desk import DESKS, Desk, beat, commit, completing, join, leave, preparing, stable, sync

Cell = tuple[GroupState, Input]
EMPTY, PREPARING, COMPLETING, STABLE, DEAD = GroupState
ENDS = (Input.ALL_JOINED, Input.NONE_LEFT)
MEMBERS = (
    Input.JOIN_LATE,
    Input.JOIN_SAME,
    Input.JOIN_LEADER,
    Input.JOIN_CHANGED,
    Input.TAKEOVER,
    Input.TAKEOVER_CHANGED,
)
SYNCS = (Input.SYNC, Input.SYNC_LATE, Input.SYNC_LEADER)
UNREACHABLE: dict[str, set[Cell]] = {
    "the gate lets no member pass where there is none": {
        (EMPTY, met) for met in (*MEMBERS, *SYNCS, Input.HEARTBEAT, Input.COMMIT)
    },
    "nobody can go from where nobody is": {(EMPTY, Input.MEMBERS_GONE), (DEAD, Input.MEMBERS_GONE)},
    "only a join phase can end": {(state, met) for state in (EMPTY, COMPLETING, STABLE, DEAD) for met in ENDS},
    "overtaken is a sync only while the next join phase is open": {
        (state, Input.SYNC_LATE) for state in (COMPLETING, STABLE, DEAD)
    },
    "in a dead group every join is alike, and nobody leads": {(DEAD, met) for met in (*MEMBERS, Input.SYNC_LEADER)},
}


class Watched(Mapping[Input, Row]):
    """One state's rows; looking one up is remembered."""

    def __init__(self, state: GroupState, driven: set[Cell]) -> None:
        self._state, self._driven = state, driven

    def __getitem__(self, met: Input) -> Row:
        self._driven.add((self._state, met))
        return TABLE[self._state][met]

    def __iter__(self) -> Iterator[Input]:
        return iter(TABLE[self._state])

    def __len__(self) -> int:
        return len(TABLE[self._state])


REQUESTS: tuple[p.Request, ...] = (
    join(client="c"),
    join(client="s", instance="i"),
    join(client="s", instance="i", meta="new"),
    join(client="s", instance="i", protocols=("range",)),
    join("b-3", "b"),
    join("b-3", "b", claims="t2"),
    join("b-3", "b", meta="x"),
    join("a-1", "a"),
    sync("b-3", 2),
    sync("a-1", 2, {"a-1": "t0"}),
    beat("b-3", 2),
    leave("b-3"),
    commit("b-3", 2, "t2@2=1"),
    p.OffsetFetch(),
)
EVENTS: tuple[p.Event, ...] = (p.Tick(), p.Trigger(requested("t")), p.Unload("u"), p.Resume(0))


def late_sync() -> None:
    """i-2 asks for its assignment when b-3 has already joined for the next round."""
    desk = completing()
    desk.ask(sync("a-1", 2, {"a-1": "t0", "i-2": "t1"}))
    desk.ask(join("b-3", "b", meta="x"))
    desk.ask(sync("i-2", 2, instance="i"))


def last_one_missing_leaves() -> None:
    """The join phase ends when the one who is waited for leaves."""
    preparing().ask(leave("a-1"))


def nobody_comes_back() -> None:
    """Only a static member is left, absent; at the end of its session nobody."""
    desk = Desk()
    desk.ask(join("", "s", "i", session_timeout_ms=2_000))
    desk.ask(sync("i-1", 1, {}, "i"))
    desk.step(p.Trigger(requested("t")))
    desk.pass_to(2_000)


def expiry() -> None:
    """Sessions end in Stable; syncs are owed in CompletingRebalance."""
    stable().pass_to(500)
    completing().pass_to(500)


def two_protocols() -> None:
    """A static member comes back with a protocol list by which another would win, in each state with members."""
    for state in (PREPARING, COMPLETING, STABLE):
        desk = Desk()
        both = ("coop", "range")
        desk.ask(join("", "a", "h", protocols=("range", "coop")))
        desk.ask(join("", "s", "i", protocols=both))
        desk.ask(join("h-1", "a", "h", protocols=both))
        if state is not COMPLETING:
            desk.ask(sync("h-1", 2, {}, "h"))
        if state is PREPARING:
            desk.step(p.Trigger(requested("t")))
        assert desk.group.state is state
        desk.ask(join("", "s", "i", protocols=("range",)))


def overtaken() -> None:
    """A join comes after a later one of the same member, in each state with members."""
    desk = Desk()
    desk.ask(join("", "s", "i", attempt=2))
    desk.ask(join("i-1", "s", "i", attempt=1))
    desk.ask(sync("i-1", 1, {}, "i"))
    desk.ask(join("i-1", "s", "i", attempt=1))
    desk.step(p.Trigger(requested("t")))
    desk.ask(join("i-1", "s", "i", attempt=1))


STORIES: tuple[Callable[[], None], ...] = (
    overtaken,
    late_sync,
    last_one_missing_leaves,
    nobody_comes_back,
    expiry,
    two_protocols,
)


def test_every_cell_is_driven_or_known_to_be_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """All requests and events in all states, and six stories, look up every cell but the unreachable, and none of those."""
    driven: set[Cell] = set()
    watched = {state: Watched(state, driven) for state in GroupState}
    monkeypatch.setattr(g, "TABLE", watched)
    monkeypatch.setattr(rebalance, "TABLE", watched)
    for make in DESKS.values():
        for request in REQUESTS:
            make().ask(request)
        for event in EVENTS:
            make().step(event)
    for story in STORIES:
        story()
    unreachable = set().union(*UNREACHABLE.values())
    every = {(state, met) for state in GroupState for met in Input}
    assert driven & unreachable == set()
    assert every - driven == unreachable


def test_unreachable_cells_do_nothing() -> None:
    """Should one be reached after all, it would refuse or ignore, or park a sync as its neighbour does."""
    for state, met in set().union(*UNREACHABLE.values()):
        assert TABLE[state][met].effect in {Effect.REFUSE, Effect.IGNORE, Effect.PARK_SYNC, Effect.ANSWER_SYNC}
