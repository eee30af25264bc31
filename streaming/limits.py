"""How much a batch may read: the limits of the options, shared over the partitions with a backlog.

Each partition with a backlog gets one record first.  Where a limit is too small for that, the partitions that have waited
longest since their last turn come first, and only they get more.  The rest is shared *by backlog*, as Spark does it, with a
floor: half of a limit is shared alike (max-min fairness), and no partition gets less than its part of that half.  Without
the floor one partition with a day's backlog would slow all others down until that day is read.  Where every share by backlog
is above the floor, shares are Spark's.

The floor is not more than half: after a query was down, every partition is late by the same time.  Shares by backlog bring
them to the present together, which is what watermarks need.

``maxBytesPerTrigger`` is soft, since Kafka doesn't report sizes before the records are fetched.  A record counts as the mean
of its partition, else of its topic, else as ``UNREAD_BYTES``.  At most ``GROWTH`` times the offsets that were read of a
partition so far are read of it at once, so a wrong estimate costs little.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from sparkcohort.runtime.batches.record_sizes import Sizes
from sparkcohort.runtime.protocol.partitions import TopicPartition

Amounts: TypeAlias = Mapping[TopicPartition, int]

UNREAD_BYTES: Final = 1 << 20
"""What a record of a topic without any read record counts as: the brokers' default of ``message.max.bytes``."""

GROWTH: Final = 10
"""With a limit of bytes: the most offsets of a partition in one batch, as a multiple of those read so far."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that one batch reads: offsets, bytes (estimated), offsets of single topics; None is no limit."""

    offsets: int | None = None
    nbytes: int | None = None
    topics: Mapping[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.offsets is not None or self.nbytes is not None or bool(self.topics)


UNLIMITED: Final = Limits()


def share(
    backlog: Amounts, limits: Limits, *, sizes: Sizes | None = None, turns: Amounts | None = None
) -> dict[TopicPartition, int]:
    """Divide a batch over partitions; returns the number of offsets to read of each partition, 0 included.

    Limits in offsets are never exceeded.  Without a limit in bytes the batch is as large as they allow.  ``turns`` has the
    number of the batch in which each partition was read last; a partition without one has waited longest.

    >>> a, b, c = (TopicPartition("t", p) for p in range(3))
    >>> share({a: 1_000, b: 3_000}, Limits(100)) == {a: 25, b: 75}
    True
    >>> share({a: 20, b: 10, c: 1_000_000}, Limits(100)) == {a: 20, b: 10, c: 70}
    True
    >>> share({a: 5, b: 5, c: 5}, Limits(2), turns={a: 8, b: 7}) == {a: 0, b: 1, c: 1}
    True
    """
    sizes = sizes or Sizes()
    amounts = {tp: amount for tp, amount in sorted(backlog.items()) if amount > 0}
    if limits.nbytes is not None:
        least = max(limits.nbytes // UNREAD_BYTES, 1)
        amounts = {tp: min(amount, max(GROWTH * sizes.total(tp), least)) for tp, amount in amounts.items()}
    shares, budget = dict.fromkeys(backlog, 0), _budget(limits, sizes, amounts)
    if _allows(budget, amounts):
        return shares | amounts
    order: Collection[TopicPartition] = amounts
    if not _allows(budget, dict.fromkeys(amounts, 1)):
        last = turns or {}
        order = sorted(amounts, key=lambda tp: (last.get(tp, -1), tp))
    served = _one_each(budget, order)
    more = {tp: amount - 1 for tp, amount in amounts.items() if tp in served}
    for limit in budget:
        part = {tp: more[tp] for tp in limit.costs if tp in more}
        more |= by_backlog(part, max(limit.amount, 0), limit.costs)
    return shares | {tp: 1 + amount for tp, amount in more.items()}


@dataclass(slots=True)
class _Remainder:
    """What one limit still allows while records are handed out."""

    amount: int
    costs: Amounts  # of one offset, for each partition that the limit is about
    is_soft: bool = False  # the first record is handed out whatever its size


def _budget(limits: Limits, sizes: Sizes, partitions: Collection[TopicPartition]) -> list[_Remainder]:
    """The limits of a batch, in the order in which they divide it: topics, offsets, bytes."""
    topics: dict[str, dict[TopicPartition, int]] = {topic: {} for topic in limits.topics}
    for tp in partitions:
        if tp.topic in topics:
            topics[tp.topic][tp] = 1
    budget = [_Remainder(limits.topics[topic], costs) for topic, costs in topics.items()]
    if limits.offsets is not None:
        budget.append(_Remainder(limits.offsets, dict.fromkeys(partitions, 1)))
    if limits.nbytes is not None:
        means = {tp: sizes.mean(tp) for tp in partitions}
        costs = {tp: UNREAD_BYTES if mean is None else max(mean, 1) for tp, mean in means.items()}
        budget.append(_Remainder(limits.nbytes, costs, is_soft=True))
    return budget


def _allows(budget: Iterable[_Remainder], amounts: Amounts) -> bool:
    return all(
        sum(cost * amounts[tp] for tp, cost in limit.costs.items() if tp in amounts) <= limit.amount for limit in budget
    )


def _one_each(budget: Iterable[_Remainder], order: Collection[TopicPartition]) -> set[TopicPartition]:
    """Hand out one record each, in this order, wherever the limits allow it."""
    served: set[TopicPartition] = set()
    for tp in order:
        limits = [limit for limit in budget if tp in limit.costs]
        if all(limit.costs[tp] <= limit.amount or (limit.is_soft and not served) for limit in limits):
            served.add(tp)
            for limit in limits:
                limit.amount -= limit.costs[tp]
    return served


def by_backlog(backlog: Amounts, limit: int, costs: Amounts | None = None) -> dict[TopicPartition, int]:
    """Shares of ``limit`` by backlog, none below the share in half of the limit, shared alike.

    ``costs`` are those of one offset; without them each is 1, and the shares add up to the limit exactly.

    >>> a, b, c = (TopicPartition("t", p) for p in range(3))
    >>> [*by_backlog({a: 1_000, b: 3_000}, 100).values()], [*by_backlog({a: 10, b: 3_000, c: 9_990_000}, 100).values()]
    ([25, 75], [10, 20, 70])
    """
    cost = costs or dict.fromkeys(backlog, 1)
    weights = {tp: amount * cost[tp] for tp, amount in backlog.items()}
    if sum(weights.values()) <= limit:
        return dict(backlog)
    alike = _level(weights.values(), limit // 2)
    fixed = sum(weight for weight in weights.values() if weight <= alike)
    large = sorted((weight, tp) for tp, weight in weights.items() if weight > alike)
    large_weight, granted = sum(weight for weight, _ in large), 0
    while (limit - fixed) * large[granted][0] < alike * large_weight:  # ends at the latest with the last one
        large_weight, fixed, granted = large_weight - large[granted][0], fixed + alike, granted + 1
    parts = {tp: min(weight, alike) for tp, weight in weights.items()}
    parts |= {tp: (limit - fixed) * weight // large_weight for weight, tp in large[granted:]}
    shares = {tp: part // cost[tp] for tp, part in parts.items()}
    remainder = limit - sum(amount * cost[tp] for tp, amount in shares.items())
    remainders = {tp: (limit - fixed) * weight % large_weight for weight, tp in large[granted:]}
    order = sorted(backlog, key=lambda tp: (shares[tp] * cost[tp] - parts[tp], -remainders.get(tp, 0), tp))
    for most in (1, limit):  # one more each; then, where costs differ, as many as still fit
        for tp in order:
            more = min(backlog[tp] - shares[tp], remainder // cost[tp], most)
            shares[tp], remainder = shares[tp] + more, remainder - more * cost[tp]
    return shares


def _level(weights: Iterable[int], amount: int) -> int:
    """The most that each may have when all share an amount alike and unneeded parts go to the others (max-min fairness).

    >>> _level([10, 90, 90], 110)
    50
    """
    order = sorted(weights)
    for place, weight in enumerate(order):
        if weight * (len(order) - place) > amount:
            return amount // (len(order) - place)
        amount -= weight
    return order[-1] if order else 0
