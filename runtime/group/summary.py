"""A rebalance in one line: why, who, what moved, how long.

>>> t = [TopicPartition("t", n) for n in range(4)]
>>> from sparkcohort.runtime.protocol.reasons import Cause, Reason
>>> why = Reason(Cause.MEMBER_JOINED, ("bb",))
>>> done = Rebalanced(7, why, 100, 103, "range", ("a", "bb"), {"a": (t[0], t[1], t[2], t[3])}, {"a": (t[0],), "bb": (t[1], t[2])})
>>> line(done, routes(done, {}), {t[3]: "a"}, {"a": "executor-1", "bb": "executor-2"}.__getitem__)
'rebalance to generation 7 in 3 ms (executor-2 joined): moved 2 partitions (t-1, t-2: executor-1 -> executor-2); executor-1 gives up t-3'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from sparkcohort.runtime.protocol.messages import Rebalanced
from sparkcohort.runtime.protocol.partitions import TopicPartition, names_of
from sparkcohort.runtime.text import counted

MOST_NAMED = 6  # partitions named in a line; the rest are counted


Routes: TypeAlias = Mapping[tuple[str, str], Sequence[TopicPartition]]
"""Partitions by (who had them last, who has them now); the former is empty where no member ever had them."""


def routes(done: Rebalanced, last: Mapping[TopicPartition, str]) -> Routes:
    """The partitions that a rebalance gave to a member; ``last`` has the last owner of each, also of those without one now.

    A partition *moves* when it is given to another member than the one that had it last.  A cooperative rebalance revokes it in
    one round and assigns it in the next (KIP-429), and what a departed member had waits for a replacement (KIP-415): it
    moves in the round in which its new owner gets it.
    """
    previous = {tp: member for member, partitions in done.previous_assignment.items() for tp in partitions}
    by_route: dict[tuple[str, str], list[TopicPartition]] = {}
    for member, partitions in sorted(done.assignment.items()):
        for tp in sorted(partitions):
            if previous.get(tp) != member:
                old = previous.get(tp) or last.get(tp, "")
                by_route.setdefault(("" if old == member else old, member), []).append(tp)
    return by_route


def moved_partitions(moves: Routes) -> tuple[TopicPartition, ...]:
    """Those of the partitions that another member had before, in order."""
    return tuple(sorted(tp for (old, _), partitions in moves.items() if old for tp in partitions))


def line(done: Rebalanced, moves: Routes, revoking: Mapping[TopicPartition, str], name: Callable[[str], str]) -> str:
    """The line; ``revoking`` maps what is being given up to who gives it up, ``name`` makes a member readable."""
    parts = []
    if count := len(moved_partitions(moves)):
        ways = [
            f"{names_of(tps, MOST_NAMED)}: {name(old)} -> {name(new)}"
            for (old, new), tps in sorted(moves.items())
            if old
        ]
        parts.append(f"moved {counted(count, 'partition')} ({'; '.join(ways)})")
    fresh = {new: tps for (old, new), tps in sorted(moves.items()) if not old}
    if fresh:
        ways = [f"{names_of(tps, MOST_NAMED)}: {name(new)}" for new, tps in fresh.items()]
        parts.append(
            f"assigned {counted(sum(map(len, fresh.values())), 'partition')} that no member had ({'; '.join(ways)})"
        )
    parts += [
        f"{name(member)} gives up {names_of((tp for tp, owner in revoking.items() if owner == member), MOST_NAMED)}"
        for member in sorted(set(revoking.values()))
    ]
    reason = with_names(str(done.reason), {*done.members, *done.previous_assignment}, name)
    changes = "; ".join(parts) or "nothing moved"
    return f"rebalance to generation {done.generation} in {done.ended_ms - done.started_ms} ms ({reason}): {changes}"


def with_names(words: str, member_ids: Iterable[str], name: Callable[[str], str]) -> str:
    """The group's own words with people's names in place of these member ids."""
    for member in sorted(member_ids, key=len, reverse=True):  # no id is the beginning of another
        words = words.replace(member, name(member))
    return words


def ranges(partitions: Iterable[tuple[str, int]]) -> str | None:
    """Partitions by topic, neighbours as ranges: ``orders-0..99,120;returns-4``; what a person can read of thousands.

    One is spelled as everywhere else, ``returns-4``.
    """
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return ";".join(f"{topic}-{runs(sorted(numbers), '..')}" for topic, numbers in sorted(by_topic.items())) or None


def runs(numbers: Sequence[int], separator: str = "-") -> str:
    """Ascending numbers, neighbours as ranges: ``0-99,120``."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(first) if first == last else f"{first}{separator}{last}" for first, last in spans)
