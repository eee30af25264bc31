"""Which member can't fetch what, on the driver: what members report, and whether the driver reaches those leaders.

The rules are in ``reachability``; here are the clock, the lock, the driver's own fetch from the leader, and the log lines.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from sparkcohort.runtime.group.validation import MemberInfo
from sparkcohort.runtime.leader import reachability
from sparkcohort.runtime.protocol.calls import MAX_WORDS, Silent
from sparkcohort.runtime.protocol.partitions import TopicPartition, names_of
from sparkcohort.runtime.shell.rpc.clock import now_ms
from sparkcohort.runtime.text import printable

log = logging.getLogger("sparkcohort.reachability")

PROBE_S: Final = 1.5
"""How long the driver waits for a leader: the agent that reported it waits for the driver's answer."""
CONFIRM_MS: Final = 4_000
"""A leader that was away for all answers all of them again within so long, also while its host is busy with its start."""
PAUSE_MS: Final = 5_000
"""After a probe that some leader left unanswered: one that is down answers no member either."""


class ReachabilityWatch:
    """All methods may be called from any thread.

    ``probe`` tells which partitions' leaders answer the driver's own fetches from these offsets within so many seconds;
    ``members`` tells who is in the group; ``on_change`` gets a reason for a rebalance, with member ids, whenever a member is
    barred or let back.
    """

    def __init__(
        self,
        probe: Callable[[Mapping[TopicPartition, int], float], frozenset[TopicPartition]],
        members: Callable[[], Mapping[str, MemberInfo]],
        on_change: Callable[[str], None],
    ) -> None:
        self._probe, self._members, self._on_change = probe, members, on_change
        self._lock, self._probing = threading.Lock(), threading.Lock()
        self._barred: reachability.Barred = {}
        self._next_probe_ms = 0
        self._answered_driver: dict[str, dict[TopicPartition, int]] = {}  # the driver, and when, though not the member

    def record_report(
        self, member: str, stuck: Mapping[TopicPartition, Silent], reached: Collection[TopicPartition] | None = None
    ) -> list[TopicPartition]:
        """What a member reports of leaders that don't answer it, and which it reached of those it was to try.

        Returns the partitions that it is barred from; the member is to try them.
        """
        now = now_ms()
        if reached is not None:
            with self._lock:
                self._barred = reachability.record_attempt(self._barred, member, reached, now)
        bars = self._barred.get(member, {})
        self._confirm(member, {tp: stand for tp, stand in stuck.items() if tp not in bars}, now)
        self.lift_expired()
        return sorted(self._barred.get(member, {}))

    def _confirm(self, member: str, stuck: Mapping[TopicPartition, Silent], now: int) -> None:
        """Bar the member from what has answered the driver, and ``CONFIRM_MS`` later still doesn't answer the member."""
        with self._lock:
            confirmed = {tp: since_ms for tp, since_ms in self._answered_driver.pop(member, {}).items() if tp in stuck}
            if confirmed:
                self._answered_driver[member] = confirmed
        reasons = {
            tp: printable(stuck[tp].reason, MAX_WORDS)
            for tp, since_ms in confirmed.items()
            if now - since_ms >= CONFIRM_MS
        }
        if reasons:
            self._cut_off(member, reasons, now)
        doubtful = {tp: max(stand.position, 0) for tp, stand in stuck.items() if tp not in confirmed}
        if doubtful and now >= self._next_probe_ms and self._probing.acquire(blocking=False):
            try:
                reached = self._probe(doubtful, PROBE_S)
            finally:
                self._probing.release()
            with self._lock:
                self._answered_driver[member] = {**confirmed, **dict.fromkeys(reached, now_ms())}
            if len(reached) < len(doubtful):
                self._next_probe_ms = now_ms() + PAUSE_MS

    def _cut_off(self, member: str, reasons: Mapping[TopicPartition, str], now: int) -> None:
        with self._lock:
            former = self._barred
            self._barred = reachability.cut_off(former, member, reasons, now)
            new = reachability.new_bars(former, self._barred)
        for partitions in new.values():
            log.warning(
                "%s can't fetch %s, though the driver can (%s): other executors own and read them now, its own tasks read them "
                "through the driver. Check the network between that host and the broker",
                self._name(member),
                names_of(partitions),
                reasons[partitions[0]],
            )
            self._on_change(f"{member} can't fetch {names_of(partitions)}")

    def lift_expired(self) -> None:
        """Admit members again to partitions that they can fetch, and ask for a rebalance."""
        with self._lock:
            former = self._barred
            self._barred = reachability.lift_expired(former, self._members().keys(), now_ms())
            back = reachability.new_bars(self._barred, former)
        for member, partitions in back.items():
            if member in self._members():
                log.info("%s may own %s again", self._name(member), names_of(partitions))
                self._on_change(f"{member} can fetch {names_of(partitions)} again")

    def barred(self) -> reachability.Barred:
        """What each member can't fetch."""
        return self._barred

    def described(self) -> list[dict[str, Any]]:
        """The same in plain values, with the reasons."""
        now, members = now_ms(), self._members()
        return [
            {
                "member_id": member,
                "executor": members[member].executor_id,
                "host": members[member].host,
                "topic": tp.topic,
                "partition": tp.partition,
                "why": bar.reason,
                "age_ms": now - bar.since_ms,
            }
            for member, bars in sorted(self._barred.items())
            if member in members
            for tp, bar in sorted(bars.items())
        ]

    def _name(self, member: str) -> str:
        info = self._members().get(member)
        return f"{info.client_id} on {info.host}" if info else member
