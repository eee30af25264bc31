"""A group as ``cohort simulate`` is given it: topics, members with what they hold, racks.  Read from JSON, written back.

>>> case = parse('{"topics": {"orders": 2}, "members": {"m1": {"topics": ["orders"], "owned": [["orders", 0]]}}}')
>>> case.members["m1"].owned, case.members["m1"].generation
((('orders', 0),), -1)
>>> parse('{"topics": {"orders": 2}, "member": {}}')
Traceback (most recent call last):
    ...
sparkcohort.cli.simulate.case.CaseError: unknown key "member"; did you mean "members"?

Nothing is guessed: a key that isn't known, a value of the wrong type, a partition that one member states twice is an
error that names its place.  What a real group may well state is no error: two members that claim one partition, claims
of partitions that don't exist, subscriptions to topics that don't.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

from sparkcohort.assignors import Load, MemberSubscription, Partition, Racks
from sparkcohort.assignors.load.weights import MOST
from sparkcohort.runtime.text import counted

T = TypeVar("T")

MOST_BYTES: Final = 512 * 2**20
MOST_PARTITIONS: Final = 5_000_000
MOST_MEMBERS: Final = 100_000
MOST_GENERATION: Final = 2**31 - 1  # Kafka's is 32 bits wide

CASE_KEYS: Final = ("assignor", "topics", "racks", "members", "load_balance")
MEMBER_KEYS: Final = ("topics", "owned", "generation", "instance_id", "rack", "since", "loads")


class LoadBalance(NamedTuple):
    """The options ``load.balance.*``: from how many times its fair share on, after how long, how many moves a round."""

    threshold: float = 1.2
    after_ms: int = 60_000
    max_moves: int = 5


USUAL: Final = LoadBalance()


class CaseError(ValueError):
    """What is wrong with a case or a change of it: one line that names the place and the remedy."""


@dataclass(frozen=True, slots=True)
class Case:
    """A group before a rebalance; ``assignor`` is empty where the case names none.

    ``names`` maps a member id to the name that people use (a client id), where it has one; ``notes`` tell, a line
    each, what its source couldn't know.
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
    said = _object(_json(text), "", CASE_KEYS, required=("topics", "members"))
    shared: dict[str, str] = {}
    topics = _topics(said["topics"])
    members = _mapping(said["members"], "members")
    if len(members) > MOST_MEMBERS:
        _fail("members", f"{len(members):,} are too many, at most {MOST_MEMBERS:,}")
    return Case(
        topics=topics,
        members={member: _member(value, f"members.{_bare(member)}", shared) for member, value in members.items()},
        racks=_racks(said.get("racks", {}), topics),
        assignor="" if "assignor" not in said else _name(said["assignor"], "assignor"),
        load_balance=_load_balance(said.get("load_balance", {})),
    )


def as_value(case: Case) -> dict[str, Any]:
    """The case as ``parse`` reads it, in plain values; what is at its default is left out."""
    racks = {topic: [sorted(where) for where in case.racks[topic]] for topic in sorted(case.racks)}
    return {
        **({"assignor": case.assignor} if case.assignor else {}),
        "topics": dict(sorted(case.topics.items())),
        **({"racks": racks} if racks else {}),
        **({"load_balance": case.load_balance._asdict()} if case.load_balance != USUAL else {}),
        "members": {member: _subscription_json(case.members[member]) for member in sorted(case.members)},
    }


def _load_balance(value: Any) -> LoadBalance:
    said = _object(value, "load_balance", LoadBalance._fields, required=())
    threshold = _rate(said.get("threshold", USUAL.threshold), "load_balance.threshold")
    if threshold <= 1:
        _fail("load_balance.threshold", f"expected a number above 1, got {_abbreviated(threshold)}")
    return LoadBalance(
        threshold,
        _count(said.get("after_ms", USUAL.after_ms), "load_balance.after_ms"),
        _count(said.get("max_moves", USUAL.max_moves), "load_balance.max_moves"),
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
        value["since"] = [[*partition, at] for partition, at in sorted(member.since.items())]
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
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise CaseError(
            f"the key {quoted(next(key for key in keys if keys.count(key) > 1))} stands twice in one object"
        )
    return found


def _constant(word: str) -> NoReturn:
    raise CaseError(f"{word} is no number that JSON has")


def _topics(value: Any) -> dict[str, int]:
    topics = {topic: _count(count, f"topics.{_bare(topic)}") for topic, count in _mapping(value, "topics").items()}
    check_size(topics)
    return topics


def check_size(topics: Mapping[str, int]) -> None:
    """Raise CaseError for more partitions than are worth trying."""
    if (total := sum(topics.values())) > MOST_PARTITIONS:
        raise CaseError(f"topics: {total:,} partitions are too many, at most {MOST_PARTITIONS:,}")


def _member(value: Any, where: str, shared: dict[str, str]) -> MemberSubscription:
    said = _object(value, where, MEMBER_KEYS, required=("topics",))
    owned = _partitions(said.get("owned", []), f"{where}.owned", shared)
    return MemberSubscription(
        topics=_subscription(said["topics"], f"{where}.topics", shared),
        owned=owned,
        generation=_generation(said.get("generation", -1), f"{where}.generation"),
        instance_id=_optional(said.get("instance_id"), f"{where}.instance_id"),
        rack=_optional(said.get("rack"), f"{where}.rack"),
        since=_by_partition(said.get("since", []), f"{where}.since", 3, _since),
        loads=_by_partition(said.get("loads", []), f"{where}.loads", 5, _load),
    )


def _subscription(value: Any, where: str, shared: dict[str, str]) -> tuple[str, ...]:
    topics = tuple(
        shared.setdefault(name, name)
        for place, item in enumerate(_list(value, where))
        for name in [_name(item, f"{where}[{place}]")]
    )
    _no_duplicates(topics, where, quoted)
    return topics


def _partitions(value: Any, where: str, shared: dict[str, str]) -> tuple[Partition, ...]:
    """``[["orders", 0], …]``; written for a million of them."""
    found: list[Partition] = []
    for item in _list(value, where):
        if (
            type(item) is list
            and len(item) == 2
            and type(item[0]) is str
            and type(item[1]) is int
            and 0 <= item[1] <= MOST_GENERATION
        ):
            found.append((shared.setdefault(item[0], item[0]), item[1]))
        else:
            _partition(item, f"{where}[{len(found)}]", 2)
    _no_duplicates(found, where, lambda partition: f"{_bare(partition[0])}-{partition[1]}")
    return tuple(found)


def _partition(item: Any, where: str, length: int) -> Partition:
    """The first two of a list of ``length``."""
    shape = "[topic, partition" + {2: "]", 3: ", generation]", 5: ", records, bytes, backlog]"}[length]
    if type(item) is not list or len(item) != length:
        _fail(where, f"expected {shape}, got {_abbreviated(item)}")
    topic, number = item[:2]
    return _name(topic, f"{where}[0]"), _count(number, f"{where}[1]")


def _by_partition(value: Any, where: str, length: int, make: Callable[[list[Any], str], T]) -> dict[Partition, T]:
    found: dict[Partition, T] = {}
    for place, item in enumerate(_list(value, where)):
        partition = _partition(item, f"{where}[{place}]", length)
        if partition in found:
            _fail(where, f"{_bare(partition[0])}-{partition[1]} stands twice")
        found[partition] = make(item[2:], f"{where}[{place}]")
    return found


def _since(rest: list[Any], where: str) -> int:
    return _generation(rest[0], f"{where}[2]")


def _load(rest: list[Any], where: str) -> Load:
    records, size = (_rate(rest[place], f"{where}[{place + 2}]") for place in (0, 1))
    return Load(records, size, _count(rest[2], f"{where}[4]", most=int(MOST)))


def _rate(value: Any, where: str) -> float:
    if type(value) not in (int, float) or not 0 <= value <= MOST:
        _fail(where, f"expected a number from 0 to {f'{MOST:g}'.replace('+', '')}, got {_abbreviated(value)}")
    return float(value)


def _racks(value: Any, topics: Mapping[str, int]) -> Racks:
    racks: dict[str, tuple[tuple[str, ...], ...]] = {}
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    for topic, partitions in _mapping(value, "racks").items():
        where = f"racks.{_bare(topic)}"
        if topic not in topics:
            _fail("racks", f"there is no topic {quoted(topic)}{nearest(topic, topics)}")
        rows = _list(partitions, where)
        if len(rows) != topics[topic]:
            _fail(where, f"{counted(len(rows), 'partition')} listed, but topics has {topics[topic]:,} of them")
        found = []
        for place, row in enumerate(rows):
            try:
                names = known.get(tuple(row)) if type(row) is list else None
            except TypeError:  # something in it that can't be looked up is no rack
                names = None
            found.append(_new_row(row, f"{where}[{place}]", known) if names is None else names)
        racks[topic] = tuple(found)
    return racks


def _new_row(row: Any, where: str, known: dict[tuple[str, ...], tuple[str, ...]]) -> tuple[str, ...]:
    """The racks of a partition, seen for the first time: there are few kinds of a million partitions."""
    if type(row) is not list or not all(type(rack) is str and rack for rack in row):
        _fail(where, f'expected the racks of its replicas, like ["a", "b"], got {_abbreviated(row)}')
    return known.setdefault(tuple(row), tuple(dict.fromkeys(row)))


# --- values ----------------------------------------------------------------------------------------------


def _object(value: Any, where: str, keys: tuple[str, ...], required: tuple[str, ...]) -> dict[str, Any]:
    found = _mapping(value, where)
    for key in found:
        if key not in keys:
            _fail(where, f"unknown key {quoted(key)}{nearest(key, keys)}")
    for key in required:
        if key not in found:
            _fail(where, f"the key {quoted(key)} is missing")
    return {key: item for key, item in found.items() if item is not None or key in required}  # null: not told


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if type(value) is not dict:
        _fail(where, f"expected a JSON object, got {_abbreviated(value)}")
    if "" in value:
        _fail(where, "an empty name")
    return value


def _list(value: Any, where: str) -> list[Any]:
    if type(value) is not list:
        _fail(where, f"expected a JSON list, got {_abbreviated(value)}")
    return value


def _name(value: Any, where: str) -> str:
    if type(value) is not str or not value:
        _fail(where, f"expected a name, got {_abbreviated(value)}")
    return value


def _optional(value: Any, where: str) -> str | None:
    return None if value is None else _name(value, where)


def _count(value: Any, where: str, most: int = MOST_GENERATION) -> int:
    if type(value) is not int or not 0 <= value <= most:
        _fail(where, f"expected a whole number from 0 to {most:,}, got {_abbreviated(value)}")
    return value


def _generation(value: Any, where: str) -> int:
    if type(value) is not int or not -1 <= value <= MOST_GENERATION:
        _fail(where, f"expected a generation, a whole number from 0 on, or -1 for none, got {_abbreviated(value)}")
    return value


def _no_duplicates(found: Iterable[T], where: str, name: Callable[[T], str]) -> None:
    items = list(found)
    if len(set(items)) == len(items):
        return
    seen: set[T] = set()
    twice = next(item for item in items if item in seen or seen.add(item))  # type: ignore[func-returns-value]
    _fail(where, f"{name(twice)} stands twice")


def nearest(word: str, known: Iterable[str]) -> str:
    """``; did you mean "X"?`` where something known is called nearly so, else what there is."""
    names = sorted(known)
    if near := difflib.get_close_matches(word, names, n=1, cutoff=0.5):
        return f"; did you mean {quoted(near[0])}?"
    more = f" and {len(names) - 6:,} more" if len(names) > 6 else ""
    return f"; there is {', '.join(map(quoted, names[:6]))}{more}" if names else "; there is none"


def quoted(word: str) -> str:
    """A name in an error: on one line, printable, not endless."""
    return json.dumps(word if len(word) <= 60 else f"{word[:60]}…", ensure_ascii=not word.isprintable())


def _bare(name: str) -> str:
    """A name in a path."""
    return name if name.isprintable() and len(name) <= 60 else quoted(name)


def _abbreviated(value: Any) -> str:
    if isinstance(value, dict | list) and value:
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value):,}"
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


def _fail(where: str, what: str) -> NoReturn:
    raise CaseError(f"{where}: {what}" if where else what)
