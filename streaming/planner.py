"""What a micro-batch reads, and in which pieces: read limits, the next end, and slots.

Everything is arithmetic on offsets.  An offset range's length bounds its rows and is taken for them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sparkcohort.runtime.claims import Slot
from sparkcohort.runtime.protocol import Range, TopicPartition
from sparkcohort.streaming.offsets import Offsets
from sparkcohort.streaming.packing import cut

TASK_RECORDS = 10_000
"""Records that pay for one task more: a Python task costs about 30 ms, in which 10,000 rows are read and parsed."""

SPLIT_RECORDS = 50_000
"""Records from which a range may be split: the second piece needs a reader and a fetch position of its own."""

SLOTS_WITHOUT_MEMBERS = 8
"""Slots of the first batch, when nobody has joined yet and nobody knows how many cores there are."""

_ROOM = 0.75  # a member with less than this part of its fair share has cores to spare for others' ranges
_OVERLOAD = 1.5  # a member with more than this multiple of its fair share is relieved, locality or not


def share_limit(backlog: Offsets, limit: int, *, turn: int = 0) -> dict[TopicPartition, int]:
    """Divide ``limit`` offsets over partitions in proportion to what waits in each.

    The shares sum up to min(limit, whole backlog), exactly, where Spark exceeds it with many small partitions.
    Nobody starves: where it's enough for all, every waiting partition gets at least one; else ``limit`` of
    them get one each, beginning at place ``turn`` of the ring of all partitions (those with nothing waiting keep
    their places, so give them with 0).  Let ``turn`` grow by ``limit`` per batch and everyone's turn comes.

    >>> a, b = TopicPartition("t", 0), TopicPartition("t", 1)
    >>> list(share_limit({a: 1_000, b: 3_000}, 100).values())
    [25, 75]
    >>> [share_limit({a: 5, b: 1_000_000}, 1, turn=turn)[a] for turn in range(4)]
    [1, 0, 1, 0]
    """
    ring = sorted(backlog)
    waiting = [tp for tp in ring if backlog[tp] > 0]
    shares = dict.fromkeys(ring, 0)
    total = sum(backlog[tp] for tp in waiting)
    if limit >= total:
        return shares | {tp: backlog[tp] for tp in waiting}
    if limit <= len(waiting):
        first = turn % len(ring)
        served = [tp for tp in ring[first:] + ring[:first] if backlog[tp] > 0][: max(limit, 0)]
        return shares | dict.fromkeys(served, 1)
    left, rest = limit - len(waiting), total - len(waiting)
    for tp in waiting:
        shares[tp] = 1 + left * (backlog[tp] - 1) // rest
    missing = limit - sum(shares.values())
    waiting.sort(key=lambda tp: (-(left * (backlog[tp] - 1) % rest), tp))  # largest remainder
    return shares | {tp: shares[tp] + 1 for tp in waiting[:missing]}


def next_end(
    start: Offsets,
    log_ends: Offsets,
    held: Collection[TopicPartition],
    limit: int | None,
    *,
    beginnings: Offsets | None = None,
    reset: Offsets | None = None,
    gone: Collection[TopicPartition] = (),
) -> dict[TopicPartition, int]:
    """Where the next batch ends; equal to ``start`` when nothing waits.

    A partition stays at its start if it is ``held``, has no known log end, or has one below its start (a stale
    answer, or data loss that the caller has not accepted).  New partitions enter as soon as their ``beginnings``
    are known.  ``reset``: go on from these offsets without reading up to them; ``gone``: partitions deleted.
    """
    reset, gone = reset or {}, frozenset(gone)
    entering = {tp: at for tp, at in (beginnings or {}).items() if tp in log_ends and tp not in start}
    begin = {tp: at for tp, at in sorted({**start, **entering}.items()) if tp not in gone}
    stuck = frozenset(held) | frozenset(reset)
    backlog = {tp: 0 if tp in stuck else max(log_ends.get(tp, at) - at, 0) for tp, at in begin.items()}
    # Every limited batch reads exactly ``limit`` offsets, so the sum of the starts is a turn that needs no memory.
    shares = backlog if limit is None else share_limit(backlog, limit, turn=sum(begin.values()))
    return {tp: reset.get(tp, at + shares[tp]) for tp, at in begin.items()}


def ranges_between(start: Offsets, end: Offsets, beginnings: Offsets) -> tuple[Range, ...]:
    """The ranges of a batch, sorted, empty ones left out.

    A partition that only ``end`` has is new: it is read from its beginning (Spark's rule, and so also for a
    checkpoint that ``format("kafka")`` left); raises KeyError when ``beginnings`` doesn't have it.
    """
    firsts = {tp: start[tp] if tp in start else beginnings[tp] for tp in end}
    return tuple(Range(*tp, firsts[tp], last) for tp, last in sorted(end.items()) if last > firsts[tp])


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
    min_partitions: int | None = None,
    max_records: int | None = None,
    scout: bool = False,
) -> tuple[Slot, ...]:
    """Cut the ranges of a batch (at most one per partition) into slots, the pieces that tasks read.

    Together the slots have every offset once, each ascending.  ``cores`` maps member to the tasks it can run at
    once; a partition whose owner isn't in it counts as unowned.  A member's slot has ranges of its own partitions
    only; what nobody owns, and what a large batch must take off an overloaded member so that other cores don't
    idle, goes to slots of no member.  As many slots as cores when there is much to read, few when little.
    ``min_partitions``: about so many slots at least, as far as there are records; ``max_records``: never more
    records in one slot; both by splitting ranges, however small.  ``scout``: one empty slot more.
    """
    whole = [r for r in sorted(ranges) if r.end > r.start]
    own, pool = _by_owner(whole, owners, cores)
    pool = sorted(pool + _relieve(own, _size(whole), cores))
    limits = {member: max(cores[member], 1) for member in own}
    groups: dict[str | None, list[Range]] = dict(own) | {None: pool}
    counts: dict[str | None, int] = {m: _useful(own[m], limits[m]) for m in own}
    without_members = min(len(pool), min_partitions or SLOTS_WITHOUT_MEMBERS)
    counts[None] = _useful(pool, _room(own, _size(whole), cores)) if cores else without_members
    least = {m: _demanded(_size(group), _size(whole), min_partitions, max_records) for m, group in groups.items()}
    slots = [
        Slot(member, tuple(piece))
        for member, group in groups.items()
        for piece in cut(group, max(counts[member], least[member]), least[member], SPLIT_RECORDS // 2, max_records)
    ]
    return tuple(slots) + ((Slot(None),) if scout else ())


def _size(ranges: Sequence[Range]) -> int:
    return sum(r.end - r.start for r in ranges)


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
    """The records of a batch that a member's cores would read if all cores read as much."""
    return total * max(cores[member], 1) // sum(max(n, 1) for n in cores.values())


def _relieve(own: dict[str, list[Range]], total: int, cores: Mapping[str, int]) -> list[Range]:
    """Take off each overloaded member what exceeds its fair share, from the ends of its largest ranges.

    The beginnings stay, since those are what its agent has fetched ahead.
    """
    taken: list[Range] = []
    for member, ranges in own.items():
        size, fair = _size(ranges), _fair(member, total, cores)
        if size - fair >= SPLIT_RECORDS and size > _OVERLOAD * fair:
            own[member] = []
            for r in sorted(ranges, key=lambda r: (r.end - r.start, r)):
                keep = _kept(r.end - r.start, fair)
                fair -= keep
                own[member] += [r._replace(end=r.start + keep)] if keep else []
                taken += [r._replace(start=r.start + keep)] if r.start + keep < r.end else []
            own[member].sort()
    return taken


def _kept(size: int, fair: int) -> int:
    """How much of a range its owner keeps when it may keep ``fair`` offsets: all or nothing if splitting won't pay."""
    keep = min(size, max(fair, 0))
    if SPLIT_RECORDS // 2 <= keep <= size - SPLIT_RECORDS // 2:
        return keep
    return size if 2 * keep >= size else 0


def _room(own: Mapping[str, list[Range]], total: int, cores: Mapping[str, int]) -> int:
    """Cores of the members that have much less of their own to read than others; all cores if there are none."""
    idle = [m for m in cores if _size(own.get(m, ())) < _ROOM * _fair(m, total, cores)]
    return sum(max(cores[m], 1) for m in idle or cores)


def _useful(ranges: Sequence[Range], limit: int) -> int:
    """How many slots pay: by records, by ranges unless splitting pays, within ``limit``."""
    size = _size(ranges)
    return min(limit, -(-size // TASK_RECORDS), max(len(ranges), size // SPLIT_RECORDS))


def _demanded(size: int, total: int, min_partitions: int | None, max_records: int | None) -> int:
    """Slots that the user's options demand of a group of ranges, in proportion to its records."""
    by_count = -(-size * (min_partitions or 0) // total) if total else 0
    by_records = -(-size // max_records) if max_records else 0
    return min(max(by_count, by_records), size)
