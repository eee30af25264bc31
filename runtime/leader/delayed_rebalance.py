"""What the leader remembers between rounds: whose partitions wait for a replacement, and when revoking may go on.

Connect's rules (KIP-415, ``IncrementalCooperativeAssignor``; KAFKA-12495 for the back-off), for partitions:

* **Lost** is a partition of a departed member that it had when the last rebalance ended and no member holds now.  It stays
  unassigned (tasks read it directly) for ``scheduled.rebalance.max.delay.ms`` from the first loss on; a delay of 0 means:
  reassign at once.  A partition that no member had is free, and free partitions are assigned in any round.
* **While the delay runs no member gives anything up.**  New members wait without partitions, as candidates.
* **The delay ends** when its time has come, or sooner when there are as many members as had partitions.  Connect waits
  for the time even then, since a worker may come back under its own name.  A Spark executor never does: its replacement has
  a new id.  A member without partitions counts as a replacement, since one is often there before the group has noticed whom
  it replaces.  Then the assignor is asked again: a sticky one gives what was lost to the members with least, that is to the
  candidates, or evenly to the others if none came, and moves nothing else.
* **Revoking backs off.**  A round that would take partitions from live members right after a round that did waits for
  1 ms x 40^n, at most the delay; n is how many times in a row.  Meanwhile free partitions go to the members with least.
* **An assignor that fails is asked again** after 5 s, 10 s, 20 s and so on, at most 5 minutes, and with every round
  that begins for another reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sparkcohort.assignors import ASSIGNORS, Assignor, Racks
from sparkcohort.runtime.leader import assignment
from sparkcohort.runtime.leader.imbalance import Balance
from sparkcohort.runtime.protocol.messages import Assignments, JoinedMember
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.protocol.reasons import Cause, Reason

BACK_OFF_BASE = 40  # Connect: ExponentialBackoff(1, 40, maxDelay, 0)
_MOST_BACK_OFFS = 16  # 40^16 ms is past any delay
RETRY_MS, MOST_RETRY_MS = 5_000, 300_000


@dataclass(frozen=True, slots=True)
class ScheduledRebalance:
    """The ``partitions`` lost with ``missing`` members, unassigned until ``due_ms`` or until ``expected`` members are there.

    ``due_ms`` is None when nothing is lost.
    """

    missing: tuple[str, ...] = ()
    partitions: frozenset[TopicPartition] = frozenset()
    expected: int = 0
    due_ms: int | None = None


@dataclass(frozen=True, slots=True)
class BackOff:
    """Whether the last round took partitions from live members, how often in a row it had to wait, and until when."""

    revoked: bool = False
    times: int = 0
    due_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """How many times in a row the assignor has failed, and when it is asked again; the last failure of it."""

    times: int
    due_ms: int
    assignor: str = ""
    error: str = ""
    at_ms: int = 0


@dataclass(frozen=True, slots=True)
class LeaderState:
    """All that a leader remembers; a new leader begins with an empty one."""

    scheduled: ScheduledRebalance = ScheduledRebalance()
    back_off: BackOff = BackOff()
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """One round as its leader meets it; ``previous_assignment`` is who had what when the last rebalance ended.

    ``topics`` has the number of partitions of each.  ``subset`` lists the partitions of topics that are read in part (Spark's
    ``assign``): assignors count partitions from 0, so they are shown those as 0, 1, 2 ….  ``racks`` are those of
    each partition's replicas, by its number in Kafka.  ``barred`` has what members can't fetch.  ``balance`` is what is known
    of loads, and what the round may do about them, if loads are looked at.
    """

    protocol_name: str
    members: Sequence[JoinedMember]
    topics: Mapping[str, int]
    owned: assignment.Owned
    previous_assignment: Mapping[str, Sequence[TopicPartition]]
    subset: Mapping[str, Sequence[int]] = field(default_factory=dict)
    racks: Racks = field(default_factory=dict)
    balance: Balance | None = None
    barred: assignment.Barred = field(default_factory=dict)


def lead(
    state: LeaderState,
    round_: Round,
    now_ms: int,
    max_delay_ms: int,
    assignors: Mapping[str, Assignor] = ASSIGNORS,
) -> tuple[Assignments, LeaderState]:
    """The assignments of a round, and what to remember of it.  Raises as ``assignment.plan`` does (then: ``record_failure``)."""
    members = assignment.subscriptions(round_.members, round_.owned)
    scheduled = _schedule(state.scheduled, round_, members, now_ms, max_delay_ms)
    if scheduled.due_ms is not None:
        assignments = assignment.assign_free(round_, members, withheld=scheduled.partitions)
        return assignments, LeaderState(scheduled, failure=state.failure)
    if (balance := round_.balance) is not None:
        members, assignors = balance.with_loads(members), {**assignors, balance.assignor.name: balance.assignor}
    plan = assignment.plan(round_, members, assignors)
    back_off = revoke(state.back_off, now_ms, max_delay_ms, revokes=plan.revokes)
    if back_off.due_ms is not None:
        return assignment.assign_free(round_, members), LeaderState(scheduled, back_off)
    return plan.assignments, LeaderState(scheduled, back_off)


def record_failure(state: LeaderState, now_ms: int, assignor: str = "", error: str = "") -> LeaderState:
    """What to remember of a round whose assignor failed: each member kept what it had, and nothing waits."""
    times = 1 if state.failure is None else state.failure.times + 1
    wait_ms = min(RETRY_MS << min(times - 1, _MOST_BACK_OFFS), MOST_RETRY_MS)
    return LeaderState(failure=Failure(times, now_ms + wait_ms, assignor, error, now_ms))


def deadline(state: LeaderState) -> int | None:
    """When the next round is due (absolute ms); None if only an event can bring one."""
    if state.scheduled.due_ms is not None:
        return state.scheduled.due_ms
    return state.back_off.due_ms if state.failure is None else state.failure.due_ms


def reason(state: LeaderState, name: Callable[[str], str] = str) -> Reason:
    """Why the round that is due takes place; ``name`` makes a member id readable."""
    if state.scheduled.due_ms is not None:
        return Reason(Cause.DELAY_OVER, tuple(map(name, state.scheduled.missing)))
    return Reason(Cause.BACK_OFF_OVER if state.failure is None else Cause.ASSIGNOR_RETRY)


def _schedule(
    old: ScheduledRebalance, round_: Round, members: assignment.Subscriptions, now_ms: int, max_delay_ms: int
) -> ScheduledRebalance:
    """The delay after a look at the members; the empty one when there is none, or when it is over."""
    workers = {name for name, subscription in members.items() if subscription.topics}
    missing = {name: tps for name, tps in round_.previous_assignment.items() if name not in members and tps}
    claimed: set[tuple[str, int]] = set()
    if missing or old.partitions:
        claimed = {partition for member in members.values() for partition in member.owned}

    def still_lost(partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        return frozenset(tp for tp in partitions if tp.partition < round_.topics.get(tp.topic, 0) and tp not in claimed)

    lost = {name: remaining for name, tps in missing.items() if (remaining := still_lost(tps))}
    partitions = still_lost(old.partitions).union(*lost.values())
    if not partitions or max_delay_ms == 0:
        return ScheduledRebalance()
    survivors = sum(bool(round_.previous_assignment.get(name)) for name in workers)
    expected = old.expected or survivors + len(lost)
    due_ms = now_ms + max_delay_ms if old.due_ms is None else old.due_ms
    if len(workers) >= expected or now_ms >= due_ms:
        return ScheduledRebalance()
    return ScheduledRebalance(tuple(dict.fromkeys((*old.missing, *sorted(lost)))), partitions, expected, due_ms)


def revoke(back_off: BackOff, now_ms: int, max_delay_ms: int, *, revokes: bool) -> BackOff:
    """The back-off after a plan that takes partitions from live members, or doesn't; with ``due_ms``: not in this round."""
    if not revokes:
        return BackOff()
    if back_off.due_ms is not None:
        return back_off if now_ms < back_off.due_ms else replace(back_off, revoked=True, due_ms=None)
    if not back_off.revoked:
        return BackOff(revoked=True)
    times = min(back_off.times + 1, _MOST_BACK_OFFS)
    wait_ms = min(BACK_OFF_BASE**times, max_delay_ms)
    return BackOff(revoked=True, times=times, due_ms=now_ms + wait_ms if wait_ms else None)
