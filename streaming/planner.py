"""The end of a micro-batch, and the slots in which it is read.

Everything is arithmetic on offsets.  The length of an offset range bounds its rows and counts as their number.  The cost of
reading it is estimated from the sizes of earlier records (``record_sizes``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from sparkcohort.runtime.batches.claims import Slot
from sparkcohort.runtime.batches.record_sizes import RECORD_BYTES, TYPICAL_BYTES, Sizes
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.streaming.cutting import count_records, cut_ranges
from sparkcohort.streaming.limits import UNLIMITED, Limits, share
from sparkcohort.streaming.source_offsets import Offsets

_RECORD = RECORD_BYTES + TYPICAL_BYTES

TASK_COST = 20_000 * _RECORD
"""The least cost for which one more task pays: a Python task costs about 20 ms, the time of so many rows in the JVM."""

SPLIT_COST = 50_000 * _RECORD
"""The least cost at which a range may be split: the second piece needs a reader and a fetch position of its own."""

SLOTS_WITHOUT_MEMBERS = 8
"""Slots of the first batch: no member has joined yet, so the number of cores is unknown."""

Costs: TypeAlias = Mapping[tuple[str, int], int]  # of one offset; look-ups of plain tuples are faster

_OVERLOAD = 1.25  # a member with more than this multiple of its fair share gives ranges up, at the price of locality


def next_end(
    start: Offsets,
    log_ends: Offsets,
    stuck_partitions: Collection[TopicPartition],
    limits: Limits = UNLIMITED,
    *,
    sizes: Sizes | None = None,
    turns: Mapping[TopicPartition, int] | None = None,
    beginnings: Offsets | None = None,
    reset: Offsets | None = None,
    deleted: Collection[TopicPartition] = (),
) -> dict[TopicPartition, int]:
    """Where the next batch ends; equal to ``start`` when there is nothing to read.

    A partition stays at its start if it is one of ``stuck_partitions``, has no known log end, or a log end below its start
    (a stale answer, or data loss that the caller has not accepted).  New partitions enter as soon as their ``beginnings`` are
    known.  ``reset`` has offsets to go on from without reading up to them.  ``deleted`` are partitions to leave out.  ``sizes``
    and ``turns`` as for ``limits.share``.
    """
    reset, deleted = reset or {}, frozenset(deleted)
    entering = {tp: offset for tp, offset in (beginnings or {}).items() if tp in log_ends and tp not in start}
    begin = {tp: offset for tp, offset in sorted({**start, **entering}.items()) if tp not in deleted}
    stuck = frozenset(stuck_partitions) | frozenset(reset)
    backlog = {tp: 0 if tp in stuck else max(log_ends.get(tp, offset) - offset, 0) for tp, offset in begin.items()}
    shares = share(backlog, limits, sizes=sizes, turns=turns) if limits and any(backlog.values()) else backlog
    return {tp: reset.get(tp, offset + shares[tp]) for tp, offset in begin.items()}


class StartBehindEnd(CohortError):
    """A batch would go backwards: a partition starts behind its end, and no accepted loss explains it."""


def ranges_between(
    start: Offsets, end: Offsets, beginnings: Offsets, reset: Offsets | None = None
) -> tuple[Range, ...]:
    """The ranges of a batch, sorted, without empty ones.

    A partition that only ``end`` has is new: it is read from its beginning (Spark's rule, which also holds for a checkpoint
    of ``format("kafka")``).  ``reset`` has where to begin instead of ``start`` after an accepted loss.

    Raises KeyError for a new partition without a beginning, and StartBehindEnd for any other range that would go backwards:
    it is unknown then what to read, and nothing may be skipped.
    """
    firsts = {**{tp: start[tp] if tp in start else beginnings[tp] for tp in end}, **(reset or {})}
    backwards = [(tp, firsts[tp], last) for tp, last in sorted(end.items()) if firsts[tp] > last]
    if backwards:
        raise _backwards(backwards)
    return tuple(Range(*tp, firsts[tp], last) for tp, last in sorted(end.items()) if last > firsts[tp])


def _backwards(ranges: Sequence[tuple[TopicPartition, int, int]]) -> StartBehindEnd:
    names = ", ".join(f"{tp.topic}-{tp.partition} from {first} to {last}" for tp, first, last in ranges[:10])
    more = f" and {len(ranges) - 10} more" if len(ranges) > 10 else ""
    return StartBehindEnd(
        f"the planned batch goes backwards: {names}{more}. Its start and its end come from two different plans (a checkpoint "
        "that was changed by hand, or that another query uses, too), or a topic was recreated. Nothing was read. Give the "
        "query its own checkpointLocation again, or a new one with startingOffsets"
    )


def hold_back(new_records: int, min_offsets: int | None, elapsed_ms: int | None, max_delay_ms: int) -> bool:
    """Whether to wait for more (minOffsetsPerTrigger, maxTriggerDelay), as Spark's Kafka source does.

    ``elapsed_ms`` is the time since the last batch; None before the first, which never waits.
    """
    if min_offsets is None or elapsed_ms is None:
        return False
    return new_records < min_offsets and elapsed_ms < max_delay_ms


def make_slots(
    ranges: Sequence[Range],
    owners: Mapping[TopicPartition, str],
    cores: Mapping[str, int],
    *,
    sizes: Sizes | None = None,
    min_partitions: int | None = None,
    max_records: int | None = None,
    probe: bool = False,
) -> tuple[Slot, ...]:
    """Cut the ranges of a batch (at most one per partition) into slots, each read by one task.

    Together the slots have every offset once, ascending in each slot.  ``cores`` maps a member to the tasks that it can run
    at once; a partition whose owner isn't in it counts as unowned.  A member's slot has ranges of its own partitions only.
    Slots without a member have unowned partitions, and what an overloaded member gives up so that other cores don't idle.
    There are as many slots as cores when there is much to read, fewer when there is little.  They cost about the same: the
    bytes by ``sizes``, and an amount for each record.

    ``min_partitions``: at least about so many slots, as far as there are records.  ``max_records``: the most records of one
    slot.  Both split ranges, however small.  ``probe``: one more slot, empty.
    """
    whole = [r for r in sorted(ranges) if r.end > r.start]
    costs = (sizes or Sizes()).weights(r[:2] for r in whole)
    own, pool = _by_owner(whole, owners, cores)
    records, loads = count_records(whole), {member: _cost(group, costs) for member, group in own.items()}
    total = _cost(pool, costs) + sum(loads.values())
    pool = sorted(pool + _relieve(own, loads, total, cores, costs))
    groups: dict[str | None, list[Range]] = dict(own) | {None: pool}
    parts: dict[str | None, list[int]] = {m: [1] * _useful(len(own[m]), loads[m], cores[m]) for m in own}
    busy = [part for m in cores for part in _by_core(loads.get(m, 0), len(parts.get(m, ())), cores[m])]
    without_members = [1] * min(len(pool), min_partitions or SLOTS_WITHOUT_MEMBERS)
    parts[None] = _filling(busy, len(pool), _cost(pool, costs)) if cores else without_members
    slots: list[Slot] = []
    for member, group in groups.items():
        least = _demanded(count_records(group), records, min_partitions, max_records)
        pieces = cut_ranges(
            group,
            parts[member] if len(parts[member]) >= least else [1] * least,
            least=least,
            shortest=SPLIT_COST // 2,
            longest=max_records,
            costs=[costs[r[:2]] for r in group],
        )
        slots += [Slot(member, tuple(piece), _cost(piece, costs)) for piece in pieces]
    return tuple(slots) + ((Slot(None),) if probe else ())


def _cost(ranges: Sequence[Range], costs: Costs) -> int:
    return sum(r.size * costs[r[:2]] for r in ranges)


def _by_owner(
    ranges: Sequence[Range], owners: Mapping[TopicPartition, str], cores: Mapping[str, int]
) -> tuple[dict[str, list[Range]], list[Range]]:
    by_owner: dict[str | None, list[Range]] = {}
    for r in ranges:
        owner = owners.get(r.tp)
        by_owner.setdefault(owner if owner in cores else None, []).append(r)
    pool = by_owner.pop(None, [])
    return {m: by_owner[m] for m in sorted(filter(None, by_owner))}, pool


def _fair(member: str, total: int, cores: Mapping[str, int]) -> int:
    """A member's share of a batch's cost if all cores had equal shares."""
    return total * max(cores[member], 1) // sum(max(n, 1) for n in cores.values())


def _relieve(
    own: dict[str, list[Range]], loads: dict[str, int], total: int, cores: Mapping[str, int], costs: Costs
) -> list[Range]:
    """Take from each overloaded member what exceeds its fair share, from the ends of its largest ranges.

    The member keeps the beginnings: its agent has fetched them ahead.
    """
    pieces: list[Range] = []
    for member, ranges in own.items():
        cost, fair = loads[member], _fair(member, total, cores)
        if cost - fair >= SPLIT_COST and cost > _OVERLOAD * fair:
            own[member] = []
            for r in sorted(ranges, key=lambda r: (r.size * costs[r[:2]], r)):
                count = _offsets_to_keep(r.size, fair, costs[r[:2]])
                fair -= count * costs[r[:2]]
                own[member] += [r._replace(end=r.start + count)] if count else []
                pieces += [r._replace(start=r.start + count)] if r.start + count < r.end else []
            own[member].sort()
            loads[member] = _cost(own[member], costs)
    return pieces


def _offsets_to_keep(records: int, fair: int, cost: int) -> int:
    """How many offsets of a range its owner keeps when it may keep ``fair``: all or none if splitting doesn't pay."""
    count = min(records, max(fair, 0) // cost)
    if SPLIT_COST // 2 <= count * cost <= records * cost - SPLIT_COST // 2:
        return count
    return records if 2 * count >= records else 0


def _by_core(load: int, slots: int, cores: int) -> list[int]:
    """The cost of a member's own slots by core."""
    return [load // max(slots, 1)] * slots + [0] * (max(cores, 1) - slots)


def _filling(busy: Sequence[int], ranges: int, cost: int) -> list[int]:
    """The costs of the slots without a member, largest first, such that all cores end together."""
    free = sorted(busy)
    most = _useful(ranges, cost, len(free))
    while most > 1 and (cost + sum(free[:most])) // most - free[most - 1] < TASK_COST:
        most -= 1
    level = (cost + sum(free[:most])) // max(most, 1)
    return [level - load for load in free[:most]]


def _useful(ranges: int, cost: int, limit: int) -> int:
    """How many slots pay: by cost, by the number of ranges unless splitting pays, at most ``limit``."""
    return min(max(limit, 1), -(-cost // TASK_COST), max(ranges, cost // SPLIT_COST))


def _demanded(size: int, total: int, min_partitions: int | None, max_records: int | None) -> int:
    """Slots that the user's options demand of a group of ranges, in proportion to its records."""
    by_count = -(-size * (min_partitions or 0) // total) if total else 0
    by_records = -(-size // max_records) if max_records else 0
    return min(max(by_count, by_records), size)
