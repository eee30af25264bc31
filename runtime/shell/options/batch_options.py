"""The options of a batch read, ``spark.read``: those of a stream, and where it ends.

Spark's rules (``KafkaSourceProvider.validateBatchOptions``): from earliest to latest unless something else is said, no start
at latest, no end at earliest, no start behind the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.protocol.offsets_json import EARLIEST, LATEST
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.options.parse import check_named, parse_values, read_values
from sparkcohort.runtime.shell.options.source_options import SourceOptions
from sparkcohort.runtime.shell.options.values import Start, Values

ByPartition: TypeAlias = Mapping[TopicPartition, int]


@dataclass(frozen=True)
class BatchOptions:
    """A batch read: ``source`` is what it has in common with a stream, and all that a task needs."""

    source: SourceOptions
    ending_offsets: Start
    ending_timestamp: int | None
    ending_offsets_by_timestamp: ByPartition | None
    push_down_predicate: bool
    max_out_of_orderness_ms: int | None


def parse_batch(options: Mapping[str, str]) -> BatchOptions:
    """Check and type the options as Spark hands them over (keys in any case).  Raises OptionError."""
    given, warnings = read_values(options, "batches")
    given.setdefault("startingoffsets", "earliest")
    value = Values(given)
    pushes_down = value.boolean("pushDownPredicate")
    if value.has("maxOutOfOrderness") and not pushes_down:
        warnings = (*warnings, "option maxOutOfOrderness has no effect: pushDownPredicate is false")
    parsed = BatchOptions(
        source=parse_values(given, warnings),
        ending_offsets=_end(value),
        ending_timestamp=value.optional("endingTimestamp"),
        ending_offsets_by_timestamp=value.timestamps("endingOffsetsByTimestamp"),
        push_down_predicate=pushes_down,
        max_out_of_orderness_ms=value.duration("maxOutOfOrderness") if value.has("maxOutOfOrderness") else None,
    )
    _check_start(parsed.source)
    for name, end in (
        ("endingOffsets", parsed.ending_offsets),
        ("endingOffsetsByTimestamp", parsed.ending_offsets_by_timestamp),
    ):
        check_named(name, end, parsed.source.subscription)
    _check_order(parsed)
    return parsed


def _end(value: Values) -> Start:
    if value.text("endingOffsets").lower() == "earliest":
        raise OptionError("option endingOffsets=earliest: a batch read can't end at earliest; give latest, or JSON")
    end = value.start("endingOffsets")
    if isinstance(end, Mapping):
        _refuse("endingOffsets", end, EARLIEST, "end at earliest (-2); give -1 for latest, or an offset")
    return end


def _check_start(source: SourceOptions) -> None:
    if source.starting_timestamp is not None or source.starting_offsets_by_timestamp is not None:
        return  # which beat startingOffsets, as at Spark's
    start = source.starting_offsets
    if start == "latest":
        raise OptionError("option startingOffsets=latest: a batch read can't start at latest; give earliest, or JSON")
    if start == "committed" and not source.group_id:
        raise OptionError(
            "option startingOffsets=committed needs group.id: name the group whose committed offsets are the start"
        )
    if isinstance(start, Mapping):
        _refuse("startingOffsets", start, LATEST, "start at latest (-1); give -2 for earliest, or an offset")


def _refuse(name: str, limit: ByPartition, what: int, remedy: str) -> None:
    for tp, at in limit.items():
        if at == what:
            raise OptionError(f"option {name} for {tp.topic}-{tp.partition}: a batch read can't {remedy}")


def _check_order(parsed: BatchOptions) -> None:
    """Refuse what ends before it starts, as far as the options alone show it (``checkOffsetLimitValidity``)."""
    source = parsed.source
    first, last = source.starting_timestamp, parsed.ending_timestamp
    if first is not None and last is not None and first > last:
        raise OptionError(f"option startingTimestamp={first} is after endingTimestamp={last}: exchange them")
    by_time = source.starting_offsets_by_timestamp, parsed.ending_offsets_by_timestamp
    if first is None and last is None:
        _check_pairs("OffsetsByTimestamp", *by_time)
    if (first, last) == (None, None) and by_time == (None, None):
        _check_pairs("Offsets", source.starting_offsets, parsed.ending_offsets)


def _check_pairs(name: str, starts: Start | None, ends: Start | None) -> None:
    if not isinstance(starts, Mapping) or not isinstance(ends, Mapping):
        return
    for tp in sorted(starts.keys() & ends.keys()):
        if 0 <= ends[tp] < starts[tp]:
            raise OptionError(
                f"option starting{name} has {starts[tp]} for {tp.topic}-{tp.partition}, and ending{name} has {ends[tp]}, which "
                "comes before it: exchange them"
            )
