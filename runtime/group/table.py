"""The group's transition table, as data, and what the table can't say.

Kafka's classic group has five states, and what arrives is one of the inputs below: a request, classified by what it
asks of *this* group (a join may be a newcomer's, a repetition, a change, a takeover), or something that
happened inside (members went, the join phase ended).  A cell of the table holds the effect to run, the state that
the effect enters, and the error of its answer.  ``group.step`` classifies, looks up, and runs the effect; nothing
else chooses.  Every (state, input) has a cell: no combination is left to chance.  (Kafka: ``ClassicGroupState``.)

What the table can't say:

* **The gate comes first.**  A request's sender is checked in one place before the table is consulted: instance id with its
  member id, generation, in this order (``fencing.gate``).  So a row for a member's request only ever meets a member.
* **Every member is static** (KIP-345): an executor's agent and the driver have an instance id each, and keep their slot in
  the group over a restart.
* **The join phase ends itself.**  ``ALL_JOINED`` follows in the same step as the join, leave or expiry that made it
  true: every member waits in its join.  At the rebalance timeout the phase ends by force: members that did not come back
  are kept until their sessions end; when only such members are left, the phase goes on until one comes or the last is gone.
* **Generations.**  They rise by one with ``ALL_JOINED`` and ``NONE_LEFT`` and never otherwise: a member that
  takes its slot back in Stable changes nothing for the others.
* **Parked is alive.**  A member whose join or sync is unanswered has no session deadline; its answer arms it again.
  Only a newcomer that has never been answered has one (five minutes).
* **Asked again.**  A member whose connection broke asks again under its id: the new request is parked, the old one
  answered REBALANCE_IN_PROGRESS, so that every request is answered exactly once.
* **A join that was overtaken is void.**  A join tells what its member holds, and whatever it doesn't name is free.  One
  that comes after a later one of the same member, or twice, would take from the member what it has been given since.
* **A coordinator that ends for good** unloads its group (``Unload``): parked requests and all that come later are answered
  NOT_COORDINATOR.  One that may be started again doesn't: its group goes on in the next run.
* **A new coordinator** (``Resume``) is no transition but a beginning: it has the whole group from the journal, but none of
  the connections, and another clock.  Parked requests are void, sessions begin again, owners stay owners, and all
  members rejoin, whatever the state was.
* **Where Kafka answers otherwise** stands in ``DIFFERENCES``, with the reason; a cell that is meant names its entry.
* **An assignment is not ownership.**  What the leader gives to one member while another still owns it is not granted.
* **A signal is not a refusal.**  REBALANCE_IN_PROGRESS tells the member what to do next; all other errors are refusals
  and are counted.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from sparkcohort.runtime.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping


class GroupState(StrEnum):
    """The states of a classic group, by Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Input(StrEnum):
    """What a group can meet: a request classified by what it asks, or something that happened inside."""

    JOIN_NEW = "JoinGroup: newcomer"
    JOIN_SAME = "JoinGroup: follower, metadata unchanged"
    JOIN_LEADER = "JoinGroup: leader, metadata unchanged"
    JOIN_CHANGED = "JoinGroup: metadata changed"
    JOIN_LATE = "JoinGroup: a later one of the member came first"
    TAKEOVER = "JoinGroup: member back without its id"
    TAKEOVER_CHANGED = "JoinGroup: member back without its id, another protocol would win, or it wants something else"
    SYNC = "SyncGroup: follower"
    SYNC_LATE = "SyncGroup: follower, the next join phase has begun"
    SYNC_LEADER = "SyncGroup: leader"
    HEARTBEAT = "Heartbeat"
    LEAVE = "LeaveGroup"
    COMMIT = "OffsetCommit: of a member"
    FETCH = "OffsetFetch"
    TRIGGER = "Trigger: a rebalance is asked for"
    MEMBERS_GONE = "members left, expired or did not sync"
    ALL_JOINED = "join phase over"
    NONE_LEFT = "join phase over, no member left"
    UNLOAD = "Unload: the coordinator gives the group up"


class Effect(StrEnum):
    """What is done; ``group`` and ``rebalance`` hold one function for each."""

    REFUSE = "refuse"
    SIGNAL = "signal"
    IGNORE = "ignore"
    ADD = "add, park"
    ADD_AND_START = "add, start rebalance, park"
    PARK = "update, park"
    UPDATE_AND_START = "update, start rebalance, park"
    ANSWER_JOIN = "answer current generation"
    TAKE_OVER = "fence predecessor, answer current generation"
    TAKE_OVER_AND_PARK = "fence predecessor, park"
    TAKE_OVER_AND_START = "fence predecessor, start rebalance, park"
    PARK_SYNC = "park"
    STORE_ASSIGNMENT = "store assignment, answer all"
    ANSWER_SYNC = "answer assignment"
    ANSWER_LATE_SYNC = "answer assignment, tell to rejoin"
    RESET_SESSION = "reset session"
    LEAVE = "remove each"
    COMMIT = "judge each partition"
    FETCH = "answer offsets"
    START = "start rebalance"
    CHECK_JOINED = "end the join phase if all have joined"
    COMPLETE_JOIN = "raise generation, answer all joins"
    EMPTY_OUT = "raise generation"
    UNLOAD = "answer all parked, forget members"


class Row(NamedTuple):
    """One cell: the effect, the state it enters (None: stays), the error of its answer.

    ``differs`` names the entry of ``DIFFERENCES`` if Kafka does something else here.
    """

    effect: Effect
    next_state: GroupState | None = None
    error: ErrorCode = ErrorCode.NONE
    differs: str = ""


class Difference(NamedTuple):
    """Where this group answers otherwise than Kafka's, on purpose."""

    kafka: str
    cohort: str
    reason: str


DIFFERENCES: Mapping[str, Difference] = {
    "static members only": Difference(
        "A member without an instance id is dynamic: it gets its id by MEMBER_ID_REQUIRED (KIP-394) and is removed when it has "
        "not rejoined within the rebalance timeout.",
        "Every request of a member has an instance id; one that stops leaves the group all the same.",
        "An executor's agent that crashes and is started again keeps its partitions, without a rebalance.",
    ),
    "commits per partition": Difference(
        "A commit states the group's generation; ILLEGAL_GENERATION if it is another, REBALANCE_IN_PROGRESS in "
        "CompletingRebalance.",
        "Each partition is judged by its owner and its assignment generation, in every state with members.",
        "Commits of partitions that stay never fail while others move, and a zombie's always do; Kafka answers the "
        "complaints about its own rule with KIP-1251, for its newer protocol only.",
    ),
    "late sync": Difference(
        "A SyncGroup in PreparingRebalance is answered REBALANCE_IN_PROGRESS.",
        "If its member has not rejoined yet, it gets the assignment stored for its generation, and a push to rejoin.",
        "It gives up in this round what it must. Else it would claim everything once more, which costs one more round.",
    ),
    "asked again": Difference(
        "A second JoinGroup or SyncGroup of a member replaces its parked one, which may never be answered.",
        "The earlier one is answered REBALANCE_IN_PROGRESS.",
        "Every request is answered exactly once: no thread of the server waits for ever.",
    ),
    "a slot in a full group": Difference(
        "A static member that comes back without its id to a full group is answered GROUP_MAX_SIZE_REACHED.",
        "It takes its slot over.",
        "The group doesn't grow by it.",
    ),
    "one group": Difference(
        "Requests name their group and its protocol type: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, COORDINATOR_LOAD_IN_PROGRESS "
        "are possible, as is INCONSISTENT_GROUP_PROTOCOL for another type.",
        "A coordinator has one group, of consumers, and serves no request before it has it.",
        "The port, its certificates and its token belong to one run of one query.",
    ),
    "failover": Difference(
        "The log has Stable and Empty groups only; a rebalance in flight is lost, a Stable group stays in its generation.",
        "The journal has everything; the new coordinator's members all rejoin, into a higher generation.",
        "Nothing that was answered is forgotten, and what the old coordinator may still answer is of an old generation.",
    ),
    "member ids": Difference(
        "A random UUID follows the client id or instance id.",
        "The run's salt and a number follow it.",
        "The core knows no chance: the same events give the same ids, in the simulator and in a replay.",
    ),
    "positions answered from the plan": Difference(
        "OffsetFetch answers the committed offset of each partition (OffsetFetchRequest).",
        "An executor's OffsetFetch is answered with the end of what is planned, if anything of the partition is; the core "
        "itself answers what was committed.",
        "A batch that is planned belongs to its tasks: a member that fetches ahead starts behind it, else it is read twice.",
    ),
    "an owner for each partition": Difference(
        "The coordinator doesn't look into assignments; each member revokes by itself (KIP-429), and two may own a partition.",
        "The coordinator reads them: what another member still owns is not granted before its owner no longer claims it, or is "
        "gone.",
        "A leader that gives a partition away too early does no harm.",
    ),
    "cooperative whatever the assignor": Difference(
        "With an eager assignor (range, roundrobin, sticky) every member revokes everything before it joins.",
        "Members keep what they own; the leader takes out of any assignor's answer what another member has to revoke first "
        "(CooperativeStickyAssignor.adjustAssignment).",
        "No member stops reading because another comes or goes.",
    ),
    "numbered joins": Difference(
        "A JoinGroup has no number: the one that arrives last counts.",
        "A member numbers its joins; one that was overtaken by a later one is answered REBALANCE_IN_PROGRESS.",
        "A join names what its member owns. An old one would take from it what it has been assigned since.",
    ),
    "a member that lost its answer": Difference(
        "A follower that joins again with the same metadata in Stable gets the current generation again.",
        "If it doesn't claim what it owns since an earlier generation, a rebalance starts.",
        "It has lost those partitions, and no other member would ever be assigned them.",
    ),
    "a slot with another subscription": Difference(
        "A static member that is back in Stable gets its old assignment if the same protocol would be chosen (KIP-345).",
        "Only if it subscribes to the same, too, and its predecessor was not about to revoke; else a rebalance follows.",
        "It would own what it doesn't read, and not own what it wants, until the next rebalance.",
    ),
    "delayed rebalance": Difference(
        "Consumer groups assign what a member had at once; only Connect waits (KIP-415, IncrementalCooperativeAssignor).",
        "What a member had that is gone waits for scheduled.rebalance.max.delay.ms, or until as many members are there as "
        "before; rounds that revoke in a row back off (KAFKA-12495).",
        "An executor that is replaced gets what its predecessor had: nothing moves twice.",
    ),
    "barred partitions": Difference(
        "A member whose broker connection is cut keeps its partitions as long as its heartbeats arrive.",
        "It is barred from partitions whose leader answers others and not it: the leader of the group assigns them to others.",
        "Heartbeats go to the coordinator and tell nothing of the way to the brokers.",
    ),
    "the driver leads": Difference(
        "The member that joined first leads; any member may become the leader.",
        "The driver's own member joins first, subscribes to nothing and leads; no other process may use its instance id.",
        "It knows the topics, the plans and the loads. It ends with the group, so no other member has to take over.",
    ),
    "bounds of a join": Difference(
        "Metadata are bytes that the coordinator doesn't read (ConsumerProtocol), within the broker's size of a request.",
        "They are fields with bounds. Protocols beyond the group's are left out of a join; one whose names can't be printed is "
        "refused.",
        "One member that has gone mad must not break the assignor for all others.",
    ),
}


_EMPTY, _PREPARING, _COMPLETING, _STABLE, _DEAD = GroupState
_UNKNOWN = Row(Effect.REFUSE, error=ErrorCode.UNKNOWN_MEMBER_ID)
_UNLOADED = Row(Effect.REFUSE, error=ErrorCode.NOT_COORDINATOR)
_REBALANCING = Row(Effect.SIGNAL, error=ErrorCode.REBALANCE_IN_PROGRESS)
_LATE_JOIN = Row(Effect.SIGNAL, error=ErrorCode.REBALANCE_IN_PROGRESS, differs="numbered joins")
_IGNORE = Row(Effect.IGNORE)
_PARK = Row(Effect.PARK, differs="asked again")
_RESTART = Row(Effect.UPDATE_AND_START, _PREPARING)
_START = Row(Effect.START, _PREPARING)
_COMMIT = Row(Effect.COMMIT, differs="commits per partition")
_PARK_SYNC = Row(Effect.PARK_SYNC, differs="asked again")
_EVERYWHERE = {
    Input.LEAVE: Row(Effect.LEAVE),
    Input.FETCH: Row(Effect.FETCH),
    Input.UNLOAD: Row(Effect.UNLOAD, _DEAD),
}
_NOT_JOINING = {Input.ALL_JOINED: _IGNORE, Input.NONE_LEFT: _IGNORE}

TABLE: Mapping[GroupState, Mapping[Input, Row]] = {
    _EMPTY: {
        **dict.fromkeys(Input, _UNKNOWN),  # no sender is a member
        **_EVERYWHERE,
        **_NOT_JOINING,
        Input.JOIN_NEW: Row(Effect.ADD_AND_START, _PREPARING),
        Input.TRIGGER: _IGNORE,
        Input.MEMBERS_GONE: _IGNORE,
    },
    _PREPARING: {
        **_EVERYWHERE,
        Input.JOIN_NEW: Row(Effect.ADD),
        Input.JOIN_SAME: _PARK,
        Input.JOIN_LEADER: _PARK,
        Input.JOIN_CHANGED: _PARK,
        Input.JOIN_LATE: _LATE_JOIN,
        Input.TAKEOVER: Row(Effect.TAKE_OVER_AND_PARK),
        Input.TAKEOVER_CHANGED: Row(Effect.TAKE_OVER_AND_PARK),
        Input.SYNC: _REBALANCING,
        Input.SYNC_LATE: Row(Effect.ANSWER_LATE_SYNC, differs="late sync"),
        Input.SYNC_LEADER: _REBALANCING,
        Input.HEARTBEAT: Row(Effect.RESET_SESSION, error=ErrorCode.REBALANCE_IN_PROGRESS),
        Input.COMMIT: _COMMIT,
        Input.TRIGGER: _IGNORE,
        Input.MEMBERS_GONE: Row(Effect.CHECK_JOINED),
        Input.ALL_JOINED: Row(Effect.COMPLETE_JOIN, _COMPLETING),
        Input.NONE_LEFT: Row(Effect.EMPTY_OUT, _EMPTY),
    },
    _COMPLETING: {
        **_EVERYWHERE,
        **_NOT_JOINING,
        Input.JOIN_NEW: Row(Effect.ADD_AND_START, _PREPARING),
        Input.JOIN_SAME: Row(Effect.ANSWER_JOIN),
        Input.JOIN_LEADER: Row(Effect.ANSWER_JOIN),
        Input.JOIN_CHANGED: _RESTART,
        Input.JOIN_LATE: _LATE_JOIN,
        Input.TAKEOVER: Row(Effect.TAKE_OVER_AND_START, _PREPARING),
        Input.TAKEOVER_CHANGED: Row(Effect.TAKE_OVER_AND_START, _PREPARING),
        Input.SYNC: _PARK_SYNC,
        Input.SYNC_LATE: _PARK_SYNC,
        Input.SYNC_LEADER: Row(Effect.STORE_ASSIGNMENT, _STABLE),
        Input.HEARTBEAT: Row(Effect.RESET_SESSION),
        Input.COMMIT: _COMMIT,
        Input.TRIGGER: _START,
        Input.MEMBERS_GONE: _START,
    },
    _STABLE: {
        **_EVERYWHERE,
        **_NOT_JOINING,
        Input.JOIN_NEW: Row(Effect.ADD_AND_START, _PREPARING),
        Input.JOIN_SAME: Row(Effect.ANSWER_JOIN),
        Input.JOIN_LEADER: _RESTART,
        Input.JOIN_CHANGED: _RESTART,
        Input.JOIN_LATE: _LATE_JOIN,
        Input.TAKEOVER: Row(Effect.TAKE_OVER),
        Input.TAKEOVER_CHANGED: Row(Effect.TAKE_OVER_AND_START, _PREPARING, differs="a slot with another subscription"),
        Input.SYNC: Row(Effect.ANSWER_SYNC),
        Input.SYNC_LATE: Row(Effect.ANSWER_SYNC),
        Input.SYNC_LEADER: Row(Effect.ANSWER_SYNC),
        Input.HEARTBEAT: Row(Effect.RESET_SESSION),
        Input.COMMIT: _COMMIT,
        Input.TRIGGER: _START,
        Input.MEMBERS_GONE: _START,
    },
    _DEAD: {
        **dict.fromkeys(Input, _UNLOADED),  # Kafka: a group that was unloaded is no longer here
        **_NOT_JOINING,
        Input.TRIGGER: _IGNORE,
        Input.MEMBERS_GONE: _IGNORE,
        Input.UNLOAD: _IGNORE,
    },
}

LEGAL_PREVIOUS: Mapping[GroupState, frozenset[GroupState]] = {
    _EMPTY: frozenset({_PREPARING}),
    _PREPARING: frozenset({_EMPTY, _STABLE, _COMPLETING}),
    _COMPLETING: frozenset({_PREPARING}),
    _STABLE: frozenset({_COMPLETING}),
    _DEAD: frozenset({_EMPTY, _PREPARING, _COMPLETING, _STABLE, _DEAD}),
}


def diagram() -> str:
    """The states and what moves the group between them, as Mermaid text (docs are compared with it by a test)."""
    lines = ["stateDiagram-v2", "    [*] --> Empty"]
    for state, rows in TABLE.items():
        targets: dict[GroupState, list[str]] = {}
        for input_, row in rows.items():
            if row.next_state is not None and row.next_state is not state:
                targets.setdefault(row.next_state, []).append(input_.name)
        lines += [f"    {state} --> {next_state}: {', '.join(names)}" for next_state, names in targets.items()]
    return "\n".join(lines) + "\n"
