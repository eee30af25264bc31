"""The options of batch reads: Spark's rules about starts and ends, what streams refuse, what is only warned of."""

from __future__ import annotations

import json
import pickle

import pytest

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.options.parse import SourceOptions, parse
from sparkcohort.runtime.shell.options.table import OPTIONS

LEAST = {"kafka.bootstrap.servers": "b1:9092", "subscribe": "orders"}
OF_BATCHES = [option for option in OPTIONS if option.reads == "batches"]
OF_STREAMS = [option for option in OPTIONS if option.reads == "streams" and option.default]


def given(**more: str) -> SourceOptions:
    """The least options with ``more`` (``__`` stands for a dot)."""
    return parse(LEAST | {name.replace("__", "."): value for name, value in more.items()}, "batches")


def refused(**more: str) -> str:
    """The message with which these options are refused."""
    with pytest.raises(OptionError) as caught:
        given(**more)
    return str(caught.value)


def at(*offsets: int) -> str:
    """Offsets of the partitions 0, 1, ... of orders as JSON."""
    return json.dumps({"orders": {str(number): offset for number, offset in enumerate(offsets)}})


def test_the_least_options_are_enough() -> None:
    """Brokers and a subscription; from earliest to latest, as Spark's batch reads; no group."""
    options = given()
    assert (options.group_id, options.starting_offsets, options.ending_offsets) == (
        "",
        "earliest",
        "latest",
    )
    assert (options.ending_timestamp, options.ending_offsets_by_timestamp) == (None, None)
    assert options.warnings == ()
    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301  our own


@pytest.mark.parametrize("option", OF_BATCHES, ids=lambda option: option.name)
def test_streams_refuse_ends(option: object) -> None:
    """Each option of batch reads is an error of a stream that names it and the trigger."""
    name = option.name  # type: ignore[attr-defined]
    with pytest.raises(OptionError, match=f"option {name} is not supported in a stream: .*availableNow"):
        parse(LEAST | {"group.id": "g", name: "latest"})


@pytest.mark.parametrize("option", OF_BATCHES, ids=lambda option: option.name)
def test_defaults_change_nothing(option: object) -> None:
    """Writing the default of an option of batch reads out is the same as leaving it away."""
    if option.default:  # type: ignore[attr-defined]
        assert given(**{option.name: option.default}) == given()  # type: ignore[attr-defined]


def test_options_of_streams_are_one_warning() -> None:
    """They are tolerated as Spark's source does, named together, and still checked."""
    (warning,) = given(**{option.name: str(option.default) for option in OF_STREAMS}).warnings
    assert all(option.name in warning for option in OF_STREAMS)
    assert "maxOffsetsPerTrigger" in refused(maxOffsetsPerTrigger="many")


REFUSED: dict[str, tuple[dict[str, str], list[str]]] = {
    "start at latest": ({"startingOffsets": "latest"}, ["startingOffsets", "can't start at latest", "earliest"]),
    "start of a partition at latest": ({"startingOffsets": at(5, -1)}, ["startingOffsets for orders-1", "-2"]),
    "end at earliest": ({"endingOffsets": "Earliest"}, ["endingOffsets", "can't end at earliest", "latest"]),
    "end of a partition at earliest": ({"endingOffsets": at(-1, -2)}, ["endingOffsets for orders-1", "-1"]),
    "committed by nobody": ({"startingOffsets": "committed"}, ["startingOffsets=committed", "group.id"]),
    "no end": ({"endingOffsets": "{}"}, ["endingOffsets names no partition"]),
    "minPartitions": ({"minPartitions": "0"}, ["minPartitions=0"]),
    "maxRecordsPerPartition": ({"maxRecordsPerPartition": "-1"}, ["maxRecordsPerPartition=-1"]),
    "a time that is none": ({"endingTimestamp": "soon"}, ["endingTimestamp='soon'"]),
}


@pytest.mark.parametrize(("changes", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(changes: dict[str, str], said: list[str]) -> None:
    """As Spark's batch validation, in one sentence that names option and remedy."""
    message = refused(**changes)
    assert [words for words in said if words not in message] == []


def test_times_beat_offsets() -> None:
    """A start that would be refused doesn't matter beside a time, which beats it, as at Spark's."""
    options = given(startingOffsets="latest", startingTimestamp="5", endingOffsetsByTimestamp=at(9))
    assert options.starting_timestamp == 5
    assert options.ending_offsets_by_timestamp == {TopicPartition("orders", 0): 9}
    both = given(startingOffsets=at(7), endingOffsets=at(3), endingTimestamp="5")
    assert both.ending_timestamp == 5


def test_committed_with_a_group() -> None:
    """What the group has yet to read."""
    assert given(startingOffsets="committed", group__id="g").starting_offsets == "committed"
