"""When an imbalance of load is worth a rebalance: once it has lasted, and not again and again.

* An imbalance counts from when it was first seen.  A look that finds none clears it, so only an imbalance that lasts for
  ``after_ms`` counts.  A round that was free to move partitions clears it too: what is left has to last again.
* A round is asked for at most once in ``after_ms``, whether it moved anything or not.
* A round for another reason (a member joined) moves nothing for the sake of load before that time is up.

>>> watch, one = ImbalanceWatch(60_000), Relief("m-2", 2.4, 3)
>>> watch.record_relief(one, 1_000), watch.due()
(None, 61000)
>>> watch.record_relief(None, 30_000), watch.record_relief(one, 40_000), watch.due()
(None, None, 100000)
>>> str(watch.request_round(100_000)), watch.has_lasted(100_000), watch.due()
('load: m-2 carried 2.4 x the mean for 60 s; 3 partitions move', True, 160000)
>>> watch.end_round(), watch.has_lasted(100_005), watch.due()
(None, False, None)
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


class ImbalanceWatch:
    """What there is to relieve, since when, and when a round was asked for last (ms)."""

    def __init__(self, after_ms: int) -> None:
        self._after_ms = after_ms
        self._relief: Relief | None = None
        self._since_ms: int | None = None
        self._asked_ms: int | None = None

    def record_relief(self, relief: Relief | None, now_ms: int) -> None:
        """The loads were looked at; ``relief`` is what a round would do now, if anything."""
        self._relief = relief
        self._since_ms = None if relief is None else now_ms if self._since_ms is None else self._since_ms

    def due(self) -> int | None:
        """When a round is to be asked for (absolute ms); None while there is no imbalance."""
        if self._since_ms is None:
            return None
        return self._after_ms + max(self._since_ms, self._since_ms if self._asked_ms is None else self._asked_ms)

    def has_lasted(self, now_ms: int) -> bool:
        """Whether a round at this time may move partitions for the sake of load."""
        return self._since_ms is not None and now_ms - self._since_ms >= self._after_ms

    def request_round(self, now_ms: int) -> Reason:
        """A round is asked for now; its reason."""
        self._asked_ms = now_ms
        relief, since_ms = self._relief, self._since_ms
        if relief is None or since_ms is None:
            return Reason(Cause.LOAD_IMBALANCE)
        partitions = f"{relief.partitions} partition{'s move' if relief.partitions > 1 else ' moves'}"
        lasted_s = (now_ms - since_ms) // 1000
        words = f"{relief.member} carried {relief.times_mean:.1f} x the mean for {lasted_s} s; {partitions}"
        return Reason(Cause.LOAD_IMBALANCE, (relief.member,), partitions=relief.partitions, said=words)

    def end_round(self) -> None:
        """A round that was free to move partitions has ended."""
        self.record_relief(None, 0)
