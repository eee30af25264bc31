"""A rebalance in one line: why, who, what moved, how long.

>>> t = [TopicPartition("t", n) for n in range(4)]
>>> done = Rebalanced(7, "bb joined", 100, 103, "range", ("a", "bb"), {"a": (t[0], t[1], t[2], t[3])}, {"a": (t[0],), "bb": (t[1], t[2])})
>>> line(done, {t[3]: "a"}, {"a": "executor 1", "bb": "executor 2"}.__getitem__)
'rebalance to generation 7 in 3 ms (executor 2 joined): moved 2 partitions (t-1, t-2: executor 1 -> executor 2); executor 1 gives up t-3'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from sparkcohort.runtime.protocol import Rebalanced, TopicPartition

NAMED = 6  # partitions named in a line; the rest are counted


def moves(done: Rebalanced) -> dict[tuple[str, str], list[TopicPartition]]:
    """The partitions that got another owner, by (from, to); from is empty where nobody had them."""
    before = {tp: member for member, partitions in done.before.items() for tp in partitions}
    found: dict[tuple[str, str], list[TopicPartition]] = {}
    for member, partitions in sorted(done.after.items()):
        for tp in sorted(partitions):
            if before.get(tp, "") != member:
                found.setdefault((before.get(tp, ""), member), []).append(tp)
    return found


def line(done: Rebalanced, revoking: Mapping[TopicPartition, str], name: Callable[[str], str]) -> str:
    """The line; ``revoking`` maps what is being given up to who gives it up, ``name`` makes a member readable."""
    parts = []
    moved = moves(done)
    if moved:
        routes = [
            f"{_named(tps)}: {name(old) if old else 'nobody'} -> {name(new)}"
            for (old, new), tps in sorted(moved.items())
        ]
        parts.append(f"moved {sum(map(len, moved.values()))} partitions ({'; '.join(routes)})")
    parts += [
        f"{name(member)} gives up {_named(tp for tp, by in revoking.items() if by == member)}"
        for member in sorted(set(revoking.values()))
    ]
    reason = readable(done.reason, {*done.members, *done.before}, name)
    what = "; ".join(parts) or "nothing moved"
    return f"rebalance to generation {done.generation} in {done.ended_ms - done.started_ms} ms ({reason}): {what}"


def readable(words: str, member_ids: Iterable[str], name: Callable[[str], str]) -> str:
    """The group's own words with people's names in place of these member ids."""
    for member in sorted(member_ids, key=len, reverse=True):  # no id is the beginning of another
        words = words.replace(member, name(member))
    return words


def ranges(partitions: Iterable[tuple[str, int]]) -> str | None:
    """Partitions by topic, neighbours as ranges: ``orders:0-99,120;returns:4``; what a person can read of thousands."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return ";".join(f"{topic}:{runs(sorted(numbers))}" for topic, numbers in sorted(by_topic.items())) or None


def runs(numbers: Sequence[int]) -> str:
    """Ascending numbers, neighbours as ranges: ``0-99,120``."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def _named(partitions: Iterable[TopicPartition]) -> str:
    names = [f"{tp.topic}-{tp.partition}" for tp in sorted(partitions)]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
