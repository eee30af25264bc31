"""Request by state: the answers that Kafka's classic group gives, and that no combination is left out."""

from __future__ import annotations

import pytest

from sparkcohort.runtime import group as g
from sparkcohort.runtime.group.table import LEGAL_PREVIOUS, TABLE, Effect, GroupState, Input, diagram
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.reasons import requested
from tests.kit.group_desk import DESKS, beat, commit, join, leave, sync

STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")
PARKED = "parked"
GONE = "NOT_COORDINATOR"
UNKNOWN = "UNKNOWN_MEMBER_ID"
REBALANCING = "REBALANCE_IN_PROGRESS"
STALE = "ILLEGAL_GENERATION"
FENCED = "FENCED_INSTANCE_ID"
OTHER = "INCONSISTENT_GROUP_PROTOCOL"


# What is asked; the answer in Empty, PreparingRebalance, CompletingRebalance, Stable, Dead.  {g}: the group's generation.
ANSWERS: dict[str, tuple[p.Request, tuple[str, ...]]] = {
    "join, newcomer": (join(client="c"), ("NONE", PARKED, PARKED, PARKED, GONE)),
    "join, takeover": (join(client="s", instance="i"), ("NONE", PARKED, PARKED, "NONE", GONE)),
    "join, takeover, other topics": (join(client="s", instance="i", meta="x"), ("NONE", PARKED, PARKED, PARKED, GONE)),
    "join, id never issued": (join("x-9"), (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, GONE)),
    "join, follower unchanged": (join("b-3", "b"), (UNKNOWN, PARKED, "NONE", "NONE", GONE)),
    "join, follower changed": (join("b-3", "b", meta="x"), (UNKNOWN, PARKED, PARKED, PARKED, GONE)),
    "join, leader unchanged": (join("a-1", "a"), (UNKNOWN, "NONE", "NONE", PARKED, GONE)),
    "join, leader changed": (join("a-1", "a", meta="x"), (UNKNOWN, "NONE", PARKED, PARKED, GONE)),
    "join, fenced static": (join("b-3", "b", "i"), (UNKNOWN, FENCED, FENCED, FENCED, GONE)),
    "join, unknown instance": (join("b-3", "b", "j"), (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, GONE)),
    "join, no common protocol": (join("b-3", protocols=("x",)), (UNKNOWN, OTHER, OTHER, OTHER, GONE)),
    "join, takeover, no common protocol": (join("", "s", "i", protocols=("x",)), ("NONE", OTHER, OTHER, OTHER, GONE)),
    "join, no protocol": (join("b-3", protocols=()), (OTHER, OTHER, OTHER, OTHER, GONE)),
    "join, static id of another": (join("a-1", "a", "i"), (UNKNOWN, FENCED, FENCED, FENCED, GONE)),
    "join, session too short": (join("b-3", session_timeout_ms=0), ("INVALID_SESSION_TIMEOUT",) * 4 + (GONE,)),
    "join, session before protocols": (
        join("b-3", protocols=(), session_timeout_ms=0),
        ("INVALID_SESSION_TIMEOUT",) * 4 + (GONE,),
    ),
    "join, session too long": (join("b-3", session_timeout_ms=2_000_000), ("INVALID_SESSION_TIMEOUT",) * 4 + (GONE,)),
    "sync, follower": (sync("b-3", 2), (UNKNOWN, REBALANCING, PARKED, "NONE", GONE)),
    "sync, leader": (sync("a-1", 2), (UNKNOWN, REBALANCING, "NONE", "NONE", GONE)),
    "sync, unknown": (sync("x-9", 2), (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, GONE)),
    "sync, fenced": (sync("b-3", 2, instance="i"), (UNKNOWN, FENCED, FENCED, FENCED, GONE)),
    "sync, fenced before unknown": (sync("x-9", 9, instance="i"), (UNKNOWN, FENCED, FENCED, FENCED, GONE)),
    "sync, old generation": (sync("b-3", 1), (UNKNOWN, STALE, STALE, STALE, GONE)),
    "heartbeat": (beat("b-3", 2), (UNKNOWN, REBALANCING, "NONE", "NONE", GONE)),
    "heartbeat, unknown": (beat("x-9", 2), (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, GONE)),
    "heartbeat, fenced": (beat("b-3", 2, "i"), (UNKNOWN, FENCED, FENCED, FENCED, GONE)),
    "heartbeat, future generation": (beat("b-3", 3), (UNKNOWN, STALE, STALE, STALE, GONE)),
    "heartbeat, unknown before stale": (beat("x-9", 9), (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, GONE)),
    "leave": (leave("b-3"), (UNKNOWN, "NONE", "NONE", "NONE", GONE)),
    "leave, unknown": (leave("x-9"), (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, GONE)),
    "leave, instance id alone": (p.LeaveGroup((p.LeavingMember("", "i"),)), (UNKNOWN, FENCED, FENCED, FENCED, GONE)),
    "leave, fenced": (p.LeaveGroup((p.LeavingMember("b-3", "i"),)), (UNKNOWN, FENCED, FENCED, FENCED, GONE)),
    "leave, nobody named": (p.LeaveGroup((p.LeavingMember("", ""),)), (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, GONE)),
    "commit, owned": (commit("b-3", 2, "t2@2=7"), (UNKNOWN, "NONE", STALE, "NONE", GONE)),
    "commit, not owned": (commit("b-3", 2, "t0@2=7"), (UNKNOWN, STALE, STALE, STALE, GONE)),
    "commit, fenced": (commit("b-3", 2, "t2@2=7", instance="i"), (UNKNOWN, FENCED, FENCED, FENCED, GONE)),
    "commit, unknown": (commit("x-9", 2, "t2@2=7"), (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, GONE)),
    "commit, no member": (commit("", -1, "t2@-1=7"), (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, GONE)),
    "commit, no member but a generation": (commit("", 2, "t2@2=7"), (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, GONE)),
    "commit, no member but an instance": (
        commit("", -1, "t2@2=7", instance="i"),
        (UNKNOWN, FENCED, FENCED, FENCED, GONE),
    ),
    "fetch": (p.OffsetFetch(), ("NONE",) * 4 + (GONE,)),
}
CASES = [
    (what, state, answer)
    for what, (_r, answers) in ANSWERS.items()
    for state, answer in zip(STATES, answers, strict=True)
]


@pytest.mark.parametrize(("what", "state", "answer"), CASES)
def test_request_by_state(what: str, state: str, answer: str) -> None:
    """Each request gets the error that Kafka gives in that state, or is parked."""
    desk = DESKS[state]()
    assert desk.group.state == state
    correlation = desk.ask(ANSWERS[what][0])
    if answer == PARKED:
        assert correlation in {*desk.group.joins.values(), *desk.group.syncs.values()}
    else:
        reply = desk.replies[correlation]
        assert _error(reply) == answer


def _error(reply: p.Reply) -> str:
    match reply:
        case p.OffsetCommitReply(partitions):
            return partitions[0][1].name
        case p.LeaveGroupReply(error, members):
            return members[0][1].name if members else error.name
        case _:
            return reply.error.name


@pytest.mark.parametrize("state", STATES)
def test_every_partition_of_a_refused_commit_is_counted(state: str) -> None:
    """A commit that the state refuses is refused partition by partition."""
    desk = DESKS[state]()
    reply = desk.tell(commit("x-9", 2, "t0@2=1", "t1@2=1"))
    assert isinstance(reply, p.OffsetCommitReply)
    refused = [a.partitions for a in desk.actions if isinstance(a, p.Refused)]
    assert (len(reply.partitions), refused) == (2, [2])


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    "event",
    [p.Tick(), p.Trigger(requested("topics changed")), p.Unload("fenced"), p.Resume(40)],
    ids=lambda e: type(e).__name__,
)
def test_inner_events_by_state(state: str, event: p.Event) -> None:
    """Time, a trigger and an unload have an outcome in every state, and a tick before its time changes nothing."""
    desk = DESKS[state]()
    before = desk.group
    desk.step(event)
    match event:
        case p.Tick():
            assert desk.group == before
        case p.Trigger():
            starts = state in {"CompletingRebalance", "Stable"}
            assert desk.group.state == ("PreparingRebalance" if starts else state)
        case p.Unload():
            assert desk.group.state == "Dead"
            assert not desk.group.members
        case p.Resume():
            assert desk.group.state == ("PreparingRebalance" if before.members else "Empty")
            assert desk.group.members == before.members
            assert desk.group.owned == before.owned
            assert not {*desk.group.joins, *desk.group.syncs}
            assert set(desk.pushed()) == set(before.members)


def test_unload_answers_everyone() -> None:
    """Whoever is parked when the group is given up is told NOT_COORDINATOR."""
    desk = DESKS["PreparingRebalance"]()
    parked = dict(desk.group.joins)
    desk.step(p.Unload("fenced"))
    assert parked
    assert all(desk.joined(c).error.name == "NOT_COORDINATOR" for c in parked.values())
    desk = DESKS["CompletingRebalance"]()
    parked_sync = desk.ask(sync("b-3", 2))
    desk.step(p.Unload("fenced"))
    assert desk.synced(parked_sync).error.name == "NOT_COORDINATOR"


def test_table_is_total() -> None:
    """Every state has a row for every input, and every refusal names its error."""
    for state in GroupState:
        assert set(TABLE[state]) == set(Input)
        for row in TABLE[state].values():
            if row.effect in {Effect.REFUSE, Effect.SIGNAL}:
                assert row.error != 0
                assert row.next_state is None


def test_table_makes_legal_transitions_only() -> None:
    """The table's targets are exactly the transitions that Kafka's group allows, but for Dead to Dead."""
    seen = {
        (state, row.next_state) for state, rows in TABLE.items() for row in rows.values() if row.next_state is not None
    }
    legal = {(before, after) for after, befores in LEGAL_PREVIOUS.items() for before in befores}
    assert seen - {(s, s) for s in GroupState} == legal - {(s, s) for s in GroupState}


def test_diagram_shows_every_transition() -> None:
    """The diagram is drawn from the table."""
    drawn = diagram()
    assert drawn.startswith("stateDiagram-v2")
    for state, rows in TABLE.items():
        for met, row in rows.items():
            if row.next_state is not None and row.next_state is not state:
                line = next(x for x in drawn.splitlines() if x.strip().startswith(f"{state} --> {row.next_state}:"))
                assert met.name in line


def test_a_refused_request_tells_why() -> None:
    """A zombie's refusal carries what became of it."""
    desk = DESKS["Stable"]()
    desk.ask(leave("b-3"))
    reply = desk.tell(beat("b-3", 2))
    assert isinstance(reply, p.HeartbeatReply)
    assert reply.message == "no member has instance id b: it left, in generation 2"
    assert g.deadline(desk.group) is not None
