"""Where a read starts and ends: partitions that the subscription doesn't read, and Spark's rules of a batch read.

``KafkaSourceProvider.validateBatchOptions``: from earliest to latest by default, no start at latest, no end at earliest, no
start behind the end.
"""

from __future__ import annotations

from collections.abc import Mapping

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.protocol.offsets_json import EARLIEST, LATEST
from sparkcohort.runtime.shell.options.source_options import ByPartition, SourceOptions, SourceSubscription, Start


def check_offsets(source: SourceOptions) -> None:
    """Raises OptionError for a partition in a start or an end that the subscription does not read; a pattern is not checked."""
    for name, offsets in (
        ("startingOffsets", source.starting_offsets),
        ("startingOffsets.fallback", source.starting_offsets_fallback),
        ("startingOffsetsByTimestamp", source.starting_offsets_by_timestamp),
        ("endingOffsets", source.ending_offsets),
        ("endingOffsetsByTimestamp", source.ending_offsets_by_timestamp),
    ):
        _check_named(name, offsets, source.subscription)


def _check_named(name: str, offsets: Start | None, subscription: SourceSubscription) -> None:
    if not isinstance(offsets, Mapping) or subscription.kind == "subscribePattern":
        return
    unread = [tp for tp in offsets if tp not in subscription.partitions and tp.topic not in subscription.topics]
    if unread:
        tp = min(unread)
        raise OptionError(
            f"option {name} names {tp.topic}-{tp.partition}, which option {subscription.kind} does not read: "
            "name it in both or in none"
        )


def check_batch(source: SourceOptions) -> None:
    """Raises OptionError for the options of a batch read that Spark's rules don't allow."""
    if isinstance(source.ending_offsets, Mapping):
        remedy = "end at earliest (-2); give -1 for latest, or an offset"
        _refuse("endingOffsets", source.ending_offsets, EARLIEST, remedy)
    _check_start(source)
    _check_order(source)


def _check_start(source: SourceOptions) -> None:
    if source.starting_timestamp is not None or source.starting_offsets_by_timestamp is not None:
        return  # these take precedence over startingOffsets, as in Spark
    start = source.starting_offsets
    if start == "latest":
        raise OptionError("option startingOffsets=latest: a batch read can't start at latest; give earliest, or JSON")
    if start == "committed" and not source.group_id:
        raise OptionError(
            "option startingOffsets=committed needs group.id: name the group whose committed offsets are the start"
        )
    if isinstance(start, Mapping):
        _refuse("startingOffsets", start, LATEST, "start at latest (-1); give -2 for earliest, or an offset")


def _refuse(name: str, limit: ByPartition, forbidden: int, remedy: str) -> None:
    for tp, offset in limit.items():
        if offset == forbidden:
            raise OptionError(f"option {name} for {tp.topic}-{tp.partition}: a batch read can't {remedy}")


def _check_order(source: SourceOptions) -> None:
    """Raises OptionError where the options alone show an end before the start (``checkOffsetLimitValidity``)."""
    first, last = source.starting_timestamp, source.ending_timestamp
    if first is not None and last is not None and first > last:
        raise OptionError(f"option startingTimestamp={first} is after endingTimestamp={last}: exchange them")
    by_time = source.starting_offsets_by_timestamp, source.ending_offsets_by_timestamp
    if first is None and last is None:
        _check_pairs("OffsetsByTimestamp", *by_time)
    if (first, last) == (None, None) and by_time == (None, None):
        _check_pairs("Offsets", source.starting_offsets, source.ending_offsets)


def _check_pairs(name: str, starts: Start | None, ends: Start | None) -> None:
    if not isinstance(starts, Mapping) or not isinstance(ends, Mapping):
        return
    for tp in sorted(starts.keys() & ends.keys()):
        if 0 <= ends[tp] < starts[tp]:
            raise OptionError(
                f"option starting{name} has {starts[tp]} for {tp.topic}-{tp.partition}, and ending{name} has {ends[tp]}, which "
                "comes before it: exchange them"
            )
