"""Offsets as Spark's Kafka source writes them: ``{"topic": {"0": 123}}``, and its text forms in options.

Spark compares offsets as JSON text and keeps them in the checkpoint, so equal offsets have to give equal text:
topics in order of their names, partitions in order of their numbers.

>>> at = {TopicPartition("b", 10): 7, TopicPartition("b", 9): 8, TopicPartition("a", 0): 1}
>>> to_json(at)
'{"a":{"0":1},"b":{"9":8,"10":7}}'
>>> from_json(to_json(at)) == at
True
>>> parse_offsets('{"a":{"0":-2,"1":23}}', "startingOffsets")[TopicPartition("a", 0)] == EARLIEST
True
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeAlias

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol import TopicPartition

Offsets: TypeAlias = Mapping[TopicPartition, int]

EARLIEST = -2  # in startingOffsets (Spark: KafkaOffsetRangeLimit.EARLIEST)
LATEST = -1  # in startingOffsets (Spark: KafkaOffsetRangeLimit.LATEST)
_MAX_OFFSET = 2**63 - 1
_MAX_PARTITION = 2**31 - 1
_FORM = '{"topic":{"0":123}}'


class MalformedOffsets(CohortError, ValueError):
    """Offsets that can't be read; the message names where they come from and what is wrong."""


def to_json_value(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Write offsets as the value whose JSON text Spark keeps and compares; key order is fixed."""
    value: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        value.setdefault(topic, {})[str(partition)] = offset
    return value


def from_json_value(value: object, source: str = "source offset") -> dict[TopicPartition, int]:
    """Read offsets from a JSON value; raises MalformedOffsets, also for offsets below zero."""
    return _read(value, source, 0)


def to_json(offsets: Offsets) -> str:
    """Write offsets as compact JSON text, as ``format("kafka")`` does."""
    return json.dumps(to_json_value(offsets), separators=(",", ":"))


def from_json(text: str, source: str = "source offset") -> dict[TopicPartition, int]:
    """Read the JSON text of offsets; raises MalformedOffsets."""
    return _read(_load(text, source), source, 0)


def parse_offsets(text: str, option: str) -> dict[TopicPartition, int]:
    """Read the JSON of ``startingOffsets`` and its kin: -2 is EARLIEST, -1 LATEST; raises MalformedOffsets."""
    return _read(_load(text, option), option, EARLIEST)


class KnownOffsets:
    """Offsets as JSON values that come back again and again: Spark tells an offset three times and more.

    >>> known = KnownOffsets()
    >>> value = known.write({TopicPartition("t", 0): 7})
    >>> known.read({"t": {"0": 7}}) is known.read({"t": {"0": 7}})
    True
    """

    def __init__(self) -> None:
        self._last: list[tuple[object, Offsets]] = []

    def read(self, value: object) -> Offsets:
        """As ``from_json_value``; what is returned may be returned again, and must not be changed."""
        for known, offsets in self._last:
            if known == value:
                return offsets
        offsets = from_json_value(value)
        self._remember(value, offsets)
        return offsets

    def write(self, offsets: Offsets) -> dict[str, dict[str, int]]:
        """As ``to_json_value``; neither the offsets nor the value may be changed afterwards."""
        value = to_json_value(offsets)
        self._remember(value, offsets)
        return value

    def _remember(self, value: object, offsets: Offsets) -> None:
        self._last = [(value, offsets), *self._last[:1]]  # the batch's end and its start


def _load(text: str, source: str) -> object:
    try:
        loaded: object = json.loads(text, object_pairs_hook=lambda pairs: _without_repeats(pairs, source))
    except MalformedOffsets:
        raise
    except ValueError as error:  # JSONDecodeError, or a number of thousands of digits
        raise MalformedOffsets(f"{source}: not JSON of the form {_FORM}: {error}") from None
    except RecursionError:
        raise MalformedOffsets(f"{source}: not JSON of the form {_FORM}: nested too deeply") from None
    return loaded


def _without_repeats(pairs: list[tuple[str, object]], source: str) -> dict[str, object]:
    value = dict(pairs)
    if len(value) < len(pairs):  # JSON readers keep the last silently: half of what the user wrote would be lost
        names = [name for name, _ in pairs]
        raise MalformedOffsets(f"{source}: {next(n for n in names if names.count(n) > 1)!r} is there twice")
    return value


def _read(value: object, source: str, least: int) -> dict[TopicPartition, int]:
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


def _mapping(value: object, source: str, what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise MalformedOffsets(
            f"{source}: {what} must be an object, as in {_FORM}, not {json.dumps(value, default=repr)}"
        )
    return value


def _partition(text: str, topic: str, source: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= _MAX_PARTITION):
        raise MalformedOffsets(f"{source}: {text!r} of topic {topic!r} is not a partition number")
    return int(text)


def _offset(value: object, tp: TopicPartition, source: str, least: int) -> int:
    name = f"{source}: {tp.topic}-{tp.partition}"
    if isinstance(value, bool) or not isinstance(value, int):
        raise MalformedOffsets(f"{name} has {json.dumps(value, default=repr)} where an offset is due")
    if not least <= value <= _MAX_OFFSET:
        hint = " (-2 means earliest, -1 latest)" if least < 0 else ""
        raise MalformedOffsets(f"{name} has offset {value}, which can't be{hint}")
    return value
