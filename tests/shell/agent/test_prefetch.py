"""The prefetcher: the same rows as a direct read whatever happens, within its budget, and never the cause of an error."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkcohort.runtime.leader.load_report import Progress
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.agent import prefetch
from sparkcohort.runtime.shell.agent.owned_buffers import OwnedBuffers
from sparkcohort.runtime.shell.agent.prefetch import Prefetcher
from sparkcohort.runtime.values.columns import KAFKA_ROW
from tests.kit.broker import Broker
from tests.kit.buffered import buffered, waits
from tests.kit.mock import MockCluster
from tests.kit.produce import produce, producer
from tests.kit.ranges import Missed, Rows, batches_to_rows, direct, offsets, one_by
from tests.kit.record_sources import SOURCES, read_by
from tests.kit.tier import of_tier
from tests.kit.waiting import hold_for, wait_until

RECORDS = 4_000
PARTITIONS = 3
ALL = [TopicPartition("t", number) for number in range(PARTITIONS)]


class Known:
    """All rows; too many for a failed test's story."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def __repr__(self) -> str:
        return "all rows"


def conf(mock: MockCluster) -> dict[str, Any]:
    """The settings of a prefetcher."""
    return {"bootstrap.servers": mock.bootstrap}


def whole(tp: TopicPartition, end: int = RECORDS) -> Range:
    """The range from 0."""
    return Range(*tp, 0, end)


def wait_for_records(prefetcher: Prefetcher, end: int = RECORDS) -> None:
    """Wait until everything owned is fetched up to ``end``."""
    wait_until(lambda: all(s.position >= end for s in buffered(prefetcher).values()), 20, "the buffers to fill")


def held_bytes(prefetcher: Prefetcher) -> int:
    """What is in all buffers."""
    return sum(stats.nbytes for stats in buffered(prefetcher).values())


@pytest.fixture(scope="module")
def filled() -> Iterator[MockCluster]:
    """A mock cluster with a topic of three full partitions."""
    with MockCluster() as mock:
        mock.create_topic("t", PARTITIONS)
        produce(mock.bootstrap, "t", RECORDS * PARTITIONS, partitions=PARTITIONS)
        yield mock


@pytest.fixture(scope="module")
def expected(filled: MockCluster) -> Known:
    """All rows, read directly."""
    return Known(direct(conf(filled), [whole(tp) for tp in ALL], columns=KAFKA_ROW))


@pytest.fixture
def prefetcher(filled: MockCluster) -> Iterator[Prefetcher]:
    """A prefetcher with room for everything, that owns all partitions from 0."""
    running = Prefetcher(conf(filled), patience_s=2)
    running.assign(dict.fromkeys(ALL, 0))
    yield running
    running.close()


def read(
    mock: MockCluster, prefetcher: Prefetcher, wanted: Range, planned_start: int, sequence: int
) -> list[dict[str, Any]]:
    """One range as a task reads it: from the buffer, after a miss directly."""
    rows: list[dict[str, Any]] = []
    at = wanted.start
    try:
        for next_offset, batch in one_by(prefetcher.serve, wanted, planned_start, sequence):
            rows += [] if batch is None else batch.to_pylist()
            at = next_offset
    except Missed as miss:
        at = miss.next_offset
        rows += direct(conf(mock), [wanted._replace(start=at)], columns=KAFKA_ROW).get(wanted.tp, [])
    else:
        assert at == wanted.end
    return rows


PLANS = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from(ALL), st.integers(0, 900), st.sampled_from(["once", "twice", "split", "abandon", "revoke"])
        ),
        min_size=1,
        max_size=3,
        unique_by=lambda each: each[0],
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=of_tier(quick=6, thorough=25))
@given(plans=PLANS, buffer_kb=st.sampled_from([150, 1_000, 64_000]), source=st.sampled_from(SOURCES))
def test_what_is_served_is_what_kafka_has(
    filled: MockCluster,
    expected: Known,
    plans: list[list[tuple[TopicPartition, int, str]]],
    buffer_kb: int,
    source: str,
) -> None:
    """Whatever the plans, splits, second readings, revocations and buffer sizes: byte for byte the direct read (I9)."""
    with read_by(source):
        prefetcher = Prefetcher(conf(filled), buffer_bytes=buffer_kb << 10, patience_s=1)
    prefetcher.assign(dict.fromkeys(ALL, 0))
    stands = dict.fromkeys(ALL, 0)
    for sequence, plan in enumerate(plans):
        for tp, length, how in plan:
            start, end = stands[tp], min(stands[tp] + length, RECORDS)
            middle = (start + end) // 2 if how == "split" else start
            pieces = [Range(*tp, middle, end), Range(*tp, start, middle)] + [Range(*tp, start, end)] * (how == "twice")
            if how == "abandon":
                with suppress(Missed):
                    next(one_by(prefetcher.serve, Range(*tp, start, end), start, sequence), None)
            for wanted in pieces:
                got = read(filled, prefetcher, wanted, start, sequence)
                assert got == expected.rows[tp][wanted.start : wanted.end]
            stands[tp] = end
            if how == "revoke":
                prefetcher.revoke([tp])
                prefetcher.assign({tp: end})
    prefetcher.close()


def test_progress_is_where_the_query_stands_while_fetching_goes_on(prefetcher: Prefetcher) -> None:
    """Asked again and again beside the client's polls: what was handed out, what records cost, where the log ends."""

    def progress() -> dict[TopicPartition, Progress]:
        with prefetcher.owned() as owned:
            return owned.progress()

    wait_until(lambda: all(seen.end == RECORDS for seen in progress().values()), 20, "the ends", every_s=0.001)
    wait_for_records(prefetcher)
    wanted = Range(*ALL[0], 0, 1_500)
    list(one_by(prefetcher.serve, wanted, 0, 1))
    list(one_by(prefetcher.serve, Range(*ALL[1], 700, 700), 700, 2))

    seen = progress()
    assert [seen[tp].position for tp in ALL] == [1_500, 700, 0]
    assert all(each.records == RECORDS and 50 < each.bytes / each.records < 500 for each in seen.values())


def test_what_is_not_owned_is_a_miss(prefetcher: Prefetcher) -> None:
    """Unowned and revoked partitions are missed at once, in mid-range with the position; others are not touched."""
    with pytest.raises(Missed, match="not owned"):
        next(one_by(prefetcher.serve, Range("other", 0, 5, 6), 5, 0))
    wait_for_records(prefetcher)
    pieces = one_by(prefetcher.serve, whole(ALL[0], RECORDS + 1), 0, 0)
    at, _ = next(pieces)
    prefetcher.revoke([ALL[0]])
    with pytest.raises(Missed, match="revoked") as caught:
        next(pieces)
    assert caught.value.next_offset == at
    assert len(batches_to_rows(one_by(prefetcher.serve, whole(ALL[1]), 0, 0))) == RECORDS


@pytest.mark.usefixtures("each_source")
def test_waiting_for_records_to_come(mock_broker: MockCluster) -> None:
    """A reader at the log's end gets what is written meanwhile, and a miss when nothing is."""
    produce(mock_broker.bootstrap, "t", 10)
    prefetcher = Prefetcher(conf(mock_broker), patience_s=0.5)
    prefetcher.assign({ALL[0]: 0})
    buffered_ten = {ALL[0]: 10}
    wait_until(lambda: {tp: s.position for tp, s in buffered(prefetcher).items()} == buffered_ten, 20, "ten records")
    pieces = one_by(prefetcher.serve, whole(ALL[0], 20), 0, 0)
    assert next(pieces)[0] == 10
    produce(mock_broker.bootstrap, "t", 5, first=10)
    assert next(pieces)[0] == 15
    with pytest.raises(Missed, match="nothing from Kafka") as caught:
        next(pieces)
    assert caught.value.next_offset == 15
    prefetcher.close()


@pytest.mark.usefixtures("each_source")
def test_those_who_wait_let_each_other_sleep(mock_broker: MockCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tasks that wait for records don't wake each other to say so: as they did, at half a core."""
    mock_broker.create_topic("t", 2)
    looks: list[int] = []
    look = OwnedBuffers.miss_reason

    def counted(owned: OwnedBuffers, reader: Any) -> str:
        looks.append(1)
        return look(owned, reader)

    monkeypatch.setattr(OwnedBuffers, "miss_reason", counted)
    waiting = Prefetcher(conf(mock_broker), patience_s=1)
    owned = [TopicPartition("t", number) for number in range(2)]
    waiting.assign(dict.fromkeys(owned, 0))
    with ThreadPoolExecutor() as tasks:
        steps = list(tasks.map(lambda tp: list(waiting.serve([whole(tp, 1)], [0], 1)), owned))
    waiting.close()
    assert [step.missed[0][1] for (step,) in steps] == ["nothing from Kafka within 1 s"] * 2
    assert len(looks) < 20


def test_a_lost_broker_is_a_pause(mock_broker: MockCluster) -> None:
    """While the broker is away readers miss, buffered records are served, and afterwards it goes on by itself."""
    produce(mock_broker.bootstrap, "t", 10)
    prefetcher = Prefetcher(conf(mock_broker), patience_s=0.5)
    prefetcher.assign({ALL[0]: 0})
    wait_until(lambda: buffered(prefetcher)[ALL[0]].position == 10, 20, "ten records")
    mock_broker.broker_down()
    assert len(batches_to_rows(one_by(prefetcher.serve, whole(ALL[0], 10), 0, 0))) == 10
    with pytest.raises(Missed):
        list(one_by(prefetcher.serve, Range("t", 0, 10, 12), 10, 1))
    mock_broker.broker_up()
    produce(mock_broker.bootstrap, "t", 5, first=10)
    wait_until(lambda: buffered(prefetcher)[ALL[0]].position == 15, 20, "the broker's return")
    assert offsets(batches_to_rows(one_by(prefetcher.serve, Range("t", 0, 10, 12), 10, 1))) == [10, 11]
    prefetcher.close()


@pytest.mark.usefixtures("each_source")
def test_one_partitions_error_is_its_own(mock_broker: MockCluster) -> None:
    """A partition that can't be fetched misses and says why; the others flow, and it recovers when the plan moves on."""
    mock_broker.create_topic("t", 3)
    produce(mock_broker.bootstrap, "t", 300, partitions=3)
    client = producer(mock_broker.bootstrap)
    client.produce("t", b"v", None, 2, timestamp=2**62)
    client.flush(10)
    prefetcher = Prefetcher(conf(mock_broker), patience_s=2)
    prefetcher.assign({ALL[0]: 1_000_000, ALL[1]: 0, ALL[2]: 100, TopicPartition("gone", 0): 5})
    wait_until(lambda: buffered(prefetcher)[ALL[0]].error and buffered(prefetcher)[ALL[2]].error, 10, "the errors")
    assert "MALFORMED_RECORD_TIMESTAMP" in buffered(prefetcher)[ALL[2]].error
    for tp, start in ((ALL[0], 1_000_000), (ALL[2], 100), (TopicPartition("gone", 0), 5)):
        with pytest.raises(Missed) as caught:
            list(one_by(prefetcher.serve, Range(*tp, start, start + 1), start, 1))
        assert caught.value.next_offset == start
    assert waits(prefetcher, *ALL).keys() & set(ALL) == {ALL[1]}
    assert len(batches_to_rows(one_by(prefetcher.serve, whole(ALL[1], 100), 0, 1))) == 100
    assert offsets(batches_to_rows(one_by(prefetcher.serve, Range("t", 0, 90, 95), 90, 2))) == list(range(90, 95))
    assert waits(prefetcher, *ALL).keys() & set(ALL) == {ALL[0], ALL[1]}
    prefetcher.close()


@pytest.mark.parametrize("size", [300, 1 << 20])
def test_the_budget_holds_and_nobody_starves(broker: Broker, topic: str, size: int) -> None:
    """Buffers stop at the budget whatever the record size; a partition asked for is fetched though others fill it."""
    broker.admin.create_topic(topic, partitions=4, configs={"max.message.bytes": str(2 << 20)})
    total = (24 << 20) // size
    produce(broker.bootstrap, topic, total, partitions=4, value_bytes=size)
    budget = 8 << 20
    prefetcher = Prefetcher({"bootstrap.servers": broker.bootstrap}, buffer_bytes=budget, patience_s=10)
    prefetcher.assign({TopicPartition(topic, number): 0 for number in range(3)})
    wait_until(lambda: held_bytes(prefetcher) > budget / 3, 20, "full buffers")
    hold_for(lambda: held_bytes(prefetcher) <= budget, 0.5, "the budget")
    prefetcher.assign({TopicPartition(topic, 3): 0})
    for number in (3, 0, 2, 1):
        count = 0
        for _, batch in one_by(prefetcher.serve, Range(topic, number, 0, total // 4), 0, 1):
            count += 0 if batch is None else batch.num_rows
            assert held_bytes(prefetcher) <= budget
        assert count == total // 4
    prefetcher.close()


REQUESTS = st.lists(
    st.lists(st.tuples(st.sampled_from(ALL), st.integers(0, RECORDS), st.integers(0, 1_500)), min_size=1, max_size=5),
    min_size=1,
    max_size=4,
)


@settings(max_examples=of_tier(quick=6, thorough=12))
@given(requests=REQUESTS, buffer_kb=st.sampled_from([150, 1_000, 64_000]))
def test_many_ranges_in_one_request(
    filled: MockCluster, expected: Known, requests: list[list[tuple[TopicPartition, int, int]]], buffer_kb: int
) -> None:
    """Ranges of any partitions, overlapping or not: each one's rows come in order up to its end or its miss."""
    prefetcher = Prefetcher(conf(filled), buffer_bytes=buffer_kb << 10, patience_s=1)
    prefetcher.assign(dict.fromkeys(ALL[:2], 0))
    for request in requests:
        ranges = [Range(*tp, start, min(start + length, RECORDS)) for tp, start, length in request]
        stands = [wanted.start for wanted in ranges]
        missed: dict[int, str] = {}
        for step in prefetcher.serve(ranges, [0] * len(ranges), 0):
            rows = [] if step.batch is None else step.batch.to_pylist()
            for index, at in step.positions:
                assert index not in missed
                due = expected.rows[ranges[index].tp][stands[index] : at]
                assert rows[: len(due)] == due
                del rows[: len(due)]
                stands[index] = at
            assert rows == []
            missed |= dict(step.missed)
        assert {index for index, wanted in enumerate(ranges) if stands[index] < wanted.end} <= missed.keys()
        assert all(missed[index] == "not owned" for index, wanted in enumerate(ranges) if wanted.tp == ALL[2])
    prefetcher.close()


def test_closing_ends_everybody(filled: MockCluster) -> None:
    """Close ends the thread and turns those who wait away with a miss."""
    prefetcher = Prefetcher(conf(filled), patience_s=30)
    prefetcher.assign({ALL[0]: 0})
    pieces = one_by(prefetcher.serve, whole(ALL[0], RECORDS + 1), 0, 0)
    assert next(pieces)[0] > 0
    prefetcher.close()
    with pytest.raises(Missed):
        list(pieces)


def test_who_waits_ends_the_pause_of_a_quiet_prefetcher(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers are left alone while nothing comes; a task, new partitions and the end are not made to wait for it."""
    monkeypatch.setattr(prefetch, "IDLE_S", 0.2)
    monkeypatch.setattr(prefetch, "IDLE_PACE_S", 60.0)
    broker.admin.create_topic(topic, 2)
    produce(broker.bootstrap, topic, 20, partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    prefetcher = Prefetcher({"bootstrap.servers": broker.bootstrap}, patience_s=30)
    fetcher: Any = getattr(prefetcher._client.source, "_fetcher", None)
    prefetcher.assign({first: 0})
    wait_until(lambda: fetcher.pace_s == 60, 20, "nothing to come any more")
    prefetcher.assign({second: 0})
    wait_until(lambda: buffered(prefetcher)[second].position == 10, 20, "the new partition's records")
    wait_until(lambda: fetcher.pace_s == 60, 20, "nothing to come any more")
    pieces = one_by(prefetcher.serve, whole(first, 20), 0, 0)
    assert next(pieces)[0] == 10
    produce(broker.bootstrap, topic, 20, partitions=2, first=20)
    assert next(pieces)[0] > 10
    del pieces  # the reader goes
    wait_until(lambda: fetcher.pace_s == 60, 20, "nothing to come any more")
    prefetcher.close()
