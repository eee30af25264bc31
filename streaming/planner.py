"""What a micro-batch reads, and in which pieces: the next end, and slots.

Everything is arithmetic on offsets.  An offset range's length bounds its rows and is taken for them; what it costs to read
is estimated from the sizes of what was read before (see ``record_sizes``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from sparkcohort.runtime.batches.claims import Slot
from sparkcohort.runtime.batches.record_sizes import RECORD_BYTES, TYPICAL_BYTES, Sizes
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.streaming.cutting import cut_ranges
from sparkcohort.streaming.limits import UNLIMITED, Limits, share
from sparkcohort.streaming.source_offsets import Offsets

_RECORD = RECORD_BYTES + TYPICAL_BYTES

TASK_COST = 20_000 * _RECORD
"""What pays for one task more: a Python task costs about 20 ms, in which the JVM takes in as many rows."""

SPLIT_COST = 50_000 * _RECORD
"""From which a range may be split: the second piece needs a reader and a fetch position of its own."""

SLOTS_WITHOUT_MEMBERS = 8
"""Slots of the first batch, when nobody has joined yet and nobody knows how many cores there are."""

Costs: TypeAlias = Mapping[tuple[str, int], int]  # of one offset; plain tuples are found faster in thousands

_OVERLOAD = 1.25  # a member with more than this multiple of its fair share is relieved, locality or not


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
    """Where the next batch ends; equal to ``start`` when nothing waits.

    A partition stays at its start if it is ``held``, has no known log end, or has one below its start (a stale
    answer, or data loss that the caller has not accepted).  New partitions enter as soon as their ``beginnings``
    are known.  ``reset``: go on from these offsets without reading up to them; ``gone``: partitions deleted.
    ``sizes`` and ``turns`` as for ``limits.share``.
    """
    reset, deleted = reset or {}, frozenset(deleted)
    entering = {tp: offset for tp, offset in (beginnings or {}).items() if tp in log_ends and tp not in start}
    begin = {tp: offset for tp, offset in sorted({**start, **entering}.items()) if tp not in deleted}
    stuck = frozenset(stuck_partitions) | frozenset(reset)
    backlog = {tp: 0 if tp in stuck else max(log_ends.get(tp, offset) - offset, 0) for tp, offset in begin.items()}
    shares = share(backlog, limits, sizes=sizes, turns=turns) if limits and any(backlog.values()) else backlog
    return {tp: reset.get(tp, offset + shares[tp]) for tp, offset in begin.items()}


class StartBehindEnd(CohortError):
    """Partitions of a batch start behind their end, and no loss that was accepted explains it."""


def ranges_between(
    start: Offsets, end: Offsets, beginnings: Offsets, reset: Offsets | None = None
) -> tuple[Range, ...]:
    """The ranges of a batch, sorted, empty ones left out.

    A partition that only ``end`` has is new: it is read from its beginning (Spark's rule, and so also for a
    checkpoint that ``format("kafka")`` left); raises KeyError when ``beginnings`` doesn't have it.  ``reset``: where to
    begin instead of ``start`` after a loss that was accepted.  Raises StartBehindEnd for any other range that would go
    backwards: what there is to read isn't known then, and nothing may be skipped.
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
        "that was changed by hand, or that another query uses, too), or a topic was made anew. Nothing was read. Give the "
        "query its own checkpointLocation again, or a new one, and say by startingOffsets where it is to start"
    )


def new_partitions(start: Offsets, end: Offsets) -> frozenset[TopicPartition]:
    """Partitions whose beginnings ``ranges_between`` needs."""
    return frozenset(end) - frozenset(start)


def hold_back(new_records: int, min_offsets: int | None, elapsed_ms: int | None, max_delay_ms: int) -> bool:
    """Whether to wait for more (minOffsetsPerTrigger, maxTriggerDelay), as Spark's Kafka source does.

    ``elapsed_ms`` is the time since the last batch was let through; None before the first, which never waits.
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
    """Cut the ranges of a batch (at most one per partition) into slots, the pieces that tasks read.

    Together the slots have every offset once, each ascending.  ``cores`` maps member to the tasks it can run at
    once; a partition whose owner isn't in it counts as unowned.  A member's slot has ranges of its own partitions
    only; what nobody owns, and what a large batch must take off an overloaded member so that other cores don't
    idle, goes to slots of no member.  As many slots as cores when there is much to read, few when little, alike in
    what they cost: bytes as ``sizes`` has them, and something for each record.
    ``min_partitions``: about so many slots at least, as far as there are records; ``max_records``: never more
    records in one slot; both by splitting ranges, however small.  ``probe``: one empty slot more.
    """
    whole = [r for r in sorted(ranges) if r.end > r.start]
    costs = (sizes or Sizes()).weights(r[:2] for r in whole)
    own, pool = _by_owner(whole, owners, cores)
    records, loads = _records(whole), {member: _cost(group, costs) for member, group in own.items()}
    total = _cost(pool, costs) + sum(loads.values())
    pool = sorted(pool + _relieve(own, loads, total, cores, costs))
    groups: dict[str | None, list[Range]] = dict(own) | {None: pool}
    parts: dict[str | None, list[int]] = {m: [1] * _useful(len(own[m]), loads[m], cores[m]) for m in own}
    busy = [part for m in cores for part in _by_core(loads.get(m, 0), len(parts.get(m, ())), cores[m])]
    without_members = [1] * min(len(pool), min_partitions or SLOTS_WITHOUT_MEMBERS)
    parts[None] = _filling(busy, len(pool), _cost(pool, costs)) if cores else without_members
    slots: list[Slot] = []
    for member, group in groups.items():
        least = _demanded(_records(group), records, min_partitions, max_records)
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


def _records(ranges: Sequence[Range]) -> int:
    return sum(r.end - r.start for r in ranges)


def _cost(ranges: Sequence[Range], costs: Costs) -> int:
    return sum((r.end - r.start) * costs[r[:2]] for r in ranges)


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
    """What a member's cores would have of a batch's cost if all cores had as much."""
    return total * max(cores[member], 1) // sum(max(n, 1) for n in cores.values())


def _relieve(
    own: dict[str, list[Range]], loads: dict[str, int], total: int, cores: Mapping[str, int], costs: Costs
) -> list[Range]:
    """Take off each overloaded member what exceeds its fair share, from the ends of its largest ranges.

    The beginnings stay, since those are what its agent has fetched ahead.
    """
    pieces: list[Range] = []
    for member, ranges in own.items():
        cost, fair = loads[member], _fair(member, total, cores)
        if cost - fair >= SPLIT_COST and cost > _OVERLOAD * fair:
            own[member] = []
            for r in sorted(ranges, key=lambda r: ((r.end - r.start) * costs[r[:2]], r)):
                count = _offsets_to_keep(r.end - r.start, fair, costs[r[:2]])
                fair -= count * costs[r[:2]]
                own[member] += [r._replace(end=r.start + count)] if count else []
                pieces += [r._replace(start=r.start + count)] if r.start + count < r.end else []
            own[member].sort()
            loads[member] = _cost(own[member], costs)
    return pieces


def _offsets_to_keep(records: int, fair: int, cost: int) -> int:
    """How many of a range's offsets its owner keeps when it may keep ``fair``: all or none if splitting won't pay."""
    count = min(records, max(fair, 0) // cost)
    if SPLIT_COST // 2 <= count * cost <= records * cost - SPLIT_COST // 2:
        return count
    return records if 2 * count >= records else 0


def _by_core(load: int, slots: int, cores: int) -> list[int]:
    """What each of a member's cores has of its own to read."""
    return [load // max(slots, 1)] * slots + [0] * (max(cores, 1) - slots)


def _filling(busy: Sequence[int], ranges: int, cost: int) -> list[int]:
    """The sizes of what is for whoever is free first, largest first: such that all cores end together."""
    free = sorted(busy)
    most = _useful(ranges, cost, len(free))
    while most > 1 and (cost + sum(free[:most])) // most - free[most - 1] < TASK_COST:
        most -= 1
    level = (cost + sum(free[:most])) // max(most, 1)
    return [level - load for load in free[:most]]


def _useful(ranges: int, cost: int, limit: int) -> int:
    """How many slots pay: by cost, by ranges unless splitting pays, within ``limit``."""
    return min(max(limit, 1), -(-cost // TASK_COST), max(ranges, cost // SPLIT_COST))


def _demanded(size: int, total: int, min_partitions: int | None, max_records: int | None) -> int:
    """Slots that the user's options demand of a group of ranges, in proportion to its records."""
    by_count = -(-size * (min_partitions or 0) // total) if total else 0
    by_records = -(-size // max_records) if max_records else 0
    return min(max(by_count, by_records), size)
