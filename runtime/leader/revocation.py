"""Two-step revocation (KIP-429), as the leader keeps it whatever the assignor: even ``range`` moves partitions cooperatively.

The rule is ``assignors.solver.revocation``: *a partition that moves is revoked in one generation and assigned in the
next; what nobody claims is assigned at once*.  Kafka leaves it to the cooperative assignors; an eager one there needs
that every member revokes everything before it joins.  What is added here:

* **Every assignor's answer is adjusted**, a user's own and the eager ones, too.  For a cooperative assignor, which has
  done so itself, it changes nothing.
* **A generation that takes anything from a member that claims it is known as one** (``Adjusted.revokes``): a follow-up
  rebalance is due when it has revoked, and revoking generations in a row back off (see ``delayed_rebalance``, KIP-415).
* **A generation in which nobody revokes** (``delayed_rebalance`` waits for somebody) assigns ``unclaimed`` only.

The group holds against it by itself (``group.partition_ownership``): whatever a leader assigns, a partition is its
owner's until the owner no longer claims it.  And the member does its part (``member.machine``): it revokes, then it joins again.
"""

from __future__ import annotations

from typing import NamedTuple

from sparkcohort.assignors.solver.ownership import Ownership
from sparkcohort.assignors.solver.packed import Packed
from sparkcohort.assignors.solver.revocation import adjust_assignment, unclaimed

__all__ = ["Adjusted", "adjusted", "unclaimed"]


class Adjusted(NamedTuple):
    """What of an assignment comes into force in this generation, and whether it takes partitions from their owners."""

    assignment: Packed
    revokes: bool


def adjusted(target: Packed, ownership: Ownership) -> Adjusted:
    """This generation's part of what the assignor wants."""
    assignment = adjust_assignment(target, ownership)
    return Adjusted(assignment, bool(((ownership.member >= 0) & (assignment.member != ownership.member)).any()))
