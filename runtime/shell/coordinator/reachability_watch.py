"""Who can't fetch what, on the driver: what members tell, whether the driver reaches those leaders, who is told of it.

The rules are in ``reachability``; here are the clock, the lock, the look at the leader by a fetch of the driver's own, and the
log lines.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

from sparkcohort.runtime.group.validation import MemberInfo
from sparkcohort.runtime.leader import reachability
from sparkcohort.runtime.protocol.partitions import TopicPartition, names_of
from sparkcohort.runtime.shell.process.clock import now_ms

log = logging.getLogger("sparkcohort.reachability")

LOOK_S: Final = 1.5
"""How long the driver looks whether a leader answers: the agent that told of it waits for the driver's answer."""
CONFIRM_MS: Final = 2_000
"""A leader that was away for everybody answers all of them again within so long."""
FIRST_PAUSE_MS, MOST_PAUSE_MS = 1_000, 10_000
"""Between looks that found nothing: a leader that is down answers nobody."""


class Stuck(NamedTuple):
    """Where fetching a partition stands, and why it doesn't come forward."""

    position: int
    why: str


class ReachabilityWatch:
    """All methods may be called from any thread.

    ``probe`` tells which partitions' leaders answer the driver's own fetches from these offsets within so many seconds;
    ``members`` tells who is in the group; ``on_change`` gets a reason for a
    rebalance, with member ids, whenever somebody is barred or let back.
    """

    def __init__(
        self,
        probe: Callable[[Mapping[TopicPartition, int], float], frozenset[TopicPartition]],
        members: Callable[[], Mapping[str, MemberInfo]],
        on_change: Callable[[str], None],
    ) -> None:
        """Nobody is barred."""
        self._probe, self._members, self._on_change = probe, members, on_change
        self._lock, self._looking = threading.Lock(), threading.Lock()
        self._known = reachability.Abilities()
        self._pause_ms, self._look_ms = 0, 0
        self._answered: dict[str, dict[TopicPartition, int]] = {}  # the driver, and when, though not the member

    def tell(
        self, member: str, stuck: Mapping[TopicPartition, Stuck], tried: Collection[TopicPartition] | None = None
    ) -> list[TopicPartition]:
        """What a member tells of leaders that don't answer it, and which it reached of those it was to try.

        Returns what it is barred from, which it is to try.
        """
        now = now_ms()
        if tried is not None:
            with self._lock:
                self._known = reachability.tried(self._known, member, tried, now)
        self._bar(member, {tp: seen for tp, seen in stuck.items() if tp not in self.barred().get(member, {})}, now)
        self.lift_expired()
        return sorted(self.barred().get(member, {}))

    def _bar(self, member: str, stuck: Mapping[TopicPartition, Stuck], now: int) -> None:
        """Bar the member from what has answered the driver, and ``CONFIRM_MS`` later still doesn't answer the member."""
        with self._lock:
            answered = {tp: at for tp, at in self._answered.pop(member, {}).items() if tp in stuck}
            if answered:
                self._answered[member] = answered
        sure = {tp: stuck[tp].why for tp, at in answered.items() if now - at >= CONFIRM_MS}
        if sure:
            self.cut_off(member, sure)
        doubtful = {tp: seen for tp, seen in stuck.items() if tp not in answered}
        if doubtful and now >= self._look_ms and self._looking.acquire(blocking=False):
            try:
                self._look(member, doubtful)
            finally:
                self._looking.release()

    def cut_off(self, member: str, why: Mapping[TopicPartition, str]) -> None:
        """It is known that a member can't fetch these, and that others can."""
        with self._lock:
            before = self._known
            self._known = reachability.cut_off(before, member, why, now_ms())
            new, _ = reachability.changes(before.barred, self._known.barred)
        for partitions in new.values():
            log.warning(
                "%s can't fetch %s, though the driver can (%s): other executors own and read them now, its own tasks read them "
                "through the driver. Check the network between that host and the broker",
                self._name(member),
                names_of(partitions),
                why[partitions[0]],
            )
            self._on_change(f"{member} can't fetch {names_of(partitions)}")

    def lift_expired(self) -> None:
        """Let those back who can fetch again."""
        with self._lock:
            before = self._known
            self._known = reachability.lift_expired(before, self._members().keys(), now_ms())
            _, back = reachability.changes(before.barred, self._known.barred)
        for member, partitions in back.items():
            if member in self._members():
                log.info("%s may own %s again", self._name(member), names_of(partitions))
                self._on_change(f"{member} can fetch {names_of(partitions)} again")

    def barred(self) -> reachability.Barred:
        """What each member can't fetch."""
        return self._known.barred

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
                "why": bar.why,
                "age_ms": now - bar.since_ms,
            }
            for member, bars in sorted(self.barred().items())
            if member in members
            for tp, bar in sorted(bars.items())
        ]

    def _look(self, member: str, stuck: Mapping[TopicPartition, Stuck]) -> None:
        """Note what answers the driver: where nothing does, the fault is not the member's."""
        found = self._probe({tp: seen.position for tp, seen in stuck.items()}, LOOK_S)
        if len(found) == len(stuck):
            self._pause_ms = self._look_ms = 0
        else:
            self._pause_ms = min(max(2 * self._pause_ms, FIRST_PAUSE_MS), MOST_PAUSE_MS)
            self._look_ms = now_ms() + self._pause_ms
        if found:
            with self._lock:
                self._answered[member] = {**self._answered.get(member, {}), **dict.fromkeys(found, now_ms())}

    def _name(self, member: str) -> str:
        info = self._members().get(member)
        return f"{info.client_id} on {info.host}" if info else member
