"""What a batch read reads: options and log ends in, ranges of offsets out, once for all tasks and retries."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

import msgspec
from confluent_kafka import KafkaError, KafkaException

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.run_epoch import decode
from sparkcohort.runtime.protocol.offsets_json import LATEST
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition, names_of
from sparkcohort.runtime.shell.driver.log_ends import LogEnds
from sparkcohort.runtime.shell.driver.starting_offsets import (
    Offsets,
    check_exist,
    ends_of,
    initial_offsets,
    patiently,
    times_of,
)
from sparkcohort.runtime.shell.kafka import clients, errors
from sparkcohort.runtime.shell.kafka.group_offsets import GroupOffsets
from sparkcohort.runtime.shell.options.source_options import SourceOptions

log = logging.getLogger("sparkcohort.batch")

_NEVER: Final = 2**63 - 1


class BatchRanges(NamedTuple):
    """The ranges of a batch read, in order, none empty, and the ids of their topics, as far as known."""

    ranges: tuple[Range, ...]
    ids: Mapping[str, str]


BATCH_RANGES: Final = msgspec.json.Decoder(BatchRanges)


def batch_ranges(
    source: SourceOptions, earlier: BatchRanges | None = None, times: Collection[int] = ()
) -> tuple[BatchRanges, dict[int, Offsets]]:
    """Ask the brokers what there is to read, unless an ``earlier`` plan says it, and for each of the times before which offsets all is older.

    Nothing is joined and nothing committed.  Raises CohortError naming option or resource: brokers that do not answer, no such
    topic or partition, no permission, a start behind its end, no record at or after a starting time.
    """
    if earlier and not times:
        return earlier, {}
    log_ends = LogEnds(source)
    try:
        log_ends.start()
        plan = earlier or _plan(source, log_ends)
        return plan, _first_offsets(source, log_ends, plan, times) if times else {}
    finally:
        log_ends.close()


def _first_offsets(
    source: SourceOptions, log_ends: LogEnds, plan: BatchRanges, times: Iterable[int]
) -> dict[int, Offsets]:
    """For each time the first offset at or after it; without partitions in which the plan's records may be gone."""
    snapshot = log_ends.snapshot()
    starts = {each.tp: each.start for each in plan.ranges if each.tp in snapshot.partitions}
    starts = {tp: start for tp, start in starts.items() if snapshot.ids.get(tp.topic) == plan.ids.get(tp.topic)}
    offsets = {
        time: patiently(source, log_ends, partial(log_ends.at_timestamp, dict.fromkeys(starts, time))) for time in times
    }
    # What was deleted since may have been as young: its task has to come to the loss.
    beginnings = patiently(source, log_ends, partial(log_ends.beginnings, starts))
    return {
        time: {tp: _NEVER if first is None else first for tp, first in firsts.items() if beginnings[tp] <= starts[tp]}
        for time, firsts in offsets.items()
    }


def _plan(source: SourceOptions, log_ends: LogEnds) -> BatchRanges:
    ids = dict(log_ends.snapshot().ids)
    starts = initial_offsets(source, log_ends, lambda partitions: _committed(source, ids, partitions))
    ends = _ending_offsets(source, log_ends, starts)
    _check_order(starts, ends)
    ranges = tuple(Range(*tp, start, ends[tp]) for tp, start in sorted(starts.items()) if start < ends[tp])
    log.info("a batch read of %d offsets", sum(each.end - each.start for each in ranges))
    return BatchRanges(ranges, ids)


def _ending_offsets(source: SourceOptions, log_ends: LogEnds, starts: Offsets) -> dict[TopicPartition, int]:
    """The end of every partition; precedence as Spark's: endingTimestamp, endingOffsetsByTimestamp, endingOffsets."""
    partitions = sorted(starts)
    times = times_of(
        "endingOffsetsByTimestamp", source.ending_timestamp, source.ending_offsets_by_timestamp, partitions
    )
    ends: dict[TopicPartition, int] = {}
    if times is not None:
        offsets = patiently(source, log_ends, lambda: log_ends.at_timestamp(times))
        ends = {tp: offset for tp, offset in offsets.items() if offset is not None}
    elif isinstance(source.ending_offsets, Mapping):
        check_exist("endingOffsets", source.ending_offsets, partitions)
        ends = {tp: offset for tp, offset in source.ending_offsets.items() if offset != LATEST}
    latest = [tp for tp in partitions if tp not in ends]
    return {**ends, **(ends_of(source, log_ends, latest) if latest else {})}


def _check_order(starts: Offsets, ends: Offsets) -> None:
    inverted = [tp for tp, start in sorted(starts.items()) if start > ends[tp]]
    if inverted:
        tp = inverted[0]
        raise CohortError(
            f"the batch read ends before it starts in {names_of(inverted)}: {tp.topic}-{tp.partition} starts at {starts[tp]} and "
            f"ends at {ends[tp]}; lower the starting offsets or times, or raise the ending ones (records may have aged "
            "out, or the topic was made anew)",
            "KAFKA_RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET",
        )


def _committed(
    source: SourceOptions, ids: Mapping[str, str], partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """The offsets that the group has committed, but for those of a deleted topic of the same name.  Raises CohortError."""
    group = GroupOffsets(source.kafka, source.group_id)
    try:
        answers = group.committed(list(partitions), source.api_timeout_ms / 1000)
    except KafkaException as error:
        raise _offsets_failure(source, clients.error_of(error), clients.text_of(error)) from None
    finally:
        group.close()
    pairs = {tp: (offset, decode(metadata).topic) for tp, (offset, metadata) in answers.items()}
    return {tp: offset for tp, (offset, topic) in pairs.items() if not topic or ids.get(tp.topic, topic) == topic}


def _offsets_failure(source: SourceOptions, error: KafkaError | None, text: str) -> CohortError:
    if error is not None and error.code() == errors.GROUP_DENIED:
        return errors.group_denied(source.group_id)
    return CohortError(f"the offsets of group {source.group_id} cannot be read (startingOffsets=committed): {text}")
