"""Reading offsets by partition in the JSON of Spark's Kafka source, ``{"topic":{"0":123}}``.

Checkpoints and the options of users have this form.

>>> read(load('{"a":{"0":-2,"1":23}}', "startingOffsets"), "startingOffsets", EARLIEST)[TopicPartition("a", 0)] == EARLIEST
True
"""

from __future__ import annotations

import json
from typing import Final

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.text import printable

EARLIEST: Final = -2
"""In startingOffsets (Spark: KafkaOffsetRangeLimit.EARLIEST; Kafka: ListOffsetsRequest.EARLIEST_TIMESTAMP)."""
LATEST: Final = -1
"""In startingOffsets (Spark: KafkaOffsetRangeLimit.LATEST; Kafka: ListOffsetsRequest.LATEST_TIMESTAMP)."""
MAX_PARTITION: Final = 2**31 - 1
"""Kafka counts partitions in an INT32."""
OF_ID: Final = "@"
"""Separates a topic's name and its id in the offsets of format("cohort"); no topic's name can have it."""
_MAX_OFFSET: Final = 2**63 - 1
_MOST_SHOWN: Final = 100  # characters of a value in a message
_FORM: Final = '{"topic":{"0":123}}'


class MalformedOffsets(CohortError, ValueError):
    """Offsets that can't be read; the message names where they come from and what is wrong."""


def load(text: str, source: str) -> object:
    """The JSON value of a text from outside; raises MalformedOffsets, also where a key is there twice."""
    try:
        loaded: object = json.loads(text, object_pairs_hook=lambda pairs: _without_repeats(pairs, source))
    except MalformedOffsets:
        raise
    except ValueError as error:  # JSONDecodeError, or a number of thousands of digits
        raise MalformedOffsets(f"{source} is not JSON: {error}") from None
    except RecursionError:
        raise MalformedOffsets(f"{source} is not JSON: nested too deeply") from None
    return loaded


def _without_repeats(pairs: list[tuple[str, object]], source: str) -> dict[str, object]:
    value = dict(pairs)
    if len(value) < len(
        pairs
    ):  # a JSON reader silently keeps the last of equal keys: the user's other entries would be lost
        names = [name for name, _ in pairs]
        raise MalformedOffsets(f"{source}: {next(n for n in names if names.count(n) > 1)!r} is there twice")
    return value


def read(value: object, source: str, least: int) -> dict[TopicPartition, int]:
    """Numbers of at least ``least`` by partition, in the order of the value; raises MalformedOffsets.

    ``least`` is EARLIEST where -2 and -1 mean something, 0 elsewhere.
    """
    offsets: dict[TopicPartition, int] = {}
    for topic, partitions in _mapping(value, source, "all").items():
        if not topic:
            raise MalformedOffsets(f"{source}: a topic without a name")
        for partition, offset in _mapping(partitions, source, f"topic {topic!r}").items():
            tp = TopicPartition(topic, _partition(partition, topic, source))
            if tp in offsets:
                raise MalformedOffsets(f"{source}: {topic}-{tp.partition} is there twice")
            offsets[tp] = _offset(offset, tp, source, least)
    return offsets


def _mapping(value: object, source: str, subject: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise MalformedOffsets(f"{source}: {subject} must be an object, as in {_FORM}, not {_excerpt(value)}")
    return value


def _excerpt(value: object) -> str:
    """The beginning of a value; one that could be read may still be nested too deeply to be written."""
    try:
        return printable(json.dumps(value, default=repr), _MOST_SHOWN)
    except RecursionError:
        return "what is nested too deeply"


def _partition(text: str, topic: str, source: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= MAX_PARTITION):
        raise MalformedOffsets(f"{source}: {text!r} of topic {topic!r} is not a partition number")
    return int(text)


def _offset(value: object, tp: TopicPartition, source: str, least: int) -> int:
    name = f"{source}: {tp.topic}-{tp.partition}"
    if isinstance(value, bool) or not isinstance(value, int):
        raise MalformedOffsets(f"{name} has {_excerpt(value)} where a number is due")
    if not least <= value <= _MAX_OFFSET:
        hint = " (-2 means earliest, -1 latest)" if least < 0 else ""
        raise MalformedOffsets(f"{name} has {value}, which can't be{hint}")
    return value


def ids_in(value: object) -> dict[str, str]:
    """The topic ids in a source offset; one of ``format("kafka")`` has none.

    >>> ids_in({"t": {"0": 7}, "t@lj7XrdGBSHu-2_Ybcic80w": {}, "u": {"0": 1}})
    {'t': 'lj7XrdGBSHu-2_Ybcic80w'}
    """
    if not isinstance(value, dict):
        return {}
    keys = [str(name).partition(OF_ID) for name, partitions in value.items() if partitions == {}]
    return {topic: topic_id for topic, _, topic_id in keys if topic in value and topic_id}
