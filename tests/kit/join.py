"""A membership of the real Kafka group that has joined."""

from __future__ import annotations

from sparkcohort.runtime.kafka.membership_state import MembershipState
from sparkcohort.runtime.shell.driver.kafka_membership import GroupMembership
from tests.kit.waiting import wait_until


def join(membership: GroupMembership, timeout_s: float) -> None:
    """Start and join, and wait until it is the member.  Raises what ended it."""
    membership.start(timeout_s)
    membership.join()
    wait_until(lambda: membership.state is MembershipState.MEMBER or membership.failure(), timeout_s, "the join")
    failure = membership.failure()
    if failure is not None:
        raise failure
