"""The options of a batch read, ``spark.read``: those of a stream, and where it ends.

Spark's rules (``KafkaSourceProvider.validateBatchOptions``): from earliest to latest by default, no start at latest, no end at
earliest, no start behind the end.
"""

from __future__ import annotations

from collections.abc import Mapping

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.protocol.offsets_json import EARLIEST, LATEST
from sparkcohort.runtime.shell.options.declaration import declared_options
from sparkcohort.runtime.shell.options.parse import check_named, parse_values, read_values
from sparkcohort.runtime.shell.options.source_options import BatchOptions, ByPartition, SourceOptions, Start
from sparkcohort.runtime.shell.options.values import Values

__all__ = ["BatchOptions", "parse_batch"]


def parse_batch(options: Mapping[str, str]) -> BatchOptions:
    """Check and type the options as Spark hands them over (keys in any case).  Raises OptionError."""
    texts, warnings = read_values(options, "batches")
    texts.setdefault("startingoffsets", "earliest")
    value = Values(texts)
    if value.text("endingOffsets").lower() == "earliest":
        raise OptionError("option endingOffsets=earliest: a batch read can't end at earliest; give latest, or JSON")
    parsed = {name: value.read(option) for name, option in declared_options(BatchOptions).items()}
    batch = BatchOptions(source=parse_values(texts, warnings), **parsed)
    if isinstance(batch.ending_offsets, Mapping):
        remedy = "end at earliest (-2); give -1 for latest, or an offset"
        _refuse("endingOffsets", batch.ending_offsets, EARLIEST, remedy)
    _check_start(batch.source)
    for name, end in (
        ("endingOffsets", batch.ending_offsets),
        ("endingOffsetsByTimestamp", batch.ending_offsets_by_timestamp),
    ):
        check_named(name, end, batch.source.subscription)
    _check_order(batch)
    return batch


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


def _check_order(parsed: BatchOptions) -> None:
    """Raises OptionError where the options alone show an end before the start (``checkOffsetLimitValidity``)."""
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
