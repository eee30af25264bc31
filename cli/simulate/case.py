"""The input of ``cohort simulate``: a group's topics, members with their partitions, racks.  Read from JSON, written back.

>>> case = parse('{"topics": {"orders": 2}, "members": {"m1": {"topics": ["orders"], "owned": [["orders", 0]]}}}')
>>> case.members["m1"].owned, case.members["m1"].generation
((('orders', 0),), -1)
>>> parse('{"topics": {"orders": 2}, "members": {"m1": {"topic": []}}}')
Traceback (most recent call last):
    ...
sparkcohort.cli.simulate.case.CaseError: members.m1: Object contains unknown field `topic`

Nothing is guessed.  An unknown key, a value of the wrong type, or a partition twice with one member is an error that
names its place.  States of real groups are no errors: two members claim one partition, a claimed partition or a
subscribed topic doesn't exist.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Struct

from sparkcohort.assignors import Load, MemberSubscription, Racks
from sparkcohort.assignors.load_weights import MOST
from sparkcohort.runtime.text import counted, printable

T = TypeVar("T")

MOST_BYTES: Final = 512 * 2**20
MOST_PARTITIONS: Final = 5_000_000
MOST_MEMBERS: Final = 100_000
MOST_GENERATION: Final = 2**31 - 1  # Kafka's is 32 bits wide

Name = Annotated[str, Meta(min_length=1)]
Number = Annotated[int, Meta(ge=0, le=MOST_GENERATION)]
Generation = Annotated[int, Meta(ge=-1, le=MOST_GENERATION)]
Rate = Annotated[float, Meta(ge=0, le=MOST)]
Backlog = Annotated[int, Meta(ge=0, le=int(MOST))]


class CaseError(ValueError):
    """A fault in a case or in a change of it: one line that names the place and the remedy."""


@dataclass(frozen=True, slots=True)
class Case:
    """A group before a rebalance; ``assignor`` is empty if the case names none.

    ``names`` maps member ids to the names that people use (client ids), if there are any.  ``notes`` are lines on what
    the source of the case doesn't know.
    """

    topics: Mapping[str, int]
    members: Mapping[str, MemberSubscription]
    racks: Racks = field(default_factory=dict)
    assignor: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class _CaseJson(Struct, forbid_unknown_fields=True):
    """A case in JSON; null is the same as a missing key.  Members are read one by one, so that errors name them."""

    topics: dict[Name, Number]
    members: dict[Name, msgspec.Raw]
    assignor: Name | None = None
    racks: dict[Name, list[tuple[Name, ...]]] | None = None


class _MemberJson(Struct, forbid_unknown_fields=True):
    topics: tuple[Name, ...]
    owned: tuple[tuple[Name, Number], ...] | None = None
    generation: Generation | None = None
    instance_id: Name | None = None
    rack: Name | None = None
    since: list[tuple[Name, Number, Generation]] | None = None
    loads: list[tuple[Name, Number, Rate, Rate, Backlog]] | None = None


def parse(text: str | bytes) -> Case:
    """Read a case.  Raises CaseError."""
    if len(text) > MOST_BYTES:
        raise CaseError(f"the case is larger than {MOST_BYTES >> 20} MiB")
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text.removeprefix(b"\xef\xbb\xbf")
    if not data.strip():
        raise CaseError('the case is empty: it is a JSON object like {"topics": {"orders": 2}, "members": {}}')
    case = _decode(data, _CaseJson, "the case")
    check_size(case.topics)
    if len(case.members) > MOST_MEMBERS:
        raise CaseError(f"members: {len(case.members):,} are too many, at most {MOST_MEMBERS:,}")
    for topic, rows in (case.racks or {}).items():
        if topic not in case.topics:
            raise CaseError(f"racks: there is no topic {quoted(topic)}{nearest(topic, case.topics)}")
        if len(rows) != case.topics[topic]:
            listed = counted(len(rows), "partition")
            raise CaseError(
                f"racks.{printable(topic, 60)}: {listed} listed, but topics has {case.topics[topic]:,} of them"
            )
    return Case(
        topics=case.topics,
        members={name: _member(data, f"members.{printable(name, 60)}") for name, data in case.members.items()},
        racks={topic: tuple(rows) for topic, rows in (case.racks or {}).items()},
        assignor=case.assignor or "",
    )


def _decode(data: bytes | msgspec.Raw, kind: type[T], place: str) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise CaseError(f"{place}: {printable(str(error), 200)}") from None


def _member(data: msgspec.Raw, place: str) -> MemberSubscription:
    member = _decode(data, _MemberJson, place)
    since = {(topic, number): generation for topic, number, generation in member.since or ()}
    loads = {
        (topic, number): Load(records, size, backlog) for topic, number, records, size, backlog in member.loads or ()
    }
    owned = member.owned or ()
    for key, values, distinct in (
        ("topics", member.topics, set(member.topics)),
        ("owned", owned, set(owned)),
        ("since", member.since or (), since),
        ("loads", member.loads or (), loads),
    ):
        if len(distinct) < len(values):
            raise CaseError(f"{place}.{key}: one of them stands twice")
    generation = -1 if member.generation is None else member.generation
    return MemberSubscription(member.topics, owned, generation, member.instance_id, member.rack, since, loads)


def as_value(case: Case) -> dict[str, Any]:
    """The case as ``parse`` reads it, in plain values, without defaults."""
    racks = {topic: [sorted(replica_racks) for replica_racks in case.racks[topic]] for topic in sorted(case.racks)}
    return {
        **({"assignor": case.assignor} if case.assignor else {}),
        "topics": dict(sorted(case.topics.items())),
        **({"racks": racks} if racks else {}),
        "members": {member: _subscription_json(case.members[member]) for member in sorted(case.members)},
    }


def _subscription_json(member: MemberSubscription) -> dict[str, Any]:
    value: dict[str, Any] = {
        "topics": list(member.topics),
        "owned": [list(partition) for partition in member.owned],
        "generation": member.generation,
        "instance_id": member.instance_id,
        "rack": member.rack,
    }
    if member.since:
        value["since"] = [[*partition, generation] for partition, generation in sorted(member.since.items())]
    if member.loads:
        value["loads"] = [[*partition, *load] for partition, load in sorted(member.loads.items())]
    return value


def check_size(topics: Mapping[str, int]) -> None:
    """Raise CaseError for more than ``MOST_PARTITIONS``."""
    if (total := sum(topics.values())) > MOST_PARTITIONS:
        raise CaseError(f"topics: {total:,} partitions are too many, at most {MOST_PARTITIONS:,}")


def nearest(word: str, choices: Iterable[str]) -> str:
    """``; did you mean "X"?`` if a name is close, else the names that there are."""
    names = sorted(choices)
    if near := difflib.get_close_matches(word, names, n=1, cutoff=0.5):
        return f"; did you mean {quoted(near[0])}?"
    more = f" and {len(names) - 6:,} more" if len(names) > 6 else ""
    return f"; there is {', '.join(map(quoted, names[:6]))}{more}" if names else "; there is none"


def quoted(word: str) -> str:
    """A name for an error: on one line, printable, bounded."""
    return json.dumps(word if len(word) <= 60 else f"{word[:60]}…", ensure_ascii=not word.isprintable())
