"""What a batch read reads: options, log ends and filters in, ranges of offsets out, once for all tasks and retries."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException

from sparkcohort.runtime.batches.offset_filters import Selection, clip_to_times, narrowed
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
from sparkcohort.runtime.shell.options.batch_options import BatchOptions
from sparkcohort.runtime.shell.options.source_options import SourceOptions

log = logging.getLogger("sparkcohort.batch")


class BatchRanges(NamedTuple):
    """The ranges of a batch read, in order, none empty, and the ids of their topics, as far as known."""

    ranges: tuple[Range, ...]
    ids: Mapping[str, str]


def batch_ranges(options: BatchOptions, selected: Selection) -> BatchRanges:
    """Ask the brokers what there is to read.  Nothing is joined and nothing committed.

    Raises CohortError naming option or resource: brokers that do not answer, no such topic or partition, no permission, a start
    behind its end, no record at or after a starting time.
    """
    source = options.source
    log_ends = LogEnds(source)
    try:
        log_ends.start()
        ids = dict(log_ends.snapshot().ids)
        starts = initial_offsets(source, log_ends, lambda partitions: _committed(source, ids, partitions))
        ends = _ending_offsets(options, log_ends, starts)
        _check_order(starts, ends)
        whole = [Range(*tp, start, ends[tp]) for tp, start in sorted(starts.items())]
        ranges = _clip_to_filters(options, log_ends, narrowed(whole, selected), selected)
    finally:
        log_ends.close()
    _tell(whole, ranges)
    return BatchRanges(ranges, ids)


def _ending_offsets(options: BatchOptions, log_ends: LogEnds, starts: Offsets) -> dict[TopicPartition, int]:
    """The end of every partition; precedence as Spark's: endingTimestamp, endingOffsetsByTimestamp, endingOffsets."""
    partitions = sorted(starts)
    times = times_of(
        "endingOffsetsByTimestamp", options.ending_timestamp, options.ending_offsets_by_timestamp, partitions
    )
    ends: dict[TopicPartition, int] = {}
    if times is not None:
        offsets = patiently(options.source, log_ends, lambda: log_ends.at_timestamp(times))
        ends = {tp: offset for tp, offset in offsets.items() if offset is not None}
    elif isinstance(options.ending_offsets, Mapping):
        check_exist("endingOffsets", options.ending_offsets, partitions)
        ends = {tp: offset for tp, offset in options.ending_offsets.items() if offset != LATEST}
    latest = [tp for tp in partitions if tp not in ends]
    return {**ends, **(ends_of(options.source, log_ends, latest) if latest else {})}


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


# --- times that filters ask for -------------------------------------------------------------------


def _clip_to_filters(
    options: BatchOptions,
    log_ends: LogEnds,
    ranges: tuple[Range, ...],
    selected: Selection,
) -> tuple[Range, ...]:
    """The ranges without what is certainly too old or too young.  The log's ends are asked before: the log grows meanwhile."""
    first, end = selected.times
    if first is not None and end is not None and first >= end:
        return ()
    if ranges and first is not None and first > 0:  # Kafka means something else by a time below zero
        ranges = clip_to_times(ranges, _first_at(options, log_ends, ranges, first), {})
    if not ranges or end is None or end <= 0:
        return ranges
    # Producers set timestamps in whatever order they like, unless the user knows of one.
    if options.max_out_of_orderness_ms is None:
        log.info("a filter's latest time doesn't bound what is read, unless the option maxOutOfOrderness says how far")
        return ranges
    firsts = _first_at(options, log_ends, ranges, end + options.max_out_of_orderness_ms)
    return clip_to_times(ranges, {}, {tp: offset for tp, offset in firsts.items() if offset is not None})


def _first_at(
    options: BatchOptions, log_ends: LogEnds, ranges: Iterable[Range], time_ms: int
) -> dict[TopicPartition, int | None]:
    times = dict.fromkeys((each.tp for each in ranges), time_ms)
    return patiently(options.source, log_ends, lambda: log_ends.at_timestamp(times))


def _tell(whole: Iterable[Range], ranges: Iterable[Range]) -> None:
    total, selected = (sum(each.end - each.start for each in part) for part in (whole, ranges))
    left_out = f" of {total}: the filters leave out the others" if selected < total else ""
    log.info("a batch read of %d offsets%s", selected, left_out)
