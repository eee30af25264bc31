"""The input of ``cohort simulate``: a group's topics, members with their partitions, racks.  Read from JSON, written back.

>>> case = parse('{"topics": {"orders": 2}, "members": {"m1": {"topics": ["orders"], "owned": [["orders", 0]]}}}')
>>> case.members["m1"].owned, case.members["m1"].generation
((('orders', 0),), -1)
>>> parse('{"topics": {"orders": 2}, "member": {}}')
Traceback (most recent call last):
    ...
sparkcohort.cli.simulate.case.CaseError: unknown key "member"; did you mean "members"?

Nothing is guessed.  An unknown key, a value of the wrong type, or a partition twice with one member is an error that
names its place.  States of real groups are no errors: two members claim one partition, a claimed partition or a
subscribed topic doesn't exist.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

from sparkcohort.assignors import Load, MemberSubscription, Partition, Racks
from sparkcohort.assignors.load_weights import MOST
from sparkcohort.runtime.text import counted

T = TypeVar("T")

MOST_BYTES: Final = 512 * 2**20
MOST_PARTITIONS: Final = 5_000_000
MOST_MEMBERS: Final = 100_000
MOST_GENERATION: Final = 2**31 - 1  # Kafka's is 32 bits wide

CASE_KEYS: Final = ("assignor", "topics", "racks", "members", "load_balance")
MEMBER_KEYS: Final = ("topics", "owned", "generation", "instance_id", "rack", "since", "loads")


class LoadBalance(NamedTuple):
    """The options ``load.balance.*``: the threshold in fair shares, the time above it, the most moves a round."""

    threshold: float = 1.2
    after_ms: int = 60_000
    max_moves: int = 5


USUAL: Final = LoadBalance()


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
    load_balance: LoadBalance = USUAL
    names: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def parse(text: str | bytes) -> Case:
    """Read a case.  Raises CaseError."""
    value = _object(_json(text), "", CASE_KEYS, required=("topics", "members"))
    names: dict[str, str] = {}
    topics = _topics(value["topics"])
    members = _mapping(value["members"], "members")
    if len(members) > MOST_MEMBERS:
        _fail("members", f"{len(members):,} are too many, at most {MOST_MEMBERS:,}")
    return Case(
        topics=topics,
        members={member: _member(item, f"members.{_bare(member)}", names) for member, item in members.items()},
        racks=_racks(value.get("racks", {}), topics),
        assignor="" if "assignor" not in value else _name(value["assignor"], "assignor"),
        load_balance=_load_balance(value.get("load_balance", {})),
    )


def as_value(case: Case) -> dict[str, Any]:
    """The case as ``parse`` reads it, in plain values, without defaults."""
    racks = {topic: [sorted(replica_racks) for replica_racks in case.racks[topic]] for topic in sorted(case.racks)}
    return {
        **({"assignor": case.assignor} if case.assignor else {}),
        "topics": dict(sorted(case.topics.items())),
        **({"racks": racks} if racks else {}),
        **({"load_balance": case.load_balance._asdict()} if case.load_balance != USUAL else {}),
        "members": {member: _subscription_json(case.members[member]) for member in sorted(case.members)},
    }


def _load_balance(value: Any) -> LoadBalance:
    options = _object(value, "load_balance", LoadBalance._fields, required=())
    threshold = _rate(options.get("threshold", USUAL.threshold), "load_balance.threshold")
    if threshold <= 1:
        _fail("load_balance.threshold", f"expected a number above 1, got {_abbreviated(threshold)}")
    return LoadBalance(
        threshold,
        _count(options.get("after_ms", USUAL.after_ms), "load_balance.after_ms"),
        _count(options.get("max_moves", USUAL.max_moves), "load_balance.max_moves"),
    )


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


def _json(text: str | bytes) -> Any:
    if len(text) > MOST_BYTES:
        raise CaseError(f"the case is larger than {MOST_BYTES >> 20} MiB")
    try:
        words = text.decode("utf-8-sig") if isinstance(text, bytes) else text
    except UnicodeDecodeError as error:
        raise CaseError(f"the case is not UTF-8: byte {error.start} can't be read") from None
    if not words.strip():
        raise CaseError('the case is empty: it is a JSON object like {"topics": {"orders": 2}, "members": {}}')
    try:
        return json.loads(words, object_pairs_hook=_unique, parse_constant=_constant)
    except json.JSONDecodeError as error:
        raise CaseError(f"the case is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise CaseError("the case is not JSON that can be read: it is nested too deeply") from None
    except CaseError:
        raise
    except ValueError:  # Python's own limit on digits
        raise CaseError("the case has a number that is too long to be read") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        raise CaseError(
            f"the key {quoted(next(key for key in keys if keys.count(key) > 1))} stands twice in one object"
        )
    return value


def _constant(word: str) -> NoReturn:
    raise CaseError(f"{word} is no number that JSON has")


def _topics(value: Any) -> dict[str, int]:
    topics = {topic: _count(count, f"topics.{_bare(topic)}") for topic, count in _mapping(value, "topics").items()}
    check_size(topics)
    return topics


def check_size(topics: Mapping[str, int]) -> None:
    """Raise CaseError for more than ``MOST_PARTITIONS``."""
    if (total := sum(topics.values())) > MOST_PARTITIONS:
        raise CaseError(f"topics: {total:,} partitions are too many, at most {MOST_PARTITIONS:,}")


def _member(value: Any, path: str, names: dict[str, str]) -> MemberSubscription:
    fields = _object(value, path, MEMBER_KEYS, required=("topics",))
    owned = _partitions(fields.get("owned", []), f"{path}.owned", names)
    return MemberSubscription(
        topics=_subscription(fields["topics"], f"{path}.topics", names),
        owned=owned,
        generation=_generation(fields.get("generation", -1), f"{path}.generation"),
        instance_id=_optional(fields.get("instance_id"), f"{path}.instance_id"),
        rack=_optional(fields.get("rack"), f"{path}.rack"),
        since=_by_partition(fields.get("since", []), f"{path}.since", 3, _acquisition),
        loads=_by_partition(fields.get("loads", []), f"{path}.loads", 5, _load),
    )


def _subscription(value: Any, path: str, names: dict[str, str]) -> tuple[str, ...]:
    topics = tuple(
        names.setdefault(name, name)
        for place, item in enumerate(_list(value, path))
        for name in [_name(item, f"{path}[{place}]")]
    )
    _no_duplicates(topics, path, quoted)
    return topics


def _partitions(value: Any, path: str, names: dict[str, str]) -> tuple[Partition, ...]:
    """``[["orders", 0], …]``; fast for a million of them."""
    partitions: list[Partition] = []
    for item in _list(value, path):
        if (
            type(item) is list
            and len(item) == 2
            and type(item[0]) is str
            and type(item[1]) is int
            and 0 <= item[1] <= MOST_GENERATION
        ):
            partitions.append((names.setdefault(item[0], item[0]), item[1]))
        else:
            _partition(item, f"{path}[{len(partitions)}]", 2)
    _no_duplicates(partitions, path, lambda partition: f"{_bare(partition[0])}-{partition[1]}")
    return tuple(partitions)


def _partition(item: Any, path: str, length: int) -> Partition:
    """The first two of a list of ``length``."""
    shape = "[topic, partition" + {2: "]", 3: ", generation]", 5: ", records, bytes, backlog]"}[length]
    if type(item) is not list or len(item) != length:
        _fail(path, f"expected {shape}, got {_abbreviated(item)}")
    topic, number = item[:2]
    return _name(topic, f"{path}[0]"), _count(number, f"{path}[1]")


def _by_partition(value: Any, path: str, length: int, make: Callable[[list[Any], str], T]) -> dict[Partition, T]:
    values: dict[Partition, T] = {}
    for place, item in enumerate(_list(value, path)):
        partition = _partition(item, f"{path}[{place}]", length)
        if partition in values:
            _fail(path, f"{_bare(partition[0])}-{partition[1]} stands twice")
        values[partition] = make(item[2:], f"{path}[{place}]")
    return values


def _acquisition(figures: list[Any], path: str) -> int:
    return _generation(figures[0], f"{path}[2]")


def _load(figures: list[Any], path: str) -> Load:
    records, size = (_rate(figures[place], f"{path}[{place + 2}]") for place in (0, 1))
    return Load(records, size, _count(figures[2], f"{path}[4]", most=int(MOST)))


def _rate(value: Any, path: str) -> float:
    if type(value) not in (int, float) or not 0 <= value <= MOST:
        _fail(path, f"expected a number from 0 to {f'{MOST:g}'.replace('+', '')}, got {_abbreviated(value)}")
    return float(value)


def _racks(value: Any, topics: Mapping[str, int]) -> Racks:
    racks: dict[str, tuple[tuple[str, ...], ...]] = {}
    row_of: dict[tuple[str, ...], tuple[str, ...]] = {}
    for topic, partitions in _mapping(value, "racks").items():
        path = f"racks.{_bare(topic)}"
        if topic not in topics:
            _fail("racks", f"there is no topic {quoted(topic)}{nearest(topic, topics)}")
        rows = _list(partitions, path)
        if len(rows) != topics[topic]:
            _fail(path, f"{counted(len(rows), 'partition')} listed, but topics has {topics[topic]:,} of them")
        topic_racks = []
        for place, row in enumerate(rows):
            try:
                names = row_of.get(tuple(row)) if type(row) is list else None
            except TypeError:  # unhashable, so no name of a rack
                names = None
            topic_racks.append(_new_row(row, f"{path}[{place}]", row_of) if names is None else names)
        racks[topic] = tuple(topic_racks)
    return racks


def _new_row(row: Any, path: str, row_of: dict[tuple[str, ...], tuple[str, ...]]) -> tuple[str, ...]:
    """The racks of a partition, checked once for each kind: a million partitions have few kinds."""
    if type(row) is not list or not all(type(rack) is str and rack for rack in row):
        _fail(path, f'expected the racks of its replicas, like ["a", "b"], got {_abbreviated(row)}')
    return row_of.setdefault(tuple(row), tuple(dict.fromkeys(row)))


# --- values ----------------------------------------------------------------------------------------------


def _object(value: Any, path: str, keys: tuple[str, ...], required: tuple[str, ...]) -> dict[str, Any]:
    fields = _mapping(value, path)
    for key in fields:
        if key not in keys:
            _fail(path, f"unknown key {quoted(key)}{nearest(key, keys)}")
    for key in required:
        if key not in fields:
            _fail(path, f"the key {quoted(key)} is missing")
    return {
        key: item for key, item in fields.items() if item is not None or key in required
    }  # null is the same as a missing key


def _mapping(value: Any, path: str) -> dict[str, Any]:
    if type(value) is not dict:
        _fail(path, f"expected a JSON object, got {_abbreviated(value)}")
    if "" in value:
        _fail(path, "an empty name")
    return value


def _list(value: Any, path: str) -> list[Any]:
    if type(value) is not list:
        _fail(path, f"expected a JSON list, got {_abbreviated(value)}")
    return value


def _name(value: Any, path: str) -> str:
    if type(value) is not str or not value:
        _fail(path, f"expected a name, got {_abbreviated(value)}")
    return value


def _optional(value: Any, path: str) -> str | None:
    return None if value is None else _name(value, path)


def _count(value: Any, path: str, most: int = MOST_GENERATION) -> int:
    if type(value) is not int or not 0 <= value <= most:
        _fail(path, f"expected a whole number from 0 to {most:,}, got {_abbreviated(value)}")
    return value


def _generation(value: Any, path: str) -> int:
    if type(value) is not int or not -1 <= value <= MOST_GENERATION:
        _fail(path, f"expected a generation, a whole number from 0 on, or -1 for none, got {_abbreviated(value)}")
    return value


def _no_duplicates(values: Iterable[T], path: str, name: Callable[[T], str]) -> None:
    items = list(values)
    if len(set(items)) == len(items):
        return
    earlier: set[T] = set()
    twice = next(item for item in items if item in earlier or earlier.add(item))  # type: ignore[func-returns-value]
    _fail(path, f"{name(twice)} stands twice")


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


def _bare(name: str) -> str:
    """A name in a path."""
    return name if name.isprintable() and len(name) <= 60 else quoted(name)


def _abbreviated(value: Any) -> str:
    if isinstance(value, dict | list) and value:
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value):,}"
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


def _fail(path: str, problem: str) -> NoReturn:
    raise CaseError(f"{path}: {problem}" if path else problem)
