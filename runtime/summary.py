"""A rebalance in one line: why, who, what moved, how long.

>>> t = [TopicPartition("t", n) for n in range(4)]
>>> done = Rebalanced(7, "bb joined", 100, 103, "range", ("a", "bb"), {"a": (t[0], t[1], t[2], t[3])}, {"a": (t[0],), "bb": (t[1], t[2])})
>>> line(done, {t[3]: "a"}, {"a": "executor 1", "bb": "executor 2"}.__getitem__)
'rebalance to generation 7 in 3 ms (executor 2 joined): moved 2 partitions (t-1, t-2: executor 1 -> executor 2); executor 1 gives up t-3'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

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
    reason = done.reason
    for member in sorted({*done.members, *done.before}, key=len, reverse=True):  # no id is the beginning of another
        reason = reason.replace(member, name(member))
    what = "; ".join(parts) or "nothing moved"
    return f"rebalance to generation {done.generation} in {done.ended_ms - done.started_ms} ms ({reason}): {what}"


def _named(partitions: Iterable[TopicPartition]) -> str:
    names = [f"{tp.topic}-{tp.partition}" for tp in sorted(partitions)]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
