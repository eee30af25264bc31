"""Limits of a batch: exact, fair to those who lag and to those who don't, and careful with bytes."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.batches.record_sizes import ObservedSize, Sizes, add_range
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.streaming.limits import GROWTH, UNREAD_BYTES, Limits, by_backlog, share

TPS = st.builds(TopicPartition, st.sampled_from("tu"), st.integers(0, 9))
SMALL = st.integers(0, 20)
AMOUNTS = SMALL | st.integers(0, 200_000) | st.integers(0, 5_000_000)
BACKLOGS = st.dictionaries(TPS, AMOUNTS, max_size=12)
TOPICS = st.dictionaries(st.sampled_from("tuv"), st.integers(1, 20) | st.integers(1, 500_000), max_size=2)
SEEN = st.dictionaries(TPS, st.builds(add_range, st.none(), st.integers(1, 10**6), st.integers(0, 10**9)), max_size=12)


def tp(partition: int) -> TopicPartition:
    """A partition of topic t."""
    return TopicPartition("t", partition)


def with_topic_id(amounts: dict[TopicPartition, int], topic: str) -> int:
    """The sum over one topic's partitions."""
    return sum(amount for partition, amount in amounts.items() if partition.topic == topic)


@given(BACKLOGS, st.none() | st.integers(1, 6_000_000) | st.integers(1, 20), TOPICS)
def test_limits_in_offsets_are_exact(
    backlog: dict[TopicPartition, int], most: int | None, topics: dict[str, int]
) -> None:
    """As much as the limits allow and no offset more, none of what doesn't wait; the same again for the same input."""
    shares = share(backlog, Limits(most, topics=topics))
    allowed = {topic: min(with_topic_id(backlog, topic), topics.get(topic, 10**9)) for topic in "tu"}
    assert all(with_topic_id(shares, topic) <= allowed[topic] for topic in "tu")
    assert sum(shares.values()) == min(sum(allowed.values()), 10**9 if most is None else most)
    assert shares.keys() == backlog.keys()
    assert all(0 <= amount <= backlog[partition] for partition, amount in shares.items())
    assert share(dict(reversed(backlog.items())), Limits(most, topics=topics)) == shares


@given(BACKLOGS, st.integers(1, 100_000))
def test_shares_are_in_proportion_and_none_is_less_than_half_an_equal_one(
    backlog: dict[TopicPartition, int], limit: int
) -> None:
    """By backlog wherever that is more than half the limit shared alike; else that, or all that waits."""
    waiting = {partition: amount for partition, amount in backlog.items() if amount}
    total = sum(waiting.values())
    if not len(waiting) < limit < total:
        return
    shares, alike = share(backlog, Limits(limit)), limit // 2 // len(waiting)
    assert all(amount >= min(waiting[partition], alike) for partition, amount in shares.items() if partition in waiting)
    rates = [Fraction(shares[partition], amount) for partition, amount in waiting.items() if shares[partition] < amount]
    above = [(partition, amount) for partition, amount in waiting.items() if limit * amount >= limit * total // 2]
    if all(2 * len(waiting) * amount >= total for amount in waiting.values()):  # all get half an equal share by backlog
        assert all(abs(shares[p] - Fraction(limit * n, total)) <= len(waiting) + 1 for p, n in waiting.items())
    assert all(Fraction(shares[p] + len(waiting) + 1, n) >= min(rates, default=0) for p, n in above)


RATES = st.lists(st.integers(1, 500), min_size=1, max_size=8)


@given(RATES, st.integers(0, 500), st.integers(0, 10))
def test_one_huge_backlog_does_not_starve_those_who_are_live(rates: list[int], spare: int, idle: int) -> None:
    """Live ones are read to their ends in every batch, if their flow and once more the greatest of it fit half the limit.

    Any number of partitions with hardly anything going on change nothing, and the laggard has all that is left.
    """
    flow = {tp(place): rate for place, rate in enumerate(rates)} | {tp(100 + place): 1 for place in range(idle)}
    limit = 2 * (sum(flow.values()) + max(rates) + spare)
    for huge in (10**9, 10**6, 2 * limit):
        shares = share({**flow, tp(99): huge}, Limits(limit))
        assert shares == {**flow, tp(99): limit - sum(flow.values())}


@given(
    st.dictionaries(TPS, st.integers(1, 30), min_size=1, max_size=12),
    st.none() | st.integers(1, 15),
    st.dictionaries(st.sampled_from("tu"), st.integers(1, 6), max_size=2),
    st.none() | st.integers(1, 40),
    SEEN,
)
def test_nobody_starves_however_small_the_limits(
    backlog: dict[TopicPartition, int],
    most: int | None,
    topics: dict[str, int],
    nbytes: int | None,
    seen: dict[TopicPartition, ObservedSize],
) -> None:
    """With all limits together, everybody is served before anybody has been passed over as often as there are others."""
    limits = Limits(most, None if nbytes is None else nbytes * 100_000, topics)
    turns: dict[TopicPartition, int] = {}
    passed = dict.fromkeys(backlog, 0)
    for batch in range(2 * len(backlog) + 2):
        shares = share(backlog, limits, sizes=Sizes(seen), turns=turns)
        passed = {partition: 0 if shares[partition] else 1 + passed[partition] for partition in backlog}
        assert max(passed.values()) < len(backlog)
        turns |= {partition: batch for partition, amount in shares.items() if amount}


@given(BACKLOGS, st.integers(1, 10**9), SEEN, st.none() | st.integers(1, 6_000_000))
def test_bytes_are_not_exceeded_as_far_as_is_known(
    backlog: dict[TopicPartition, int], nbytes: int, seen: dict[TopicPartition, ObservedSize], most: int | None
) -> None:
    """By the means of what was seen no more than the limit, or one record; and something whenever something waits."""
    sizes = Sizes(seen)
    costs = {partition: sizes.mean(partition) for partition in backlog}
    shares = share(backlog, Limits(most, nbytes), sizes=sizes)
    cost = {partition: UNREAD_BYTES if size is None else max(size, 1) for partition, size in costs.items()}
    assert sum(shares.values()) >= any(backlog.values())
    assert sum(shares.values()) <= 1 or sum(cost[p] * amount for p, amount in shares.items()) <= nbytes
    assert most is None or sum(shares.values()) <= most
    believed = {p: max(GROWTH * sizes.total(p), nbytes // UNREAD_BYTES, 1) for p in backlog}
    assert all(amount <= min(backlog[p], believed[p]) for p, amount in shares.items())


def test_the_first_batch_counts_records_of_a_mebibyte() -> None:
    """Nothing is known: 64 MiB are 64 records.  One topic's sizes say nothing of another's, but of its own partitions."""
    backlog = {tp(0): 10**6, tp(1): 10**6, TopicPartition("u", 0): 10**6}
    assert sum(share(backlog, Limits(nbytes=64 << 20)).values()) == 64
    shares = share(backlog, Limits(nbytes=64 << 20), sizes=Sizes({tp(0): add_range(None, 1_000, 100_000)}))
    assert shares[tp(0)] == GROWTH * 1_000
    assert shares[tp(1)] == 64
    assert 31 <= shares[TopicPartition("u", 0)] <= 64


def test_batches_come_to_the_limit_of_bytes_and_stay_there() -> None:
    """From nothing known to nine tenths of the limit within six batches, never above it while sizes are what they were."""
    true = {tp(0): 120, tp(1): 20_000, TopicPartition("u", 0): 300}
    seen: dict[TopicPartition, ObservedSize] = {}
    read = []
    for _ in range(12):
        shares = share(dict.fromkeys(true, 10**7), Limits(nbytes=64 << 20), sizes=Sizes(seen))
        seen = {p: add_range(seen.get(p), amount, amount * true[p]) for p, amount in shares.items()}
        read.append(sum(amount * true[p] for p, amount in shares.items()))
    assert max(read) <= 64 << 20
    assert min(read[6:]) > 0.9 * (64 << 20)


@given(BACKLOGS, AMOUNTS, st.dictionaries(TPS, st.integers(1, 10**6), max_size=20))
def test_shares_by_backlog_fit_whatever_an_offset_costs(
    backlog: dict[TopicPartition, int], limit: int, some: dict[TopicPartition, int]
) -> None:
    """Within the limit, and no record more would have fitted in, of those that want more."""
    costs = {partition: some.get(partition, 7) for partition in backlog}
    shares = by_backlog(backlog, limit, costs)
    left = limit - sum(costs[partition] * amount for partition, amount in shares.items())
    assert left >= 0
    assert all(0 <= amount <= backlog[partition] for partition, amount in shares.items())
    assert all(costs[p] > left for p, amount in shares.items() if amount < backlog[p])
