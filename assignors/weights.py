"""What a partition weighs: the work that it makes for its owner, in millionths of what a mean partition makes.

Work is records and bytes: each record costs its parsing and its row, each byte its way from the broker to Spark, and
which of the two a query feels depends on its records.  So a weight is half a partition's share of all records per
second and half its share of all bytes.  A backlog is work to come: it counts as if it were read within a minute
(``CATCH_UP_S``), so a partition whose readers can't keep up isn't taken for a calm one.  A tenth of the weight
(``BASE``) is the partition itself, whatever comes: it's in every fetch and has its part of the buffer, and a silent
one may wake up.  A partition that nobody has observed yet weighs as much as the median of the others: most are usual
ones, and the mean would be that of the few busy ones.

Weights are whole numbers, so sums of them are the same in any order.

>>> weigh([("t", 0), ("t", 1), ("t", 2)], {("t", 0): Load(30.0, 3e3), ("t", 1): Load(10.0, 1e3)})
{('t', 0): 1450000, ('t', 1): 550000, ('t', 2): 1000000}
>>> weigh([("t", 0), ("t", 1)], {("t", 0): Load(10.0, 1e3), ("t", 1): Load(10.0, 1e3, backlog=1200)})
{('t', 0): 550000, ('t', 1): 1450000}
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import fsum
from statistics import median
from typing import Final

from sparkcohort.assignors.base import Load, MemberSubscription, Partition
from sparkcohort.assignors.ownership import Ownership

MEAN: Final = 1_000_000
CATCH_UP_S: Final = 60
BASE: Final = 0.1
MOST: Final = 1e15
"""More records or bytes than any partition has: who says so is not believed."""
_LEAST_RATE = 1e-3  # a record in a quarter of an hour: what is slower tells nothing of its records' size


def credible(load: Load) -> bool:
    """Whether these can be figures of a partition: finite, not negative, not beyond measure."""
    return all(0 <= figure <= MOST for figure in load)


def observed(
    topics: Mapping[str, int], members: Mapping[str, MemberSubscription], ownership: Ownership
) -> dict[Partition, Load]:
    """What is known of the partitions that exist: the owner's word, of those without owner the largest that is said."""
    owner = ownership.owner
    found: dict[Partition, tuple[bool, Load]] = {}
    for member, said in members.items():
        for partition, load in said.loads.items():
            if 0 <= partition[1] < topics.get(partition[0], 0) and credible(load):
                word = (owner.get(partition) == member, load)
                if partition not in found or found[partition] < word:
                    found[partition] = word
    return {partition: load for partition, (_, load) in found.items()}


def weigh(partitions: Collection[Partition], loads: Mapping[Partition, Load]) -> dict[Partition, int]:
    """The weight of each partition (see the module's text); ``loads`` are credible."""
    known = [partition for partition in partitions if partition in loads]
    cost = dict(zip(known, _costs([loads[partition] for partition in known]), strict=True))
    usual = median(cost.values()) if cost else 1.0
    return {p: round(MEAN * (BASE + (1 - BASE) * cost.get(p, usual))) for p in partitions}


def _costs(loads: Sequence[Load]) -> list[float]:
    """Work of each partition; 1 is the mean, and what all have where nothing comes at all."""
    usual_size = fsum(load.bytes for load in loads) / max(fsum(load.records for load in loads), _LEAST_RATE)
    records = [load.records + load.backlog / CATCH_UP_S for load in loads]
    sizes = [load.bytes / load.records if load.records > _LEAST_RATE else usual_size for load in loads]
    sizes = [
        load.bytes + load.backlog / CATCH_UP_S * size if load.bytes else rate * usual_size
        for load, rate, size in zip(loads, records, sizes, strict=True)
    ]
    totals = [(part, total) for part in (records, sizes) if (total := fsum(part)) > 0]
    if not totals:
        return [1.0] * len(loads)
    return [len(loads) * sum(part[i] / total for part, total in totals) / len(totals) for i in range(len(loads))]
