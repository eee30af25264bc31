r"""Spark's offset log and commit log, read from their text.

>>> entry = read_offsets('v1\n{"batchTimestampMs":5}\n{"t":{"0":7}}\n-', "offsets/3")
>>> entry.sources
{0: '{"t":{"0":7}}', 1: None}
>>> source_of(entry.sources[0], "offsets/3").ends[TopicPartition("t", 0)]
7
>>> read_offsets('v2\n{"batchTimestampMs":5}\norders:{"t":{"0":7}}', "offsets/3").sources
{'orders': '{"t":{"0":7}}'}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.offsets_json import MalformedOffsets, ids_in, load, read
from sparkcohort.runtime.protocol.partitions import TopicPartition

BY_NAME: Final = "v2"
"""Spark 4.2's, of queries with ``spark.sql.streaming.offsetLog.formatVersion=2``: each source by its name, in any order."""
VERSIONS: Final = ("v1", BY_NAME)
COMMIT_VERSIONS: Final = ("v1", "v2", "v3")
VOID: Final = "-"
"""The text of a source that has no offset yet (Spark: ``SERIALIZED_VOID_OFFSET``)."""

Source: TypeAlias = int | str
"""A source's place in the query (v1), or its name (v2: ``readStream.name``, else the place in digits)."""


class BrokenLog(CohortError, ValueError):
    """A file of a log that Spark can't read, or would misread; the message names it."""


class UnknownVersion(BrokenLog):
    """A file of a version that is unknown here: it is not judged, and nothing is repaired."""


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """One planned batch: Spark's metadata, and the end of each source as the source's own text (None: none yet)."""

    version: str
    metadata: Mapping[str, Any]
    sources: Mapping[Source, str | None]


@dataclass(frozen=True, slots=True)
class KafkaEnds:
    """The end of one source that reads Kafka, and the ids of its topics, if the source writes them."""

    ends: Mapping[TopicPartition, int]
    ids: Mapping[str, str]

    @property
    def form(self) -> str:
        """The format that wrote it: ``cohort`` writes topic ids, ``kafka`` doesn't."""
        return "cohort" if self.ids else "kafka"


def read_offsets(text: str, name: str) -> OffsetEntry:
    """A file of ``offsets``.  Raises BrokenLog, also where a source's JSON is cut off."""
    version, *lines = _lines(text, name)
    if version not in VERSIONS:
        raise _unknown(version, name, VERSIONS[-1])
    if not lines:
        raise BrokenLog(f"{name} has no more than its version")
    metadata = _object(lines[0], f"{name}, line 2")
    if len(lines) < 2:
        raise BrokenLog(f"{name} has no offsets: it ends after its metadata")
    if version == BY_NAME and text.endswith("\n"):
        lines.append("")  # Spark ends no file with a line feed: a source was cut off here
    sources: dict[Source, str | None] = {}
    for number, line in enumerate(lines[1:]):
        place = f"{name}, line {number + 3}"
        source, end = _split_name(line, place) if version == BY_NAME else (number, line)
        if source in sources:
            raise BrokenLog(f"{place} is of source {source}, as a line before it")
        _complete(end, place)
        sources[source] = None if end == VOID else end
    return OffsetEntry(version, metadata, sources)


def _split_name(line: str, name: str) -> tuple[str, str]:
    source, colon, text = line.partition(":")
    if not colon or not re.fullmatch(r"\w+", source, re.ASCII):
        raise BrokenLog(f"{name} doesn't begin with a source's name: it is cut off, or was changed")
    return source, text


def read_commit(text: str, name: str) -> str:
    """The version of a file of ``commits``.  Raises BrokenLog."""
    version, *lines = _lines(text, name)
    if version not in COMMIT_VERSIONS:
        raise _unknown(version, name, COMMIT_VERSIONS[-1])
    if len(lines) != 1:
        raise BrokenLog(f"{name} has {len(lines)} lines after its version where one is due")
    _object(lines[0], f"{name}, line 2")
    return version


def query_id(text: str, name: str) -> str:
    """The id of the query, from the file ``metadata``.  Raises BrokenLog."""
    identifier = _object(text, name).get("id")
    if not isinstance(identifier, str) or not identifier:
        raise BrokenLog(f"{name} has no id")
    return identifier


def source_of(line: str | None, name: str) -> KafkaEnds | None:
    """The ends in a source's text; None for a source that doesn't read Kafka, or has no offset."""
    if line is None:
        return None
    try:
        value = load(line, name)
        return KafkaEnds(read(value, name, 0), ids_in(value))
    except MalformedOffsets:
        return None


def _lines(text: str, name: str) -> list[str]:
    if not text.strip("\0 \n"):
        raise BrokenLog(f"{name} is empty")
    if "\0" in text:
        raise BrokenLog(f"{name} has zero bytes in it, as a crash of the file system leaves them")
    return text.removesuffix("\n").split("\n")


def _unknown(version: str, name: str, newest: str) -> BrokenLog:
    if version[:1] == "v" and version[1:].isdecimal():
        return UnknownVersion(f"{name} is of version {version[:9]}; {newest} is the newest that is known here")
    return BrokenLog(f"{name} doesn't begin with a version such as {newest}")


def _object(text: str, name: str) -> Mapping[str, Any]:
    try:
        value = load(text, name)
    except MalformedOffsets as error:
        raise BrokenLog(str(error)) from None
    if not isinstance(value, dict):
        raise BrokenLog(f"{name} is no JSON object")
    return value


def _complete(line: str, name: str) -> None:
    """Raise BrokenLog for a source's text that was cut off.  A source of another kind may write any other text."""
    if line == VOID:
        return
    if not line or line[0] in "{[":
        try:
            load(line, name)
        except MalformedOffsets as error:
            raise BrokenLog(f"{error}: it is cut off, or was changed") from None
