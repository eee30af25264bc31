"""Reasons of rebalances: values, with words for people and labels for metrics."""

from __future__ import annotations

import pytest

from sparkcohort.runtime.protocol.reasons import Cause
from tests.kit.group_desk import join, stable


@pytest.mark.parametrize("said", ["gave up 2 partitions", "topics changed", "x left"])
def test_what_a_member_says_is_no_cause(said: str) -> None:
    """The cause is what its join changed: its words are for people, and stand under no other label for what they are."""
    desk = stable()
    desk.ask(join("a-1", "a", reason=said))
    assert desk.group.rebalance is not None
    reason = desk.group.rebalance.reason
    assert (reason.cause, reason.members, str(reason)) == (Cause.MEMBER_REJOINED, ("a-1",), f"a-1 rejoined: {said}")
