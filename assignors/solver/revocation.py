"""Two-step revocation: the rule of cooperative rebalancing (KIP-429), for every assignor: even ``range`` moves partitions cooperatively.

**A partition that moves is revoked in one generation and assigned in the next.**  A member that claims a partition may
be reading it, so no other member is assigned it.  The generation that takes it away assigns it to no member.  Its owner
revokes it and joins again; only then it is unclaimed.  Unclaimed partitions are assigned at once.  Partitions that stay
are never interrupted.  (Kafka: ``CooperativeStickyAssignor.adjustAssignment`` removes the partitions that are
*transferring ownership*.)

Kafka leaves it to the cooperative assignors; an eager one there needs that every member revokes everything before it joins.  Here the
leader adjusts every assignor's answer, a user's own, too; for a cooperative one it changes nothing.  A generation that takes anything from
a member that claims it is marked (``Adjusted.revokes``): a follow-up rebalance is due when it has revoked, and revoking generations in a
row back off (``leader.delayed_rebalance``, KIP-415).  The group holds against it by itself (``group.partition_ownership``): a partition is
its owner's until the owner no longer claims it.  The member does its part (``member.machine``): it revokes, then it joins again.

Invalid claims count, too: the claimant may be reading.  A partition with several claimants stays with its valid owner,
and goes to no other member.  t0-1 is to move from C0 to C1, which gets the unclaimed t0-2 at once:

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
    """Places that have a subscriber and no claim: they are assigned at once."""
    mask: Bools = ownership.space.has_subscriber & (ownership.claimed == NO_MEMBER)
    return mask


def transferring_ownership(target: Packed, ownership: Ownership) -> Bools:
    """Places that ``target`` assigns to one member while another claims them: the other one has to revoke them first."""
    taker, claimed = target.member, ownership.claimed
    mask: Bools = (taker >= 0) & (claimed != NO_MEMBER) & (claimed != taker) & (ownership.member != taker)
    return mask


def adjust_assignment(target: Assignment, ownership: Ownership) -> Packed:
    """This generation's part of ``target``: places that transfer ownership have no member until the follow-up rebalance."""
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
    """The part of an assignment for this generation, and whether it takes partitions from their owners."""

    assignment: Packed
    revokes: bool


def adjust_for_generation(target: Packed, ownership: Ownership) -> Adjusted:
    """This generation's part of ``target``, and whether the generation revokes."""
    assignment = adjust_assignment(target, ownership)
    return Adjusted(assignment, bool(((ownership.member >= 0) & (assignment.member != ownership.member)).any()))
