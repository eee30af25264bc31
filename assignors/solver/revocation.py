"""Two-step revocation: the rule of cooperative rebalancing (KIP-429), for every assignor: even ``range`` moves partitions cooperatively.

**A partition that moves is revoked in one generation and assigned in the next.**  As long as a member claims a partition
it may be reading it, so nobody else is given it: the generation that takes it away assigns it to nobody, its owner
revokes it and joins again, and only then it is unclaimed.  What is unclaimed is assigned at once, and what stays is
never interrupted.  (Kafka: ``CooperativeStickyAssignor.adjustAssignment``, which removes the partitions that are
*transferring ownership*.)

Kafka leaves it to the cooperative assignors; an eager one there needs that every member revokes everything before it joins.  Here the
leader adjusts every assignor's answer, a user's own, too; for a cooperative one it changes nothing.  A generation that takes anything from
a member that claims it is marked (``Adjusted.revokes``): a follow-up rebalance is due when it has revoked, and revoking generations in a
row back off (``leader.delayed_rebalance``, KIP-415).  The group holds against it by itself (``group.partition_ownership``): a partition is
its owner's until the owner no longer claims it.  The member does its part (``member.machine``): it revokes, then it joins again.

A claim counts whether it is valid or not: whoever claims by mistake may be reading all the same.  Only its valid owner
keeps a partition that somebody else claims, too.  t0-1 is to move from C0 to C1, which gets the unclaimed t0-2 at once:

>>> from sparkcohort.assignors.api import MemberSubscription
>>> from sparkcohort.assignors.solver.ownership import resolve_ownership
>>> members = {
...     "C0": MemberSubscription(("t0",), (("t0", 0), ("t0", 1)), 5),
...     "C1": MemberSubscription(("t0",), (), 4),
... }
>>> target = {"C0": (("t0", 0),), "C1": (("t0", 1), ("t0", 2))}
>>> adjust_assignment(target, resolve_ownership({"t0": 3}, members))
{'C0': (('t0', 0),), 'C1': (('t0', 2),)}
"""

from __future__ import annotations

from typing import NamedTuple

from sparkcohort.assignors.api import Assignment
from sparkcohort.assignors.solver.ownership import Ownership
from sparkcohort.assignors.solver.packed import Packed, pack
from sparkcohort.assignors.solver.space import NO_MEMBER, Bools


def unclaimed(ownership: Ownership) -> Bools:
    """Places that somebody wants and nobody claims: they are assigned at once."""
    mask: Bools = ownership.space.has_subscriber & (ownership.claimed == NO_MEMBER)
    return mask


def transferring_ownership(target: Packed, ownership: Ownership) -> Bools:
    """Places that ``target`` gives to one member while another still claims them: that one has to revoke them first."""
    taker, claimed = target.member, ownership.claimed
    mask: Bools = (taker >= 0) & (claimed != NO_MEMBER) & (claimed != taker) & (ownership.member != taker)
    return mask


def adjust_assignment(target: Assignment, ownership: Ownership) -> Packed:
    """This generation's part of ``target``: what is transferring ownership goes to nobody until the follow-up rebalance."""
    packed = target if isinstance(target, Packed) and target.space is ownership.space else pack(ownership.space, target)
    if packed is None:
        raise ValueError("only an assignment of these topics to these members can be handed over")
    transferring = transferring_ownership(packed, ownership)
    if not transferring.any():
        return Packed(packed.space, packed.member, ownership)
    member = packed.member.copy()
    member[transferring] = NO_MEMBER
    return Packed(packed.space, member, ownership)


class Adjusted(NamedTuple):
    """What of an assignment comes into force in this generation, and whether it takes partitions from their owners."""

    assignment: Packed
    revokes: bool


def adjust_for_generation(target: Packed, ownership: Ownership) -> Adjusted:
    """This generation's part of what the assignor wants, and whether the generation revokes."""
    assignment = adjust_assignment(target, ownership)
    return Adjusted(assignment, bool(((ownership.member >= 0) & (assignment.member != ownership.member)).any()))
