"""The weight of a partition: the work that it makes for its owner, in millionths of a mean partition's.

Work is records and bytes: each record costs its parsing and its row, each byte its way from the broker to Spark.  So a
weight is half a partition's share of all records per second and half its share of all bytes.  A backlog counts as if
it were read within a minute (``CATCH_UP_S``): a partition whose readers can't keep up isn't a calm one.  A tenth of the
weight (``BASE``) is constant: each partition is in every fetch and has its part of the buffer, and a silent one may
wake up.  A partition without a report weighs as much as the median of the others; their mean would be that of a few
busy ones.

Law: weights are whole numbers, so their sums are the same in any order.  C0 owns t0 and reports 30 and 10 records per
second.  C1 has no report of t1 yet.  Then C1 reports a backlog:

>>> weigh_partitions([("t0", 0), ("t0", 1), ("t1", 0)], {("t0", 0): Load(30.0, 3e3), ("t0", 1): Load(10.0, 1e3)})
{('t0', 0): 1450000, ('t0', 1): 550000, ('t1', 0): 1000000}
>>> weigh_partitions([("t0", 0), ("t1", 0)], {("t0", 0): Load(10.0, 1e3), ("t1", 0): Load(10.0, 1e3, backlog=1200)})
{('t0', 0): 550000, ('t1', 0): 1450000}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt

from sparkcohort.assignors.api import Load, MemberSubscription, Partition
from sparkcohort.assignors.solver.ownership import Ownership

MEAN: Final = 1_000_000
CATCH_UP_S: Final = 60
BASE: Final = 0.1
MOST: Final = 1e15
"""More records or bytes than any partition has: a report of more is ignored."""
_LEAST_RATE = 1e-3  # a record in a quarter of an hour: below it the size of records is unknown


def credible(load: Load) -> bool:
    """Whether these can be figures of a partition: finite, not negative, not beyond measure."""
    records, size, backlog = load
    return 0 <= records <= MOST and 0 <= size <= MOST and 0 <= backlog <= MOST


def observed_loads(
    topics: Mapping[str, int], members: Mapping[str, MemberSubscription], ownership: Ownership
) -> dict[Partition, Load]:
    """The load of each partition that exists and has a report: its owner's, without an owner the largest."""
    owner = ownership.owner
    owners_reports: dict[Partition, Load] = {}
    other_reports: dict[Partition, Load] = {}
    for member, subscription in members.items():
        for partition, load in subscription.loads.items():
            if not credible(load):
                continue
            if owner.get(partition) == member:
                owners_reports[partition] = load
            elif 0 <= partition[1] < topics.get(partition[0], 0):
                other_reports[partition] = max(other_reports.get(partition, load), load)
    return {**other_reports, **owners_reports}


def weigh_partitions(partitions: Sequence[Partition], loads: Mapping[Partition, Load]) -> dict[Partition, int]:
    """The weight of each partition (see the module's text), sorted as they are; ``loads`` are credible."""
    reports = [loads.get(partition) for partition in partitions]
    known_loads = [load for load in reports if load is not None]
    cost = np.ones(len(reports))
    if known_loads:
        known_costs = _costs(known_loads)
        cost[:] = np.median(known_costs)
        cost[[load is not None for load in reports]] = known_costs
    weights = np.rint(MEAN * (BASE + (1 - BASE) * cost)).astype(np.int64)
    return dict(zip(partitions, weights.tolist(), strict=True))


def _costs(loads: Sequence[Load]) -> npt.NDArray[np.float64]:
    """The work of each partition; 1 is the mean.  All are 1 if there is no load at all."""
    records, size, backlog = np.fromiter(chain.from_iterable(loads), np.float64, 3 * len(loads)).reshape(-1, 3).T
    usual = size.sum() / max(records.sum(), _LEAST_RATE)
    record_size = np.divide(size, records, out=np.full(len(loads), usual), where=(records > _LEAST_RATE) & (size > 0))
    rate = records + backlog / CATCH_UP_S
    volume = np.where(size > 0, size + backlog / CATCH_UP_S * record_size, rate * usual)
    parts = [part / total * len(loads) for part in (rate, volume) if (total := part.sum()) > 0]
    return sum(parts[1:], parts[0]) / len(parts) if parts else np.ones(len(loads))
