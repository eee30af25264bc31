"""Claims: which task reads which slot of a plan.

A micro-batch is planned into *slots*: offset ranges that one task reads.  Spark sees numbered input partitions and decides
alone where each runs.  So an index gets its slot when a task starts: the first claim of an index picks a slot that suits
the member on the task's executor.  Every later claim of that index (a retry, a speculative copy, the second action of a
foreachBatch) gets the same slot, wherever it runs.  There are as many indices as slots, and no slot goes to two indices: once
all indices are claimed, so are all slots.

>>> a, b = (Slot(member, (Range("t", p, 0, 9),)) for p, member in enumerate("ab"))
>>> plan, slot = claim(new_plan("p1", (a, b)), 0, "b")
>>> slot is b, claim(plan, 0, "a")[1] is b, claim(plan, 1, "b")[1] is a
(True, True, True)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from sparkcohort.runtime.protocol.partitions import Range, TopicPartition, names_of


class UnknownSlot(LookupError):
    """A claim of an index that the plan doesn't have."""


@dataclass(frozen=True, slots=True)
class Slot:
    """The ranges of one task; ``member`` owns their partitions and has fetched ahead, None: read directly.

    ``cost`` is the cost of reading, in one unit for all slots of a plan; 0: the number of records counts.
    """

    member: str | None
    ranges: tuple[Range, ...] = ()
    cost: int = 0

    @property
    def records(self) -> int:
        """Offsets to read, an upper bound of the rows."""
        return sum(r.end - r.start for r in self.ranges)


@dataclass(frozen=True, slots=True)
class Plan:
    """The slots of one micro-batch; ``claims`` maps an input partition's index to its slot's position."""

    plan_id: str
    slots: tuple[Slot, ...]
    claims: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))

    def unclaimed(self) -> tuple[int, ...]:
        """Positions of the slots without a claim."""
        claimed_positions = set(self.claims.values())
        return tuple(position for position in range(len(self.slots)) if position not in claimed_positions)


def new_plan(plan_id: str, slots: Iterable[Slot]) -> Plan:
    """Make a plan without claims."""
    return Plan(plan_id, tuple(slots))


def claim(plan: Plan, index: int, member: str | None, unreadable: Collection[TopicPartition] = ()) -> tuple[Plan, Slot]:
    """Give the slot of an input partition; the plan is unchanged when the index was claimed before.

    ``member`` is the member of the task's executor, None when it has none.  The order of choice: a slot of the member, then a
    slot without a member (with ranges, then the empty probe), then a slot of the member with most unclaimed cost.  Larger slots
    come first, since the last to start is the last to end.  A slot with ``unreadable`` partitions, whose leaders the executor
    doesn't reach, is the last choice, the smallest first.  Raises UnknownSlot.
    """
    if not 0 <= index < len(plan.slots):
        raise UnknownSlot(f"plan {plan.plan_id} has {len(plan.slots)} slots, none with index {index}")
    if index in plan.claims:
        return plan, plan.slots[plan.claims[index]]
    position = _choose(plan, member, unreadable)
    return replace(plan, claims=MappingProxyType({**plan.claims, index: position})), plan.slots[position]


def awaited(plans: Iterable[tuple[Plan, Collection[Range]]]) -> str:
    """What a batch waits for, in words, from its plans and the undelivered ranges of each."""
    running, waiting_tasks, planned = set[TopicPartition](), set[TopicPartition](), False
    for plan, undelivered in plans:
        planned, idle = True, set(plan.unclaimed())
        for position, slot in enumerate(plan.slots):
            (waiting_tasks if position in idle else running).update(
                item.tp for item in slot.ranges if item in undelivered
            )
    if not planned:
        return "Spark to plan it"
    parts = [f"tasks that read {names_of(running)}"] if running else []
    parts += [f"tasks that have not begun and are to read {names_of(waiting_tasks)}"] if waiting_tasks else []
    return ", and for ".join(parts) or "the sink, the query's own code, or the next trigger"


def _choose(plan: Plan, member: str | None, unreadable: Collection[TopicPartition]) -> int:
    unclaimed_by_member: dict[str | None, list[tuple[int, int]]] = {}
    unclaimed = plan.unclaimed()
    able = [place for place in unclaimed if not any(item.tp in unreadable for item in plan.slots[place].ranges)]
    if not able:
        return min(
            unclaimed, key=lambda position: (plan.slots[position].cost or plan.slots[position].records, position)
        )
    for position in able:
        slot = plan.slots[position]
        unclaimed_by_member.setdefault(slot.member, []).append(
            (-(slot.cost or slot.records), position)
        )  # least is: largest, then first
    for first_choice in (member, None):
        if first_choice in unclaimed_by_member:
            return min(unclaimed_by_member[first_choice])[1]
    most_left = min(unclaimed_by_member.values(), key=lambda slots: (sum(size for size, _ in slots), min(slots)[1]))
    return min(most_left)[1]
