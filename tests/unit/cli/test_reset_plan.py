"""Where a reset moves offsets: bounds, times, and plans in files."""

from __future__ import annotations

import pytest

from sparkcohort.cli import reset_plan
from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.protocol.partitions import TopicPartition

A, B = TopicPartition("a,b", 0), TopicPartition("a,b", 1)


def test_an_offset_outside_its_log_goes_to_the_nearest_end() -> None:
    """As Kafka's tool does."""
    assert reset_plan.clamp_offsets({A: 3, B: 30}, {A: 5, B: 0}, {A: 20, B: 20}) == {A: 5, B: 20}


def test_a_plan_is_read_as_it_is_written() -> None:
    """Also with the group before each line, as Kafka's tool exports several groups; others' lines are not ours."""
    assert reset_plan.parse_plan(reset_plan.format_plan({A: 7, B: 8}), "g") == {A: 7, B: 8}
    assert reset_plan.parse_plan('g,"a,b",0,7\nh,"a,b",1,9\n', "g") == {A: 7}


LONG = 't,0,"' + "1" * (1 << 17) + '1"'


@pytest.mark.parametrize(
    "text", ["", "t,0", "t,x,1", "t,0,-1", "t,0,99999999999999999999", "h,t,0,1", "t,0,1,2,3", LONG]
)
def test_a_plan_that_is_none(text: str) -> None:
    """One error that says what a line is."""
    with pytest.raises(OptionError, match="topic,partition,offset"):
        reset_plan.parse_plan(text, "g")


@pytest.mark.parametrize("text", ["t:", "t:,", "t:0,", "t:x"])
def test_no_partition_is_not_all_of_them(text: str) -> None:
    """A variable of the shell that is empty would move the whole topic."""
    assert len(reset_plan.topic_partitions(["t"], {"t": 3})) == 3
    with pytest.raises(OptionError, match=r"partitions are numbers, such as t:0,1; t alone is all of it"):
        reset_plan.topic_partitions([text], {"t": 3})


@pytest.mark.parametrize("text", ["", "P", "PT", "5m", "-PT5M", "P1Y"])
def test_a_duration_that_is_none(text: str) -> None:
    """An example stands in the error."""
    with pytest.raises(OptionError, match="PT30M"):
        reset_plan.duration_ms(text)
