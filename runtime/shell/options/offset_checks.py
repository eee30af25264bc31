"""Where a batch read starts and ends, by Spark's rules: from earliest to latest by default, no start at latest, no end at earliest.

Source: ``KafkaSourceProvider.validateBatchOptions``.  What doesn't exist, and a start behind its end, is found when it is read.
"""

from __future__ import annotations

from collections.abc import Mapping

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.protocol.offsets_json import EARLIEST, LATEST
from sparkcohort.runtime.shell.options.source_options import ByPartition, SourceOptions


def check_batch(source: SourceOptions) -> None:
    """Raises OptionError for the options of a batch read that Spark's rules don't allow."""
    if isinstance(source.ending_offsets, Mapping):
        remedy = "end at earliest (-2); give -1 for latest, or an offset"
        _refuse("endingOffsets", source.ending_offsets, EARLIEST, remedy)
    _check_start(source)


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
