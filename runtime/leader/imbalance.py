"""The loads of partitions as members reported them last, and when an imbalance is worth a rebalance.

A report counts only for partitions that the member owns at that moment, so a false report harms only its own partitions.  A
partition's load stays until its owner reports it again: when the partition moves, its load moves with it.

A round is asked for once an imbalance has lasted, and not again and again:

* An imbalance counts from when it was first seen.  A look that finds none clears it, so only an imbalance that lasts for
  ``after_ms`` counts.  A round that was free to move partitions clears it too: what is left has to last again.
* A round is asked for at most once in ``after_ms``, whether it moved anything or not.
* A round for another reason (a member joined) moves nothing for the sake of load before that time is up.

>>> watch, one = LoadWatch(1.2, 60_000, 5), Relief("m-2", 2.4, 3)
>>> watch.record_relief(one, 1_000), watch.due()
(None, 61000)
>>> watch.record_relief(None, 30_000), watch.record_relief(one, 40_000), watch.due()
(None, None, 100000)
>>> str(watch.request_round(100_000)), watch.has_lasted(100_000), watch.due()
('load: m-2 carried 2.4 x the mean for 60 s; 3 partitions move', True, 160000)
>>> watch.end_round(100_005), watch.has_lasted(100_005), watch.due()
(None, False, None)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from sparkcohort.assignors import Load, MemberSubscription, Partition
from sparkcohort.assignors.load_balanced import LoadBalancedAssignor, Relief, shares
from sparkcohort.runtime.group.rebalance import joined_members
from sparkcohort.runtime.group.state import Group
from sparkcohort.runtime.group.table import GroupState
from sparkcohort.runtime.leader import assignment, load_report
from sparkcohort.runtime.protocol.messages import JoinedMember
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.protocol.reasons import Cause, Reason

if TYPE_CHECKING:
    from sparkcohort.runtime.leader.delayed_rebalance import Round

NAME: Final = LoadBalancedAssignor.name


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


class LoadWatch:
    """Loads by partition, and when a round for their sake is due; times in ms of the group's clock."""

    def __init__(self, threshold: float, after_ms: int, max_moves: int) -> None:
        self._assignor = LoadBalancedAssignor(threshold=threshold, max_moves=max_moves)
        self._after_ms = after_ms
        self.loads: Mapping[Partition, Load] = {}  # the last of each partition
        self._looked_ms: int | None = None
        self._relief: Relief | None = None  # what a round would do now
        self._since_ms: int | None = None  # since when it would do something
        self._asked_ms: int | None = None

    def on_load_report(self, owned: Collection[TopicPartition], loads: Mapping[TopicPartition, Load]) -> None:
        """Store a member's loads of the partitions that it owns."""
        self.loads = {**self.loads, **{tp: load for tp, load in loads.items() if tp in owned}}

    def check_imbalance(
        self, group: Group, make_round: Callable[[str, Sequence[JoinedMember]], Round], now_ms: int
    ) -> None:
        """Check, once for each interval of reports, whether a round would relieve an imbalance.

        ``make_round`` makes a round of the protocol's name and the members.
        """
        recent = self._looked_ms is not None and now_ms - self._looked_ms < load_report.interval_ms(self._after_ms)
        if recent or group.state is not GroupState.STABLE or group.protocol_name != NAME:
            return
        self._looked_ms = now_ms
        group_round = make_round(NAME, joined_members(group))
        self.loads = {tp: load for tp, load in self.loads.items() if tp[1] < group_round.topics.get(tp[0], 0)}
        subscriptions = assignment.subscriptions(group_round.members, group_round.owned)
        subscriptions = self.balance(now_ms).with_loads(subscriptions)
        self.record_relief(self._assignor.relief(*assignment.assignor_input(group_round, subscriptions)), now_ms)

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

    def balance(self, now_ms: int) -> Balance:
        """The loads and assignor of a round that is led now; without a lasting imbalance it moves nothing for load."""
        lasted = self.has_lasted(now_ms)
        return Balance(self._assignor if lasted else replace(self._assignor, max_moves=0), self.loads)

    def end_round(self, now_ms: int) -> None:
        """The assignor has led a round: its imbalance is dealt with."""
        if self.has_lasted(now_ms):
            self.record_relief(None, now_ms)

    def loads_by_member(self, owned: Mapping[str, Collection[TopicPartition]]) -> dict[str, dict[str, Any]]:
        """The load of each member in plain values; empty before the first report."""
        loads_now = self.loads
        if not loads_now:
            return {}
        share = shares({member: sorted(partitions) for member, partitions in sorted(owned.items())}, loads_now)
        rows = {}
        for member, partitions in owned.items():
            loads = [loads_now[tp] for tp in partitions if tp in loads_now]
            rows[member] = {
                "records_per_second": round(sum(load.records for load in loads), 1),
                "bytes_per_second": round(sum(load.bytes for load in loads)),
                "backlog": sum(load.backlog for load in loads),
                "share": round(share[member], 4),
            }
        return rows
