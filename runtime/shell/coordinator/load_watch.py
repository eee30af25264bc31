"""The loads of partitions on the driver, as members reported them last, and the watch for imbalance.

A report counts only for partitions that the member owns at that moment, so a false report harms only its own partitions.  A
partition's load stays until its owner reports it again: when the partition moves, its load moves with it.  All methods need the
coordinator's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sparkcohort.assignors import Load, Partition
from sparkcohort.assignors.load_balanced import LoadBalancedAssignor, Relief, shares
from sparkcohort.runtime.group.rebalance import joined_members
from sparkcohort.runtime.group.state import Group
from sparkcohort.runtime.group.table import GroupState
from sparkcohort.runtime.leader import assignment, delayed_rebalance, imbalance, load_report
from sparkcohort.runtime.protocol.messages import JoinedMember
from sparkcohort.runtime.protocol.partitions import TopicPartition

NAME: Final = LoadBalancedAssignor.name


class LoadWatch:
    """Loads by partition, and when a round for their sake is due; times in ms of the group's clock."""

    def __init__(self, threshold: float, after_ms: int, max_moves: int) -> None:
        self._assignor = LoadBalancedAssignor(threshold=threshold, max_moves=max_moves)
        self.imbalance = imbalance.ImbalanceWatch(after_ms)
        self._after_ms = after_ms
        self._loads: dict[Partition, Load] = {}
        self._looked_ms: int | None = None

    def on_load_report(self, owned: Collection[TopicPartition], loads: Mapping[TopicPartition, Load]) -> None:
        """Store a member's loads of the partitions that it owns."""
        self._loads = {**self._loads, **{tp: load for tp, load in loads.items() if tp in owned}}

    def check_imbalance(
        self, group: Group, make_round: Callable[[str, Sequence[JoinedMember]], delayed_rebalance.Round], now_ms: int
    ) -> None:
        """Check, once for each interval of reports, whether a round would relieve an imbalance.

        ``make_round`` makes a round of the protocol's name and the members.
        """
        recent = self._looked_ms is not None and now_ms - self._looked_ms < load_report.interval_ms(self._after_ms)
        if recent or group.state is not GroupState.STABLE or group.protocol_name != NAME:
            return
        self._looked_ms = now_ms
        group_round = make_round(NAME, joined_members(group))
        self._loads = {tp: load for tp, load in self._loads.items() if tp[1] < group_round.topics.get(tp[0], 0)}
        self.imbalance.record_relief(self._relief(group_round, now_ms), now_ms)

    def _relief(self, group: delayed_rebalance.Round, now_ms: int) -> Relief | None:
        subscriptions = assignment.subscriptions(group.members, group.owned)
        subscriptions = self.balance(now_ms).with_loads(subscriptions)
        return self._assignor.relief(
            *assignment.assignor_input(subscriptions, group.topics, subset=group.subset, racks=group.racks)
        )

    def balance(self, now_ms: int) -> imbalance.Balance:
        """The loads and assignor of a round that is led now; without a lasting imbalance it moves nothing for load."""
        lasted = self.imbalance.has_lasted(now_ms)
        return imbalance.Balance(self._assignor if lasted else replace(self._assignor, max_moves=0), self._loads)

    def end_round(self, now_ms: int) -> None:
        """The assignor has led a round: its imbalance is dealt with."""
        if self.imbalance.has_lasted(now_ms):
            self.imbalance.end_round()

    def loads(self) -> Mapping[Partition, Load]:
        """The last load of each partition."""
        return self._loads

    def loads_by_member(self, owned: Mapping[str, Collection[TopicPartition]]) -> dict[str, dict[str, Any]]:
        """The load of each member in plain values; empty before the first report."""
        loads_now = self._loads
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
