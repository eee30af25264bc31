"""Where a query without a checkpoint starts: options, committed offsets and log ends in, offsets out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from sparkcohort.runtime.batches import hold
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.error_codes import UNREACHABLE
from sparkcohort.runtime.protocol.offsets_json import EARLIEST, LATEST
from sparkcohort.runtime.protocol.partitions import TopicPartition, names_of
from sparkcohort.runtime.shell.driver.log_ends import LogEnds
from sparkcohort.runtime.shell.options.parse import SourceOptions
from sparkcohort.runtime.shell.options.source_options import Start

Offsets = Mapping[TopicPartition, int]
T = TypeVar("T")

PATIENCE_S = 1.0
"""How long one look for absent brokers takes while a start waits for them."""
_WORDS = {"earliest": EARLIEST, "latest": LATEST}


def initial_offsets(
    options: SourceOptions, log_ends: LogEnds, committed: Callable[[Iterable[TopicPartition]], Offsets]
) -> dict[TopicPartition, int]:
    """The start of every partition there is; ``committed`` tells the group's offsets of those that have one.

    Precedence as Spark's: startingTimestamp, startingOffsetsByTimestamp, startingOffsets.  Raises CohortError: no record at or
    after a timestamp, a partition that does not exist, brokers that do not answer within ``unreachable.timeout.ms``.
    """
    partitions = sorted(log_ends.snapshot().partitions)
    times = times_of(
        "startingOffsetsByTimestamp", options.starting_timestamp, options.starting_offsets_by_timestamp, partitions
    )
    if times is not None:
        return _at_times(options, log_ends, times)
    start = options.starting_offsets
    group = dict(committed(partitions)) if start == "committed" else {}
    specs = {tp: group[tp] for tp in partitions if tp in group} if start == "committed" else _specs(start, partitions)
    missing = [tp for tp in partitions if tp not in specs]
    all_specs = {**specs, **(_specs(options.starting_offsets_fallback, missing, EARLIEST) if missing else {})}
    check_exist("startingOffsets", options.starting_offsets, partitions)
    check_exist("startingOffsets.fallback", options.starting_offsets_fallback, partitions)
    return _resolve(options, log_ends, all_specs)


def _specs(start: Start, partitions: Iterable[TopicPartition], default: int | None = None) -> dict[TopicPartition, int]:
    """What a start says of each partition; those it leaves out get ``default``, or stay out."""
    if isinstance(start, Mapping):
        specs = {tp: start[tp] for tp in partitions if tp in start}
        return specs if default is None else {**dict.fromkeys(partitions, default), **specs}
    return dict.fromkeys(partitions, _WORDS[start])


def _resolve(options: SourceOptions, log_ends: LogEnds, specs: Offsets) -> dict[TopicPartition, int]:
    earliest = [tp for tp, offset in specs.items() if offset == EARLIEST]
    latest = [tp for tp, offset in specs.items() if offset == LATEST]
    offsets = dict(specs)
    if earliest:
        offsets |= patiently(options, log_ends, lambda: log_ends.beginnings(earliest))
    if latest:
        offsets |= ends_of(options, log_ends, latest)
    return dict(sorted(offsets.items()))


def ends_of(
    options: SourceOptions, log_ends: LogEnds, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """The log ends of these partitions, all of them fresh; waits for absent brokers.  Raises CohortError."""
    partitions = list(partitions)
    began = time.monotonic()
    while True:
        snapshot = log_ends.refresh(PATIENCE_S)
        missing = hold.unknown_ends(partitions, snapshot.ends, snapshot.unreachable)
        decision = hold.decide_start(options.unreachable, missing, time.monotonic() - began)
        if decision is hold.HoldDecision.PLAN:
            return {tp: snapshot.ends[tp] for tp in partitions}
        if decision is hold.HoldDecision.FAIL:
            reason = snapshot.unreachable.get(missing[0], "no answer")
            raise CohortError(
                f"the start cannot be told: no log end of {names_of(missing)} within unreachable.timeout.ms="
                f"{options.unreachable.timeout_ms}: {reason}",
                UNREACHABLE,
            )


def patiently(
    options: SourceOptions, log_ends: LogEnds, look_up: Callable[[], dict[TopicPartition, T]]
) -> dict[TopicPartition, T]:
    """Look offsets up, again while brokers are away, for ``unreachable.timeout.ms``.  Raises the last try's error."""
    began = time.monotonic()
    while True:
        try:
            return look_up()
        except CohortError as error:
            if not hold.is_unreachable(error):
                raise
            waited_s = time.monotonic() - began
            if hold.decide_start(options.unreachable, missing=True, waited_s=waited_s) is hold.HoldDecision.FAIL:
                waited = f"unreachable.timeout.ms={options.unreachable.timeout_ms}"
                raise CohortError(f"the start cannot be told within {waited}: {error}", UNREACHABLE) from None
            log_ends.refresh(PATIENCE_S)


def times_of(
    option: str, timestamp: int | None, by_partition: Offsets | None, partitions: Iterable[TopicPartition]
) -> Offsets | None:
    """The time of each partition: the one of all, or what ``option`` says of each; None where neither is given.

    Raises CohortError for partitions that ``option`` leaves out, or that are not read.
    """
    if timestamp is not None:
        return dict.fromkeys(partitions, timestamp)
    if by_partition is None:
        return None
    check_exist(option, by_partition, partitions)
    left_out = [tp for tp in partitions if tp not in by_partition]
    if left_out:
        raise CohortError(
            f"option {option} leaves out {names_of(left_out)}: name every partition that is read",
            "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED",
        )
    return dict(by_partition)


def _at_times(
    options: SourceOptions, log_ends: LogEnds, times: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    offsets = patiently(options, log_ends, lambda: log_ends.at_timestamp(times))
    too_young = sorted(tp for tp, offset in offsets.items() if offset is None)
    if too_young and options.starting_offsets_by_timestamp_strategy == "error":
        raise CohortError(
            f"no record at or after the starting timestamp in {names_of(too_young)}: choose an earlier time, or set "
            "startingOffsetsByTimestampStrategy to latest to start those at their ends"
        )
    ends = ends_of(options, log_ends, too_young) if too_young else {}
    return {tp: ends[tp] if offset is None else offset for tp, offset in sorted(offsets.items())}


def check_exist(option: str, start: Start, partitions: Iterable[TopicPartition]) -> None:
    """Raises CohortError where a start, or an end, names partitions that are not read."""
    unread = sorted(set(start) - set(partitions)) if isinstance(start, Mapping) else []
    if unread:
        raise CohortError(
            f"option {option} names {names_of(unread)}, which does not exist or is not read: "
            "name existing partitions of what is subscribed",
            "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED",
        )
