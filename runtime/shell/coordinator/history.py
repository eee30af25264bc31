"""The history of a coordinator run: its last rebalances, its last records, and the time of the last change of state.

Everything here is bounded.  Frequent records without news (heartbeats, commits) are left out.  Written under the coordinator's
lock; readers in other threads get copies.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Final, TypeAlias

from sparkcohort.runtime.group import records as r
from sparkcohort.runtime.group import summary, timeline
from sparkcohort.runtime.group.state import Group
from sparkcohort.runtime.group.table import GroupState
from sparkcohort.runtime.protocol.messages import Rebalanced
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.coordinator.totals import RebalanceTotals

HISTORY: Final = 200
"""How many rebalances are kept."""
JOURNAL: Final = 20_000
"""How many records are kept."""
MOST_MEMBERS_REMEMBERED: Final = 1_024
"""Members, present or former, whose names are kept."""
LINE_LENGTH: Final = 160

OK, FOLLOW_UP = "ok", "follow-up round due"

_FREQUENT_RECORDS = (
    r.SessionRenewed,
    r.OffsetsCommitted,
    r.JoinsAnswered,
    r.SyncsAnswered,
)
PartitionsByMember: TypeAlias = Mapping[str, tuple[TopicPartition, ...]]


@dataclass(frozen=True)
class Entry:
    """One rebalance of the history.

    ``ended_at`` is in seconds since 1970.  ``result`` is OK, FOLLOW_UP, or "failed: " with the reason.  ``giving_up`` maps
    partitions that are to be revoked to their present owners.  ``routes`` has the newly assigned partitions by former and new
    owner.  ``removed`` are the members that were removed before it, with reasons.  A generation that had no assignment when
    the next join phase began has no entry.
    """

    done: Rebalanced
    ended_at: float
    result: str
    giving_up: Mapping[TopicPartition, str]
    routes: summary.Routes
    removed: tuple[tuple[str, str], ...] = ()
    cause: str = ""

    @cached_property
    def kept_count(self) -> int:
        """How many partitions have the owner that they had."""
        owners = {tp: name for name, partitions in self.done.assignment.items() for tp in partitions}
        former = self.done.previous_assignment.items()
        return sum(owners.get(tp) == name for name, partitions in former for tp in partitions)

    @cached_property
    def moved(self) -> tuple[TopicPartition, ...]:
        """The partitions whose new owner is not their last one, in order."""
        return summary.moved_partitions(self.routes)

    @cached_property
    def revoked(self) -> tuple[TopicPartition, ...]:
        """The partitions that a member is to revoke, or that have no owner any more, in order."""
        before = frozenset(chain.from_iterable(self.done.previous_assignment.values()))
        after = frozenset(chain.from_iterable(self.done.assignment.values()))
        return tuple(sorted(self.giving_up.keys() | (before - after)))


class History:
    """The history of one coordinator run; ``wall`` returns the time of day in seconds since 1970."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self._entries: deque[Entry] = deque(maxlen=HISTORY)
        self._records: deque[tuple[float, r.GroupRecord]] = deque(maxlen=JOURNAL)
        self._names: OrderedDict[str, tuple[str, str]] = OrderedDict()
        self._removed: deque[tuple[str, str]] = deque(maxlen=MOST_MEMBERS_REMEMBERED)
        self._failure: tuple[int, str] | None = None
        self._owners: dict[TopicPartition, str] = {}  # the last owner of each partition, also of unowned ones
        self._state = GroupState.EMPTY
        self.state_since_ms = 0
        self.rebalance_totals = RebalanceTotals()
        self.agent_starts: Counter[str] = Counter()  # new members by executor: the second one is a restart

    def add_step(self, current: Group, records: Iterable[r.GroupRecord], now_ms: int) -> None:
        """Add the records of one step."""
        if current.state is not self._state:
            self._state, self.state_since_ms = current.state, now_ms
        step = [record for record in records if not isinstance(record, _FREQUENT_RECORDS)]
        time_s = self._wall() if step else 0.0
        for record in step:
            self._records.append((time_s, record))
            match record:
                case r.MemberReplaced(old_id, member):  # a static member came back under a new id (KIP-345): same owner
                    self._owners |= {tp: member.member_id for tp, owner in self._owners.items() if owner == old_id}
                case r.MemberRemoved(member_id, reason):
                    self._removed.append((member_id, reason))

    def name_member(self, member_id: str, executor_id: str, host: str) -> None:
        """Remember a member's executor and host, also for after its end."""
        if member_id not in self._names:
            self.agent_starts[executor_id] += 1
        self._names[member_id] = executor_id, host
        self._names.move_to_end(member_id)
        if len(self._names) > MOST_MEMBERS_REMEMBERED:
            self._names.popitem(last=False)

    def names(self) -> dict[str, tuple[str, str]]:
        """(executor, host) of members, present or gone, by member id; the latest last."""
        return dict(self._names)

    def assignor_failed(self, generation: int, reason: str) -> None:
        """Note that the assignor failed for this generation, whose assignment is the former one."""
        self._failure = generation, _shorten(reason)

    def rebalanced(self, done: Rebalanced, giving_up: Mapping[TopicPartition, str]) -> Entry:
        """Add a rebalance that has ended."""
        result = FOLLOW_UP if giving_up else OK
        if self._failure is not None and self._failure[0] == done.generation:
            result = f"failed: {self._failure[1]}"
        routes = summary.routes(done, self._owners)
        self._owners |= {tp: name for name, partitions in done.assignment.items() for tp in partitions}
        cause = summary.with_names(str(done.reason), self._names, lambda name: f"executor-{self._names[name][0]}")
        entry = Entry(done, self._wall(), result, dict(giving_up), routes, tuple(self._removed), cause)
        self._entries.append(entry)
        self._removed.clear()
        self.rebalance_totals.add(done.reason, done.ended_ms - done.started_ms, len(entry.moved))
        return entry

    def entries(self) -> tuple[Entry, ...]:
        """The last rebalances, newest last."""
        return tuple(self._entries)

    def member_ids(self) -> tuple[str, ...]:
        """The ids of all members that have a timeline, oldest first."""
        return tuple(dict.fromkeys(name for _, record in tuple(self._records) for name in timeline.member_ids(record)))

    def member_timeline(self, member_id: str) -> tuple[tuple[float, str], ...]:
        """A member's timeline, as far as the kept records go back: each line with its time (seconds since 1970)."""
        records = tuple(self._records)
        return tuple(
            (records[place][0], line) for place, line in timeline.placed_lines((item for _, item in records), member_id)
        )


def _shorten(words: str) -> str:
    words = " ".join(words.split())
    return words if len(words) <= LINE_LENGTH else f"{words[: LINE_LENGTH - 1]}…"
