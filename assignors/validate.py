"""Checks of the answer of a user's own assignor, before it is used.

Law: an answer that passes has the shape of an assignment, and gives no member a partition twice.

>>> read_answer({"C0": [("t0", 1), ["t1", 0]], "C1": {("t0", 0)}})
{'C0': (('t0', 1), ('t1', 0)), 'C1': (('t0', 0),)}
>>> read_answer({"C0": "t0-0", "C1": []})
Traceback (most recent call last):
    ...
sparkcohort.assignors.validate.BadAnswer: C0 is given 't0-0', not a list of (topic, partition)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from operator import index

from sparkcohort.assignors.api import Assignment, Partition

MOST_NUMBER = (1 << 31) - 1  # of a partition: Kafka has 32 bits for it
MOST_SHOWN = 60  # characters of a wrong value in an error


class BadAnswer(ValueError):
    """What is wrong with an answer, in words that follow the assignor's name."""


def read_answer(answer: object) -> Assignment:
    """The answer as plain values; any collections will do, and any integers but booleans.

    Raises BadAnswer: the shape is wrong, or one member has a partition twice.
    """
    if not isinstance(answer, Mapping):
        raise BadAnswer(f"it returned {_printable(answer)}, not a dict of member ids and lists of (topic, partition)")
    return {_member(member): _partitions(member, partitions) for member, partitions in answer.items()}


def _member(member: object) -> str:
    if not isinstance(member, str):
        raise BadAnswer(f"it returned {_printable(member)} for a member id")
    return str(member)


def _partitions(member: str, value: object) -> tuple[Partition, ...]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise BadAnswer(f"{member} is given {_printable(value)}, not a list of (topic, partition)")
    partitions = tuple(_partition(member, item) for item in value)
    if len(set(partitions)) < len(partitions):
        (topic, number), _ = Counter(partitions).most_common(1)[0]
        raise BadAnswer(f"{topic}-{number} is given to {member} twice")
    return partitions


def _partition(member: str, item: object) -> Partition:
    if isinstance(item, tuple | list) and len(item) == 2 and isinstance(item[0], str) and not isinstance(item[1], bool):
        try:
            number = index(item[1])
        except TypeError:
            pass
        else:
            if abs(number) <= MOST_NUMBER:
                return str(item[0]), number
    raise BadAnswer(f"{member} is given {_printable(item)}, not a (topic, partition)")


def _printable(thing: object) -> str:
    words = repr(thing)
    return words if len(words) <= MOST_SHOWN else f"{words[: MOST_SHOWN - 1]}…"
