"""The journal as bytes: what the driver writes is the group, wherever the writing was cut off."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime import group as g
from sparkcohort.runtime.group import journal
from sparkcohort.runtime.group import records as r
from sparkcohort.runtime.group.state import JoinPhase
from sparkcohort.runtime.protocol.reasons import NO_REASON
from tests.kit.group_world import World
from tests.unit.group.test_timeline import life

STEPS = ((r.OffsetsCommitted(()),), (r.RebalanceStarted(JoinPhase(NO_REASON, 0, 9)), r.Emptied(8)), ())


def written(world: World) -> bytes:
    """A world's journal: its records, each a step of its own."""
    return journal.group_frame(world.first) + b"".join(journal.frame((record,)) for record in world.journal)


def test_bytes_are_the_group() -> None:
    """A life of joins, commits and deaths, value by value; and again from a snapshot in its middle."""
    world = life()
    data = written(world)
    group = journal.restore_group(data)
    assert group == world.group
    assert list(group.members) == list(world.group.members)
    assert journal.restore_group(journal.group_frame(group)) == group


def test_cut_off_anywhere() -> None:
    """Of a frame that isn't whole nothing counts; what is whole before it does."""
    world = life()
    group = world.group
    opened = journal.group_frame(group)
    stands, ends = [group], [len(opened)]
    data = opened
    for records in STEPS:
        for record in records:
            group = record.apply(group)
        data += journal.frame(records)
        stands.append(group)
        ends.append(len(data))
    for length in range(len(opened), len(data) + 1):
        whole = sum(end <= length for end in ends)
        assert journal.restore_group(data[:length]) == stands[whole - 1]
    for length in (0, 1, 4, len(opened) - 1):
        with pytest.raises(journal.MalformedJournal, match="no whole frame"):
            journal.restore_group(data[:length])


@given(st.data())
def test_other_bytes_are_refused(data: st.DataObject) -> None:
    """Whatever is changed: a group, or one error that quotes nothing."""
    world = life()
    bytes_ = bytearray(written(world))
    for _ in range(data.draw(st.integers(1, 4))):
        bytes_[data.draw(st.integers(0, len(bytes_) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert isinstance(journal.restore_group(bytes(bytes_)), g.Group)
    except journal.MalformedJournal as error:
        assert len(str(error)) < 80


def test_a_record_that_does_not_fit() -> None:
    """A step that the group can't make, and a record of no kind that there is."""
    group = life().group
    unfit = journal.group_frame(group) + journal.frame((r.AssignmentStored(()),) * 2 + (r.Emptied(9),))
    with pytest.raises(journal.MalformedJournal, match="IllegalTransitionError"):
        journal.restore_group(unfit)
    unknown = journal.frame((r.Emptied(1),)).replace(b"Emptied", b"Emptier")
    with pytest.raises(journal.MalformedJournal, match="ValidationError"):
        journal.restore_group(journal.group_frame(group) + unknown)
