"""The planner: limits, ends and slots."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparkcohort.runtime.batches.claims import Slot, claim, new_plan
from sparkcohort.runtime.batches.record_sizes import RECORD_BYTES, TYPICAL_BYTES, Sizes, add_range
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.streaming import planner
from sparkcohort.streaming.cutting import cut_ranges
from sparkcohort.streaming.limits import Limits
from sparkcohort.streaming.planner import StartBehindEnd, hold_back, make_slots, next_end, ranges_between

TPS = st.builds(TopicPartition, st.sampled_from("tu"), st.integers(0, 9))
SMALL = st.integers(0, 20)
SIZES = SMALL | st.integers(0, 200_000) | st.integers(0, 5_000_000)
BACKLOGS = st.dictionaries(TPS, SIZES, max_size=12)


def tp(partition: int) -> TopicPartition:
    """A partition of topic t."""
    return TopicPartition("t", partition)


# --- next_end and ranges --------------------------------------------------------------------------


@given(BACKLOGS, BACKLOGS, st.sets(TPS), st.none() | SIZES, BACKLOGS)
def test_an_end_lies_between_start_and_log_end(
    start: dict[TopicPartition, int],
    log_ends: dict[TopicPartition, int],
    held: set[TopicPartition],
    limit: int | None,
    beginnings: dict[TopicPartition, int],
) -> None:
    """Never before the start, never past the log's end, nowhere where held, and no more than the limit in total."""
    end = next_end(start, log_ends, held, Limits(limit), beginnings=beginnings)
    new = {p: at for p, at in beginnings.items() if p in log_ends and p not in start}
    assert end.keys() == start.keys() | new.keys()
    begin = {**new, **start}
    for p, to in end.items():
        assert begin[p] <= to <= max(begin[p], log_ends.get(p, -1))
        assert p not in held or to == begin[p]
    assert limit is None or sum(end[p] - begin[p] for p in end) <= limit
    ranges = ranges_between(start, end, beginnings)
    assert sum(r.end - r.start for r in ranges) == sum(end[p] - begin[p] for p in end)
    assert all(begin[r.tp] == r.start < r.end == end[r.tp] for r in ranges)


def test_a_log_that_ends_before_the_start_does_not_pull_back() -> None:
    """A stale log end leaves the partition where it is; accepted data loss goes on from where the caller says."""
    start, log_ends = {tp(0): 50, tp(1): 0}, {tp(0): 10, tp(1): 5}
    assert next_end(start, log_ends, ()) == {tp(0): 50, tp(1): 5}
    end = next_end(start, log_ends, (), reset={tp(0): 3})
    assert end == {tp(0): 3, tp(1): 5}
    assert ranges_between(start, end, {}, reset={tp(0): 3}) == (Range("t", 1, 0, 5),)


@given(BACKLOGS, BACKLOGS, BACKLOGS)
@example({tp(0): 4}, {tp(0): 5}, {})
def test_no_range_goes_backwards(
    start: dict[TopicPartition, int], end: dict[TopicPartition, int], reset: dict[TopicPartition, int]
) -> None:
    """Whatever is planned is read to its end, from where it starts; what can't be is refused, by name, never skipped."""
    reset = {p: at for p, at in reset.items() if p in end}
    begin = {p: reset.get(p, start.get(p, 0)) for p in end}
    behind = [p for p in end if begin[p] > end[p]]
    beginnings = dict.fromkeys(end.keys() - start.keys(), 0)
    if behind:
        with pytest.raises(StartBehindEnd, match=f"{min(behind).topic}-{min(behind).partition} from "):
            ranges_between(start, end, beginnings, reset)
    else:
        ranges = ranges_between(start, end, beginnings, reset)
        assert {r.tp: (r.start, r.end) for r in ranges} == {p: (begin[p], end[p]) for p in end if begin[p] < end[p]}


def test_new_partitions_enter_at_their_beginning_and_deleted_ones_go() -> None:
    """A new partition is read from its beginning once that is known; a deleted one leaves the offsets."""
    start, log_ends = {tp(0): 5, tp(1): 5}, {tp(0): 5, tp(2): 9, tp(3): 4}
    end = next_end(start, log_ends, (), beginnings={tp(2): 7}, deleted=[tp(1)])
    assert end == {tp(0): 5, tp(2): 9}
    assert ranges_between(start, end, {tp(2): 7}) == (Range("t", 2, 7, 9),)


@given(st.integers(0, 99), st.none() | st.integers(1, 99), st.none() | st.integers(0, 99), st.integers(0, 99))
@example(9, 10, 49, 50)
@example(9, 10, 50, 50)
@example(10, 10, 49, 50)
def test_a_batch_is_held_back_only_while_too_small_and_too_early(
    new: int, least: int | None, elapsed: int | None, delay: int
) -> None:
    """minOffsetsPerTrigger waits for its number or its delay, whichever comes first, and never at the first batch."""
    expected = least is not None and elapsed is not None and new < least and elapsed < delay
    assert hold_back(new, least, elapsed, delay) == expected


# --- cut_ranges ------------------------------------------------------------------------------------


def line(sizes: list[int]) -> list[Range]:
    """Ranges of these sizes, of one partition each, starting anywhere."""
    return [Range("t", p, 7 * p, 7 * p + size) for p, size in enumerate(sizes) if size]


def costs_of(sizes: list[int], random: Random) -> list[int]:
    """What an offset of each range costs: all alike, or anything."""
    alike = random.random() < 0.3
    return [1 if alike else random.choice([1, 7, 1_000, 10**6]) for size in sizes if size]


@given(
    st.lists(SIZES, max_size=12),
    st.integers(0, 9),
    SMALL,
    st.integers(1, 30_000),
    st.none() | st.integers(1_000, 10**7),
    st.randoms(use_true_random=False),
)
def test_pieces_are_the_line_cut_up(
    sizes: list[int], count: int, least: int, shortest: int, longest: int | None, random: Random
) -> None:
    """Glued together again the pieces are the ranges: nothing lost, doubled, empty or out of order."""
    pieces = cut_ranges(
        line(sizes), [1] * count, least=least, shortest=shortest, longest=longest, costs=costs_of(sizes, random)
    )
    demanded = 0 if longest is None else -(-sum(sizes) // longest)
    assert len(pieces) <= count + (0 if longest is None else demanded)
    assert len(pieces) >= min(count, least, sum(sizes))
    assert longest is None or all(_size(piece) <= longest for piece in pieces)
    assert all(pieces)
    assert all(r.start < r.end for piece in pieces for r in piece)
    if count:
        assert sorted(_glue([r for piece in pieces for r in piece])) == line(sizes)


def _glue(ranges: list[Range]) -> list[Range]:
    """Join neighbours; fails if they overlap or leave a gap."""
    glued: list[Range] = []
    for r in ranges:
        if glued and glued[-1].tp == r.tp:
            assert glued[-1].end == r.start
            glued[-1] = glued[-1]._replace(end=r.end)
        else:
            glued.append(r)
    return glued


@given(st.lists(SIZES, max_size=12), st.integers(1, 9), st.integers(1, 30_000), st.randoms(use_true_random=False))
def test_no_piece_costs_much_more_than_its_share(sizes: list[int], count: int, shortest: int, random: Random) -> None:
    """At most 2 * shortest above the ideal, or two offsets, and nothing split into less unless it must be."""
    ranges, costs = line(sizes), costs_of(sizes, random)
    pieces = cut_ranges(ranges, [1] * count, shortest=shortest, costs=costs)
    cost = {r.tp: each for r, each in zip(ranges, costs, strict=True)}
    total, dearest = sum((r.end - r.start) * cost[r.tp] for r in ranges), max(costs, default=0)
    for piece in pieces:
        assert sum((r.end - r.start) * cost[r.tp] for r in piece) <= -(-total // count) + 2 * max(shortest, dearest)
    parts = [r for piece in pieces for r in piece]
    assert all(r in ranges or (r.end - r.start + 1) * cost[r.tp] > shortest for r in parts)


def test_as_many_pieces_as_demanded_although_one_offset_costs_most() -> None:
    """By number where costs would put nearly all into one piece."""
    ranges = [Range("t", 0, 0, 1), Range("t", 1, 0, 20)]
    assert len(cut_ranges(ranges, [1] * 9, costs=[10**6, 1])) == 2
    assert len(cut_ranges(ranges, [1] * 9, least=9, costs=[10**6, 1])) == 9


def _size(ranges: list[Range] | tuple[Range, ...]) -> int:
    return sum(r.end - r.start for r in ranges)


SPLIT_RECORDS = planner.SPLIT_COST // (RECORD_BYTES + TYPICAL_BYTES)

# --- make_slots ---------------------------------------------------------------------------------

RANGES = st.lists(st.tuples(SIZES, st.sampled_from([None, "a", "b", "c", "left"])), max_size=14)
CORES = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 6), max_size=4)
OPTION = st.none() | st.integers(1, 40)
MAX_RECORDS = st.none() | st.integers(1, 20) | st.integers(10_000, 10**7)


def slots_of(
    sizes: list[tuple[int, str | None]],
    cores: dict[str, int],
    *,
    min_partitions: int | None = None,
    max_records: int | None = None,
    probe: bool = False,
) -> tuple[list[Range], dict[TopicPartition, str], tuple[Slot, ...]]:
    """Ranges and owners of one example, and the slots made of them."""
    ranges = [Range("t", p, 3 * p, 3 * p + size) for p, (size, _) in enumerate(sizes)]
    owners = {tp(p): owner for p, (_, owner) in enumerate(sizes) if owner}
    made = make_slots(ranges, owners, cores, min_partitions=min_partitions, max_records=max_records, probe=probe)
    return [r for r in ranges if r.end > r.start], owners, made


@given(RANGES, CORES, OPTION, st.none() | st.integers(10_000, 10**7), st.booleans())
def test_slots_have_every_offset_once_and_members_only_their_own(
    sizes: list[tuple[int, str | None]], cores: dict[str, int], least: int | None, most: int | None, probe: bool
) -> None:
    """Law I8 for plans: disjoint, gapless, ascending inside a slot, none empty but the probe."""
    ranges, owners, slots = slots_of(sizes, cores, min_partitions=least, max_records=most, probe=probe)
    assert _glue(sorted(r for slot in slots for r in slot.ranges)) == ranges
    for slot in slots:
        assert list(slot.ranges) == sorted(slot.ranges)
        assert slot.member is None or {owners[r.tp] for r in slot.ranges} == {slot.member}
        assert most is None or slot.records <= most
    assert sum(1 for slot in slots if not slot.ranges) == probe
    assert not probe or slots[-1] == Slot(None)


@given(st.lists(st.tuples(SMALL, st.sampled_from([None, "a", "b"])), max_size=10), CORES, OPTION, MAX_RECORDS)
def test_the_options_hold_for_small_batches_too(
    sizes: list[tuple[int, str | None]], cores: dict[str, int], least: int | None, most: int | None
) -> None:
    """minPartitions slots if there are as many records, and never more than maxRecordsPerPartition in one."""
    ranges, _, slots = slots_of(sizes, cores, min_partitions=least, max_records=most)
    if cores:
        assert len(slots) >= min(least or 0, _size(ranges))
    assert all(slot.records <= (most or 10**9) for slot in slots)


@given(RANGES, CORES, st.randoms(use_true_random=False))
def test_the_order_of_inputs_does_not_matter(
    sizes: list[tuple[int, str | None]], cores: dict[str, int], random: Random
) -> None:
    """Equal batches give equal slots."""
    ranges, owners, slots = slots_of(sizes, cores)
    mixed = random.sample(ranges, len(ranges))
    assert make_slots(mixed, dict(reversed(owners.items())), dict(reversed(cores.items()))) == slots


@given(RANGES, CORES)
def test_a_member_has_no_more_slots_than_cores_and_few_when_there_is_little(
    sizes: list[tuple[int, str | None]], cores: dict[str, int]
) -> None:
    """Per member at most its cores; slots of no member at most all cores; each slot but the first of a kind pays."""
    ranges, _, slots = slots_of(sizes, cores)
    for member in {slot.member for slot in slots}:
        mine = [slot for slot in slots if slot.member == member]
        if cores:
            assert len(mine) <= (cores[member] if member else sum(cores.values()))
            assert len(mine) <= -(-sum(slot.cost for slot in mine) // planner.TASK_COST)
        else:
            assert len(mine) <= min(len(ranges), planner.SLOTS_WITHOUT_MEMBERS)


@given(st.lists(st.integers(1, 5_000_000), min_size=1, max_size=14), CORES.filter(bool), st.data())
def test_no_core_waits_long_for_another_in_a_large_batch(
    sizes: list[int], cores: dict[str, int], data: st.DataObject
) -> None:
    """If every core takes the next slot when free, all end within twice the ideal time and one range's split."""
    owners = [data.draw(st.sampled_from(sorted(cores))) for _ in sizes]
    _, _, slots = slots_of(list(zip(sizes, owners, strict=True)), cores)
    busy = [0] * sum(cores.values())
    for slot in sorted(slots, key=lambda slot: (slot.member is None, -slot.records)):
        busy[busy.index(min(busy))] += slot.records
    assert max(busy) <= 2 * sum(sizes) // len(busy) + 4 * SPLIT_RECORDS


def _shape(slots: tuple[Slot, ...]) -> list[tuple[str | None, int]]:
    return [(slot.member, slot.records) for slot in slots]


K, M = 1_000, 1_000_000
BALANCED = [(M, "abc"[p % 3]) for p in range(12)]


@pytest.mark.parametrize(
    ("sizes", "cores", "expected"),
    [
        (BALANCED, {"a": 2, "b": 2, "c": 2}, [(m, 2 * M) for m in "aabbcc"]),
        ([(1, "abc"[p % 3]) for p in range(300)], {"a": 2, "b": 2, "c": 2}, [(m, 100) for m in "abc"]),
        ([(M, "a")], {"a": 4}, [("a", 250 * K)] * 4),
        ([(40 * K, "a")], {"a": 4}, [("a", 40 * K)]),
        ([(40 * K, "a"), (40 * K, "a")], {"a": 4}, [("a", 40 * K)] * 2),
        ([(900 * K, "a")], {"a": 1, "b": 1, "c": 1}, [("a", 300 * K), (None, 300 * K), (None, 300 * K)]),
        ([(9 * K, "a")], {"a": 1, "b": 1, "c": 1}, [("a", 9 * K)]),
        ([(M, "a"), (2 * M, None)], {"a": 1, "b": 1}, [("a", M), (None, 1_500 * K), (None, 500 * K)]),
        ([(M, None)] * 12, {"a": 2, "b": 2}, [(None, 3 * M)] * 4),
        ([(1, None)] * 12, {}, [(None, 1)] * 4 + [(None, 2)] * 4),
        ([(5 * M, None)] * 3, {}, [(None, 5 * M)] * 3),
        ([(M, "left")] * 2, {"a": 2}, [(None, M)] * 2),
        ([], {"a": 2}, []),
    ],
    ids=[
        "as many slots as cores",
        "a trickle: one each",
        "a hot range is split",
        "a warm one is not",
        "but two run at once",
        "idle cores help an overloaded owner",
        "but not in a small batch",
        "more for a core that has nothing of its own",
        "nobody owns anything yet",
        "no members: eight slots",
        "no members: no more than partitions",
        "an owner that has left",
        "nothing to read",
    ],
)
def test_slots_by_example(
    sizes: list[tuple[int, str | None]], cores: dict[str, int], expected: list[tuple[str | None, int]]
) -> None:
    """What a reader of the design expects."""
    _, _, slots = slots_of(sizes, cores)
    assert sorted(map(str, _shape(slots))) == sorted(map(str, expected))


def test_min_partitions_splits_what_would_not_pay() -> None:
    """The user's minPartitions beats the planner's thrift; without members it replaces the eight."""
    assert len(slots_of([(100, "a")], {"a": 1}, min_partitions=20)[2]) == 20
    assert len(slots_of([(100, None)] * 12, {}, min_partitions=3)[2]) == 3
    assert len(slots_of([(100, None)] * 2, {}, min_partitions=10)[2]) == 10


def test_an_overloaded_owner_keeps_the_beginnings() -> None:
    """What its agent has fetched ahead stays with the owner; the end of its largest range goes to others."""
    _, _, slots = slots_of([(100 * K, "a"), (800 * K, "a")], {"a": 1, "b": 1, "c": 1})
    own = next(slot for slot in slots if slot.member == "a")
    assert own.ranges == (Range("t", 0, 0, 100 * K), Range("t", 1, 3, 3 + 200 * K))


SIZE = st.sampled_from([20, 150, 1_000, 20_000, 10**6])


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(1, 4), min_size=1, max_size=4),
    st.integers(2, 24),
    st.integers(10, 95),
    SIZE,
    SIZE,
    st.randoms(use_true_random=False),
)
def test_a_hot_partition_costs_hardly_more_than_an_even_spread(
    cores: dict[str, int], partitions: int, percent: int, hot: int, others: int, random: Random
) -> None:
    """However much of a large batch is on one partition, and however large its records or the others' are.

    No slot is above 1.3 times the largest one of an even spread of the same bytes, nor is what any core reads when all
    of them take the next slot as soon as they are free.
    """
    owners = {tp(p): random.choice(sorted(cores)) for p in range(partitions)}
    total = sum(cores.values()) * 20 * planner.SPLIT_COST
    largest, busiest = [], []
    for shares in (
        [percent] + [(100 - percent) / (partitions - 1)] * (partitions - 1),
        [100 / partitions] * partitions,
    ):
        mean = [hot] + [others] * (partitions - 1)
        amounts = [round(total * part / 100 / (RECORD_BYTES + size)) for part, size in zip(shares, mean, strict=True)]
        seen = {tp(p): add_range(None, 1_000, 1_000 * size) for p, size in enumerate(mean)}
        ranges = [Range("t", p, 5, 5 + amount) for p, amount in enumerate(amounts)]
        slots = make_slots(ranges, owners, cores, sizes=Sizes(seen))
        largest.append(max(slot.cost for slot in slots))
        busiest.append(_busiest(slots, cores))
    assert largest[0] <= 1.3 * largest[1]
    assert busiest[0] <= 1.3 * busiest[1]


def _busiest(slots: tuple[Slot, ...], cores: dict[str, int]) -> int:
    """What the last core to end has read, if each takes its member's own slots first, then anybody's, largest first."""
    plan, free = new_plan("p", slots), [(0, member) for member, many in sorted(cores.items()) for _ in range(many)]
    for index in range(len(slots)):
        busy, member = min(free)
        plan, slot = claim(plan, index, member)
        free[free.index((busy, member))] = busy + slot.cost, member
    return max(free)[0]
