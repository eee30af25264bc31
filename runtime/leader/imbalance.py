"""When an imbalance of load is worth a rebalance: once it has lasted, and not again and again.

* ``since_ms`` is when the present imbalance was first seen.  A look that finds none clears it, so only an imbalance that lasts
  for ``after_ms`` counts.  A round that was free to move partitions clears it too.
* A round is asked for at most once in ``after_ms``, whether it moved anything or not.
* A round for another reason (a member joined) moves nothing for the sake of load before that time is up.

>>> one = Relief("m-2", 2.4, 3)
>>> watch = record_relief(Watch(), one, 1_000)
>>> due(watch, 60_000)
61000
>>> due(record_relief(record_relief(watch, None, 30_000), one, 40_000), 60_000)
100000
>>> requested = record_request(record_relief(watch, one, 61_000), 61_000)
>>> has_lasted(requested, 61_000, 60_000), due(requested, 60_000)
(True, 121000)
>>> has_lasted(record_round(requested), 61_005, 60_000)
False
>>> str(reason(requested, 61_000))
'load: m-2 carried 2.4 x the mean for 60 s; 3 partitions move'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sparkcohort.assignors import Load, MemberSubscription, Partition
from sparkcohort.assignors.load_balanced import LoadBalancedAssignor, Relief
from sparkcohort.runtime.protocol.reasons import Cause, Reason


@dataclass(frozen=True, slots=True)
class Balance:
    """What is known of loads when a round is led, and the assignor as it's set up for this round."""

    assignor: LoadBalancedAssignor
    loads: Mapping[Partition, Load]

    def with_loads(self, members: Mapping[str, MemberSubscription]) -> dict[str, MemberSubscription]:
        """The members with the loads of what they claim; the first member reports those of unclaimed partitions."""
        claimed = {partition for member in members.values() for partition in member.owned}
        spare = {partition: load for partition, load in self.loads.items() if partition not in claimed}
        first = min(members, default="")
        return {
            name: replace(
                member,
                loads={
                    **{partition: self.loads[partition] for partition in member.owned if partition in self.loads},
                    **(spare if name == first else {}),
                },
            )
            for name, member in members.items()
        }


@dataclass(frozen=True, slots=True)
class Watch:
    """What there is to relieve, since when, and when a round was asked for last (ms)."""

    relief: Relief | None = None
    since_ms: int | None = None
    asked_ms: int | None = None


def record_relief(watch: Watch, relief: Relief | None, now_ms: int) -> Watch:
    """The watch after a look at the loads; ``relief`` is what a round would do now, if anything."""
    if relief is None:
        return replace(watch, relief=None, since_ms=None)
    return replace(watch, relief=relief, since_ms=now_ms if watch.since_ms is None else watch.since_ms)


def due(watch: Watch, after_ms: int) -> int | None:
    """When a round is to be asked for (absolute ms); None while there is no imbalance."""
    if watch.since_ms is None:
        return None
    return after_ms + max(watch.since_ms, watch.since_ms if watch.asked_ms is None else watch.asked_ms)


def has_lasted(watch: Watch, now_ms: int, after_ms: int) -> bool:
    """Whether a round at this time may move partitions for the sake of load."""
    return watch.since_ms is not None and now_ms - watch.since_ms >= after_ms


def record_request(watch: Watch, now_ms: int) -> Watch:
    """Remembers when a round was asked for."""
    return replace(watch, asked_ms=now_ms)


def record_round(watch: Watch) -> Watch:
    """Clears the imbalance after a round that was free to move partitions: what is left has to last again."""
    return replace(watch, relief=None, since_ms=None)


def reason(watch: Watch, now_ms: int) -> Reason:
    """Why the round that is due takes place."""
    relief, since_ms = watch.relief, watch.since_ms
    if relief is None or since_ms is None:
        return Reason(Cause.LOAD_IMBALANCE)
    partitions = f"{relief.partitions} partition{'s move' if relief.partitions > 1 else ' moves'}"
    lasted_s = (now_ms - since_ms) // 1000
    words = f"{relief.member} carried {relief.times_mean:.1f} x the mean for {lasted_s} s; {partitions}"
    return Reason(Cause.LOAD_IMBALANCE, (relief.member,), partitions=relief.partitions, said=words)
