"""The arithmetic of ``cohort reset-offsets``, as in Kafka's own tool."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.protocol.partitions import TopicPartition

Offsets = Mapping[TopicPartition, int]

_DURATION: Final = re.compile(
    r"P(?:(\d{1,6})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:\.\d{1,9})?S)?)?", re.IGNORECASE
)
MOST_OFFSET: Final = 2**63 - 1
MOST_LINES: Final = 1_000_000


def clamp_offsets(offsets: Offsets, begins: Offsets, ends: Offsets) -> dict[TopicPartition, int]:
    """Each offset, or the nearest one that its log has (Kafka: ``checkOffsetsRange``)."""
    return {tp: max(begins[tp], min(offset, ends[tp])) for tp, offset in offsets.items()}


def duration_ms(text: str) -> int:
    """An ISO 8601 duration in milliseconds.  Raises OptionError.

    >>> duration_ms("P1DT2H"), duration_ms("PT5M")
    (93600000, 300000)
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        raise OptionError(f"--by-duration {text!r} is no duration; write PnDTnHnMnS, such as PT30M or P1DT12H")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return 1000 * (86_400 * days + 3600 * hours + 60 * minutes + seconds)


def time_ms(text: str) -> int:
    """A point in time in milliseconds since 1970; UTC if it names no zone.  Raises OptionError.

    >>> time_ms("2026-01-01T00:00:00.000"), time_ms("2026-01-01T01:00:00+01:00")
    (1767225600000, 1767225600000)
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise OptionError(
            f"--to-datetime {text!r} is no time; write YYYY-MM-DDTHH:MM:SS.sss, in UTC unless it ends with an offset such as +02:00"
        ) from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def topic_partitions(texts: Iterable[str], sizes: Mapping[str, int]) -> list[TopicPartition]:
    """The partitions that ``--topic T`` and ``--topic T:0,1`` name.  Raises OptionError for one that doesn't exist."""
    partitions: set[TopicPartition] = set()
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if topic not in sizes:
            raise OptionError(f"--topic {topic}: there is no such topic, or this login may not see it")
        try:
            wanted_numbers = [int(number) for number in numbers.split(",")] if colon else list(range(sizes[topic]))
        except ValueError:
            raise OptionError(
                f"--topic {text}: partitions are numbers, such as {topic}:0,1; {topic} alone is all of it"
            ) from None
        missing = [number for number in wanted_numbers if not 0 <= number < sizes[topic]]
        if missing:
            raise OptionError(f"--topic {text}: {topic} has {sizes[topic]} partitions, there is no {missing[0]}")
        partitions |= {TopicPartition(topic, number) for number in wanted_numbers}
    return sorted(partitions)


def parse_plan(text: str, group: str) -> dict[TopicPartition, int]:
    r"""Lines ``topic,partition,offset``, or with the group before them, as ``--export`` writes.  Raises OptionError.

    >>> parse_plan('"orders",0,17\n', "billing")
    {TopicPartition(topic='orders', partition=0): 17}
    """
    plan: dict[TopicPartition, int] = {}
    for number, line in enumerate(_csv_lines(text), 1):
        cells = line[1:] if len(line) == 4 and line[0] == group else line
        if not line or (len(line) == 4 and line[0] != group):
            continue
        try:
            topic, partition, offset = cells[0], int(cells[1]), int(cells[2])
        except (IndexError, ValueError):
            raise OptionError(f"--from-file: line {number} is not topic,partition,offset") from None
        if len(cells) != 3 or partition < 0 or not 0 <= offset <= MOST_OFFSET or number > MOST_LINES:
            raise OptionError(f"--from-file: line {number} is not topic,partition,offset")
        plan[TopicPartition(topic, partition)] = offset
    if not plan:
        raise OptionError(f"--from-file has no line for group {group}; write topic,partition,offset")
    return plan


def _csv_lines(text: str) -> Iterator[list[str]]:
    lines = csv.reader(io.StringIO(text))
    try:
        yield from lines
    except csv.Error as error:
        raise OptionError(f"--from-file: line {lines.line_num} is not topic,partition,offset: {error}") from None


def format_plan(offsets: Offsets) -> str:
    """Lines ``topic,partition,offset`` that ``--from-file`` and Kafka's own tool read."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([(*tp, offset) for tp, offset in sorted(offsets.items())])
    return text.getvalue()
