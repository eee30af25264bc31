"""Changed copies of frozen values are what ``dataclasses.replace`` makes."""

from __future__ import annotations

import dataclasses

import pytest

from sparkcohort.runtime.group.state import Group, GroupMember, JoinPhase
from sparkcohort.runtime.member.state import Member
from sparkcohort.runtime.protocol.copy import replace
from tests.kit.group_desk import completing
from tests.kit.group_world import member_config

GROUP = completing().group
VALUES = [GROUP, GROUP.members["b-3"], GROUP.rebalance, Member(member_config("a", ("t",)))]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_changed_copy(value: Group | GroupMember | JoinPhase | Member) -> None:
    """One field changed or none, the rest is the same; the value itself stays what it was."""
    before = repr(value)
    assert replace(value) == value
    for field in dataclasses.fields(value):
        copy = replace(value, **{field.name: "changed"})
        assert repr(copy) == repr(dataclasses.replace(value, **{field.name: "changed"}))  # type: ignore[arg-type]
    assert repr(value) == before


def test_a_field_that_there_is_not() -> None:
    """A mistyped field is an error, not a field more."""
    with pytest.raises(AttributeError):
        replace(GROUP, generations=1)
