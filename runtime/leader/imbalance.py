"""When an imbalance of load is worth a rebalance: once it has lasted, and not again and again.

* ``since_ms`` is when the imbalance that is there now was first seen.  Whenever a look finds none it is forgotten, so
  only one that lasts for ``after_ms`` counts; and what moves partitions is measured anew from its round on.
* A round is asked for at most once in ``after_ms``, whether it moved anything or not.
* Any other round that happens meanwhile (somebody joined) moves nothing for the sake of load unless the time is up.

>>> one = Relief("m-2", 2.4, 3)
>>> watch = look(Watch(), one, 1_000)
>>> due(watch, 60_000)
61000
>>> due(look(look(watch, None, 30_000), one, 40_000), 60_000)
100000
>>> asked = asked_for(look(watch, one, 61_000), 61_000)
>>> lasted(asked, 61_000, 60_000), due(asked, 60_000)
(True, 121000)
>>> lasted(done(asked), 61_005, 60_000)
False
>>> str(reason(asked, 61_000))
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

    def loaded(self, said: Mapping[str, MemberSubscription]) -> dict[str, MemberSubscription]:
        """The members with the loads of what they claim; somebody has to speak for what nobody claims: the first."""
        claimed = {partition for member in said.values() for partition in member.owned}
        spare = {partition: load for partition, load in self.loads.items() if partition not in claimed}
        first = min(said, default="")
        return {
            name: replace(
                member,
                loads={
                    **{partition: self.loads[partition] for partition in member.owned if partition in self.loads},
                    **(spare if name == first else {}),
                },
            )
            for name, member in said.items()
        }


@dataclass(frozen=True, slots=True)
class Watch:
    """What there is to relieve, since when, and when a round was asked for last (ms)."""

    found: Relief | None = None
    since_ms: int | None = None
    asked_ms: int | None = None


def look(watch: Watch, found: Relief | None, now_ms: int) -> Watch:
    """After a look at the loads: what a round would relieve now, if anything."""
    if found is None:
        return replace(watch, found=None, since_ms=None)
    return replace(watch, found=found, since_ms=now_ms if watch.since_ms is None else watch.since_ms)


def due(watch: Watch, after_ms: int) -> int | None:
    """When a round is to be asked for (absolute ms); None while there is no imbalance."""
    if watch.since_ms is None:
        return None
    return after_ms + max(watch.since_ms, watch.since_ms if watch.asked_ms is None else watch.asked_ms)


def lasted(watch: Watch, now_ms: int, after_ms: int) -> bool:
    """Whether a round at this time may move partitions for the sake of load."""
    return watch.since_ms is not None and now_ms - watch.since_ms >= after_ms


def asked_for(watch: Watch, now_ms: int) -> Watch:
    """A round is asked for."""
    return replace(watch, asked_ms=now_ms)


def done(watch: Watch) -> Watch:
    """A round was led that was free to move: what is left of the imbalance has to last anew."""
    return replace(watch, found=None, since_ms=None)


def reason(watch: Watch, now_ms: int) -> Reason:
    """Why the round that is due takes place."""
    found, since_ms = watch.found, watch.since_ms
    if found is None or since_ms is None:
        return Reason(Cause.LOAD_IMBALANCE)
    partitions = f"{found.partitions} partition{'s move' if found.partitions > 1 else ' moves'}"
    lasted_s = (now_ms - since_ms) // 1000
    said = f"{found.member} carried {found.times_mean:.1f} x the mean for {lasted_s} s; {partitions}"
    return Reason(Cause.LOAD_IMBALANCE, (found.member,), partitions=found.partitions, said=said)
