"""The laws that hold at every step of a group, whoever drives it: a test by hand, a drawn script, the simulator.

Each check costs next to nothing when the step changed nothing that it is about.
"""

from __future__ import annotations

from sparkcohort.runtime import group as g
from sparkcohort.runtime.group import records as r
from sparkcohort.runtime.group.context import SIGNALS
from sparkcohort.runtime.group.state import Group
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.partitions import TopicPartition


class LawBroken(AssertionError):
    """A law doesn't hold: its name (see the design's table), what is wrong, and the members that it is about."""

    def __init__(self, law: str, what: str, members: tuple[str, ...] = ()) -> None:
        super().__init__(f"{law}: {what}")
        self.law, self.what, self.members = law, what, members


def check_step(before: Group, event: p.Event, decision: g.Decision) -> None:
    """I1, I4, I5, totality, that every refusal is counted, and that an event that is only refused changes nothing."""
    after = decision.group
    if isinstance(event, p.Received):
        _check_refusals(before, event, decision)
        if isinstance(event.request, p.OffsetCommit):
            _check_commit(before, event.request, decision)
    elif any(isinstance(a, p.Refused) for a in decision.actions):
        raise LawBroken("I5", "something was refused that nobody asked for")
    if after is before:
        return
    if after.generation < before.generation:
        raise LawBroken("I4", f"the generation went down from {before.generation} to {after.generation}")
    if after.owned is not before.owned:
        _check_owners(before, decision)
    _check_shape(after)


def _check_owners(before: Group, decision: g.Decision) -> None:
    """I1: one owner per partition, and it changes only when the owner gave the partition up, or is gone."""
    owners: dict[TopicPartition, str] = {}
    for member_id, partitions in decision.group.owned.items():
        for tp in partitions:
            if tp in owners:
                other = owners[tp]
                raise LawBroken(
                    "I1", f"{tp.topic}-{tp.partition} is owned by {other} and {member_id}", (other, member_id)
                )
            owners[tp] = member_id
    given_up = {
        (x.member_id, tp) for x in decision.records if isinstance(x, r.PartitionsRevoked) for tp in x.partitions
    }
    gone = {x.member_id for x in decision.records if isinstance(x, r.MemberRemoved)}
    gone |= {x.old_id for x in decision.records if isinstance(x, r.MemberReplaced)}
    if any(isinstance(x, r.GroupUnloaded) for x in decision.records):
        return
    for owner, partitions in before.owned.items():
        for tp in partitions:
            if owners.get(tp) != owner and owner not in gone and (owner, tp) not in given_up:
                raise LawBroken("I1", f"{tp.topic}-{tp.partition} was taken from {owner}", (owner,))


def _check_shape(after: Group) -> None:
    """What a group remembers is about its members, none of whom is without a timer."""
    members = after.members.keys()
    timed = after.sessions.keys() | after.joins.keys() | after.syncs.keys()
    if timed != members:
        raise LawBroken("timers", f"members {sorted(members)}, timers or parked requests of {sorted(timed)}")
    if not (after.owned.keys() <= members and after.unsynced <= members):
        raise LawBroken("shape", "something is remembered about somebody who is no member")
    if after.leader not in members if members else after.leader != "":
        raise LawBroken("shape", f"the leader is {after.leader!r}, the members are {sorted(members)}")


def _check_refusals(before: Group, event: p.Received, decision: g.Decision) -> None:
    own = [a.reply for a in decision.actions if isinstance(a, p.Answer) and a.correlation == event.correlation]
    errors = {error for reply in own for error in errors_of(reply)}
    refused = {a.error for a in decision.actions if isinstance(a, p.Refused)}
    if refused != errors - SIGNALS:
        raise LawBroken("I5", f"answered {_names(errors)}, counted {_names(refused)}")
    nothing_done = ErrorCode.NONE not in errors and errors and not errors & SIGNALS
    made_room = any(isinstance(x, r.MemberRemoved) for x in decision.records)
    if nothing_done and not made_room and (decision.records or decision.group != before):
        raise LawBroken("totality", f"a refused {type(event.request).__name__} changed the group")


def errors_of(reply: p.Reply) -> set[ErrorCode]:
    """All errors that a reply tells, of its parts if it has parts."""
    match reply:
        case p.OffsetCommitReply(partitions) if partitions:
            return {error for _tp, error in partitions}
        case p.OffsetCommitReply():
            return {ErrorCode.NONE}
        case p.LeaveGroupReply(error, members) if members:
            return {e for _m, e in members} | ({error} - {ErrorCode.NONE})
        case _:
            return {reply.error}


def _check_commit(before: Group, request: p.OffsetCommit, decision: g.Decision) -> None:
    """I5: accepted if and only if the member owns the partition since the generation that it states."""
    (reply,) = (a.reply for a in decision.actions if isinstance(a, p.Answer))
    assert isinstance(reply, p.OffsetCommitReply)
    who = request.member_id
    fenced = before.instances.get(request.group_instance_id) != who
    for position, (tp, error) in zip(request.offsets, reply.partitions, strict=True):
        since = g.owned(before, who).get(tp)
        owns = since is not None and since == position.assignment_generation and not fenced
        if (error is ErrorCode.NONE) != owns:
            verdict = "accepted" if error is ErrorCode.NONE else f"refused with {error.name}"
            stated = f"stated since {position.assignment_generation}, owned since {since}"
            raise LawBroken("I5", f"{who}'s commit of {tp.topic}-{tp.partition} was {verdict}: {stated}", (who,))
    accepted = {tp for tp, error in reply.partitions if error is ErrorCode.NONE}
    changed = {tp for tp, at in decision.group.committed.items() if before.committed.get(tp) != at}
    if not changed <= accepted <= set(decision.group.committed):
        raise LawBroken("I5", f"accepted {sorted(accepted)}, changed {sorted(changed)}", (who,))
    counted = sum(a.partitions for a in decision.actions if isinstance(a, p.Refused))
    if counted != sum(error is not ErrorCode.NONE for _tp, error in reply.partitions):
        raise LawBroken("I5", f"{counted} refusals were counted", (who,))


def _names(errors: set[ErrorCode]) -> str:
    return ", ".join(sorted(error.name for error in errors)) or "nothing"
