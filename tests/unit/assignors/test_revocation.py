"""The rule of cooperative rebalancing, as the leader keeps it: revoked in one generation, assigned in the next."""

from __future__ import annotations

from sparkcohort.assignors import MemberSubscription
from sparkcohort.assignors.api import Assignment
from sparkcohort.assignors.solver.ownership import resolve_ownership
from sparkcohort.assignors.solver.packed import pack
from sparkcohort.assignors.solver.revocation import Adjusted, adjust_for_generation


def adjust(target: Assignment, **owned: tuple[int, ...]) -> Adjusted:
    """What comes into force of a target, in a topic of four partitions."""
    members = {name: MemberSubscription(("t",), tuple(("t", n) for n in held), 1) for name, held in owned.items()}
    ownership = resolve_ownership({"t": 4}, members)
    packed = pack(ownership.space, target)
    assert packed is not None
    return adjust_for_generation(packed, ownership)


def test_what_moves_is_revoked_first_and_what_nobody_claims_is_assigned_at_once() -> None:
    """In the first generation t-1 is nobody's, and t-2 and t-3 go where they belong; then t-1 does."""
    target: Assignment = {"a": (("t", 0), ("t", 2)), "b": (("t", 1), ("t", 3))}
    first = adjust(target, a=(0, 1), b=())
    assert first == Adjusted(first.assignment, revokes=True)
    assert first.assignment == {"a": (("t", 0), ("t", 2)), "b": (("t", 3),)}
    then = adjust(target, a=(0, 2), b=(3,))
    assert (dict(then.assignment), then.revokes) == (target, False)


def test_a_claim_that_is_not_valid_holds_the_partition_back_from_all_but_its_owner() -> None:
    """Both claim t-1 in the same generation: nobody owns it, either may be reading it, so neither gets it now."""
    target: Assignment = {"a": (("t", 1),), "b": (("t", 0), ("t", 2), ("t", 3))}
    both = adjust(target, a=(1,), b=(1,))
    assert both.assignment["a"] == ()
    assert not both.revokes
