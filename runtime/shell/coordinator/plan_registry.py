"""The plans of a run: their slots, claims, and delivered ranges.

The reader registers a plan, tasks claim its slots and report what they delivered.  All of it is in the driver's memory: after a
restart Spark plans the batch again from its offset log.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkcohort.runtime.batches.claims import Plan, Slot, awaited, claim, new_plan
from sparkcohort.runtime.batches.record_sizes import ObservedSize, Sizes, add_range
from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.coordinator.totals import BATCH_BUCKETS_MS, Histogram, MalformedTotals

KEPT_PLANS = 64
"""Plans whose claims are remembered.  Spark re-reads the inputs of the current batch only; the others serve DataFrames that the
user's code kept from a few batches ago."""


class UnknownPlan(LookupError):
    """This coordinator run doesn't know the plan, or has forgotten it."""


@dataclass(slots=True)
class _PlanRecord:
    plan: Plan
    sequence: int
    planned_starts: dict[TopicPartition, int]
    ids: Mapping[str, str]
    undelivered: set[Range]
    last: bool
    planned_at: float  # time.monotonic()
    records: int = 0  # delivered, as bytes, by tasks whose ranges were not delivered before
    bytes: int = 0


@dataclass(slots=True)
class Audit:
    """Counters of tasks' reports; ranges read again (a second action, a retry) are counted apart."""

    plans: int = 0
    slots: int = 0
    ranges_delivered: int = 0
    ranges_again: int = 0
    records_from_agent: int = 0
    records_direct: int = 0
    bytes_from_agent: int = 0
    bytes_direct: int = 0
    agent_timeouts: int = 0


class PlanRegistry:
    """Registry of plans; every method may be called from any thread."""

    def __init__(self) -> None:
        # This run's numbers must be higher than the previous run's, which agents know: a plan takes more than a microsecond.
        self._first = time.monotonic_ns() // 1_000
        self._lock = threading.Lock()
        self._plans: OrderedDict[str, _PlanRecord] = OrderedDict()
        self._planned: dict[TopicPartition, int] = {}
        self._sizes: dict[TopicPartition, ObservedSize] = {}
        self.audit = Audit()
        self._durations = Histogram(BATCH_BUCKETS_MS)
        self._last: dict[str, float] | None = None
        self.malformed = MalformedTotals()
        self._began: float | None = None  # the batch in flight, time.monotonic(); None where there is none
        self._number: int | None = None  # of that batch, once a task has sent it
        self._has_listener = (
            False  # a listener reports each batch's end at once; without one Spark's next call shows it
        )

    def begin_batch(self) -> None:
        """Spark gets the end offset of a batch: the batch is in flight."""
        with self._lock:
            self._begin_batch(time.monotonic())

    def end_batch(self, *, by_listener: bool = False) -> None:
        """The batch in flight is in Spark's commit log."""
        with self._lock:
            self._has_listener |= by_listener
            self._began = self._number = None

    def _begin_batch(self, now: float) -> None:
        self._began = now if self._began is None else self._began

    def register(
        self, plan_id: str, slots: Sequence[Slot], ids: Mapping[str, str] | None = None, *, last: bool = False
    ) -> None:
        """Make the slots claimable under ``plan_id``, offsets in topics of these ids; the oldest plans are forgotten.

        ``last``: the query ends with this batch; tasks get that with their slots.
        """
        planned_starts: dict[TopicPartition, int] = {}
        ends: dict[TopicPartition, int] = {}
        every, now = {item for slot in slots for item in slot.ranges}, time.monotonic()
        for item in (item for slot in slots for item in slot.ranges):
            planned_starts[item.tp] = min(item.start, planned_starts.get(item.tp, item.start))
            ends[item.tp] = max(item.end, ends.get(item.tp, item.end))
        with self._lock:
            self.audit.plans += 1
            self.audit.slots += len(slots)
            self._plans[plan_id] = _PlanRecord(
                new_plan(plan_id, slots),
                self._first + self.audit.plans,
                planned_starts,
                ids or {},
                every,
                last,
                now,
            )
            self._begin_batch(now)  # a replayed batch begins with its plan
            self._planned.update(ends)
            while len(self._plans) > KEPT_PLANS:
                self._plans.popitem(last=False)

    def claim(
        self, plan_id: str, index: int, member: str | None, batch: int = -1, unreadable: Collection[TopicPartition] = ()
    ) -> tuple[Slot, calls.ClaimReply]:
        """The slot of this input partition, the same at every call; ``batch`` is Spark's number.  Raises UnknownPlan.

        ``unreadable``: the partitions that this member can't fetch.
        """
        with self._lock:
            registered = self._plans.get(plan_id)
            if registered is None:
                raise UnknownPlan(
                    f"plan {plan_id} is not known to this coordinator run: the DataFrame belongs to a batch "
                    f"more than {KEPT_PLANS} batches ago or to an earlier start of the query; "
                    "write or cache it inside foreachBatch"
                )
            registered.plan, slot = claim(registered.plan, index, member, unreadable)
            if batch >= 0 and self._began is not None and registered.planned_at >= self._began:
                self._number = batch
            return slot, calls.ClaimReply(
                ranges=slot.ranges,
                planned_starts=tuple(registered.planned_starts[item.tp] for item in slot.ranges),
                sequence=registered.sequence,
                ids={item.topic: registered.ids[item.topic] for item in slot.ranges if item.topic in registered.ids},
                last=registered.last,
            )

    def record_report(self, report: calls.Delivered) -> None:
        """Count a task's delivery, and the records that it could not decode."""
        agent, direct = report.agent, report.direct
        self.malformed.add(report.bad)
        with self._lock:
            registered, first = self._plans.get(report.plan), False
            for item, size in zip(report.ranges, report.sizes, strict=True):
                if registered is not None and item in registered.undelivered:
                    registered.undelivered.remove(item)
                    self.audit.ranges_delivered += 1
                    first = True
                    if item.end > item.start:
                        self._sizes[item.tp] = add_range(self._sizes.get(item.tp), item.end - item.start, size)
                else:
                    self.audit.ranges_again += 1
            self.audit.agent_timeouts += report.timed_out
            self.audit.records_from_agent += agent[0]
            self.audit.bytes_from_agent += agent[1]
            self.audit.records_direct += direct[0]
            self.audit.bytes_direct += direct[1]
            if registered is not None and first:
                registered.records += agent[0] + direct[0]
                registered.bytes += agent[1] + direct[1]
                if not registered.undelivered:
                    self._delivered(registered)

    def _delivered(self, plan: _PlanRecord) -> None:
        """The last range of a batch was delivered; that of a batch that stops early (``limit``) never is."""
        seconds = time.monotonic() - plan.planned_at
        self._durations.add(round(1000 * seconds))
        self._last = {"records": plan.records, "bytes": plan.bytes, "seconds": seconds}

    def batches(self) -> dict[str, Any]:
        """Durations of batches from plan to last range, the last batch, and the one in flight (None without one)."""
        with self._lock:
            last = self._last and dict(self._last)
            return {"durations": self._durations.as_value(), "last": last, "in_flight": self._in_flight()}

    def _in_flight(self) -> dict[str, Any] | None:
        began = self._began
        if began is None:
            return None
        every = [plan for plan in self._plans.values() if plan.planned_at >= began]
        # Spark may plan a batch twice and run one of the plans: one without a claim counts only while no other has any.
        plans = [plan for plan in every if plan.plan.claims] or every[-1:]
        undelivered = sum(len(plan.undelivered) for plan in plans)
        return {
            "number": self._number,
            "age_ms": round(1000 * (time.monotonic() - began)),
            "ranges_delivered": sum(len(slot.ranges) for plan in plans for slot in plan.plan.slots) - undelivered,
            "ranges_owed": undelivered,
            # Without a listener a delivered batch may be over: that shows only with Spark's call at the next trigger.
            "may_be_over": bool(plans) and not undelivered and not self._has_listener,
            "waits_for": awaited((plan.plan, plan.undelivered) for plan in plans),
        }

    def sizes(self) -> Sizes:
        """The sizes of records so far, from the tasks' reports."""
        with self._lock:
            return Sizes(dict(self._sizes))

    def planned_end(self, tp: TopicPartition) -> int | None:
        """The start of the partition's next range, None before its first plan."""
        with self._lock:
            return self._planned.get(tp)

    def seed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the starts of the next ranges, before the first plan."""
        with self._lock:
            for tp, offset in offsets.items():
                self._planned.setdefault(tp, offset)
