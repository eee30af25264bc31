"""Late partitions on the driver: whose word counts, what is planned, what the log says; and what an agent has to tell."""

from __future__ import annotations

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sparkcohort.runtime.batches.slow_partitions import FetchProgress
from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.agent.prefetch import Prefetcher
from sparkcohort.runtime.shell.coordinator.slow_partition_watch import SlowPartitionWatch
from tests.kit.buffered import buffered, waits
from tests.kit.mock import MockCluster
from tests.kit.produce import produce
from tests.kit.waiting import wait_until

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
ENDS = {A: 500, B: 600}
OWNERS = {A: "m-1", B: "m-2"}


def said(member: str, *rows: Any) -> calls.Fetched:
    """A report, as the port reads it."""
    return calls.decode(json.dumps({"member": member, "fetched": rows}).encode(), calls.Fetched)


def test_an_owner_tells_of_what_it_owns(caplog: pytest.LogCaptureFixture) -> None:
    """Its late partition is planned as far as it is fetched, and named once in the log; nobody else's word counts."""
    isolation = SlowPartitionWatch()
    assert isolation.limited(ENDS, {}) == ENDS
    with caplog.at_level(logging.INFO, "sparkcohort.slow_partitions"):
        assert isolation.record_report(said("m-2", ["t", 0, 120, 3_000]), OWNERS) == []
        assert isolation.limited(ENDS, {}) == ENDS
        for _ in range(2):
            assert isolation.record_report(said("m-1", ["t", 0, 120, 3_000], ["t", 1, 0, 9_000]), OWNERS) == [A]
        assert isolation.record_report(said("m-2", ["t", 1, 600, 60]), OWNERS) == []
    assert isolation.limited(ENDS, {}) == {A: 120, B: 600}
    assert isolation.reasons()[A].startswith("its leader is slow, or throttles")
    (line,) = [record.getMessage() for record in caplog.records]
    assert "t-0" in line
    assert "fetched up to 120, 380 records behind" in line


@pytest.mark.parametrize(
    "row", [["t", 0, -1, 5], ["t", 0, 1, -5], ["t", 0, 1, 1e12], ["t", 0, "x", 5], ["t", 0, 1], ["t", "0x", 1, 5]]
)
def test_nonsense_is_refused(row: list[Any]) -> None:
    """Before anything of it counts."""
    isolation = SlowPartitionWatch()
    isolation.limited(ENDS, {})
    with pytest.raises((ValueError, TypeError)):
        isolation.record_report(said("m-1", ["t", 0, 1, 9_000], row), OWNERS)
    assert isolation.reasons() == {}


def test_waits_are_told_while_they_last(mock_broker: MockCluster) -> None:
    """Of a partition that a task waits for, in vain, for how long since the last call; of others only if followed."""
    mock_broker.create_topic("t", 2)
    produce(mock_broker.bootstrap, "t", 20, partitions=2)
    prefetcher = Prefetcher({"bootstrap.servers": mock_broker.bootstrap}, patience_s=30)
    prefetcher.assign({A: 0, B: 0})
    wait_until(lambda: all(seen.position == 10 for seen in buffered(prefetcher).values()), 20, "ten records of each")
    steps = prefetcher.serve([Range(*A, 0, 11), Range(*B, 0, 10)], [0, 0], 1)
    assert next(steps).missed == []
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(list, steps)
        told: list[tuple[TopicPartition, FetchProgress]] = []

        def long_enough() -> bool:
            told.extend(waits(prefetcher).items())
            return sum(seen.waited_ms for _, seen in told) >= 400

        wait_until(long_enough, 20, "a wait, told in pieces", every_s=0.1)
        assert len(told) > 1
        assert {(tp, seen.position) for tp, seen in told} == {(A, 10)}
        produce(mock_broker.bootstrap, "t", 1, first=10)
        waiting.result(30)
    waits(prefetcher)
    assert waits(prefetcher) == {}
    assert waits(prefetcher, B, TopicPartition("other", 0)) == {B: (10, 0.0)}
    prefetcher.close()
