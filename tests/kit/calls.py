"""Spark's calls to a reader without a Spark, in Spark's order, one process life after another.

Usage::

    with called(broker, topic, startingOffsets="latest") as call:      # one life of the driver
        start = call("initialOffset")
        end = call("latestOffset", start, ALL)
        assert call.ranges(start, end) == {0: (10, 20)}                # what is read of each partition
    # leaving the block is the driver's end: whatever was not committed is replayed by the next one
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from pyspark.sql.streaming.datasource import ReadMaxRows

from sparkcohort.runtime.shell.options import parse
from sparkcohort.streaming.reader import NO_LIMIT, CohortStreamReader
from tests.kit.broker import Cluster
from tests.kit.waiting import wait_until

ALL = ReadMaxRows(NO_LIMIT)


def bare(offset: dict[str, Any]) -> dict[str, Any]:
    """An offset without the topics' ids, as Spark's own source has it."""
    return {topic: partitions for topic, partitions in offset.items() if partitions}


class Calls:
    """Spark's stream runner: one thread, not the main one, which would take over its signals."""

    def __init__(self, reader: CohortStreamReader, thread: ThreadPoolExecutor) -> None:
        """Nothing is called yet."""
        self.reader, self._thread = reader, thread

    def __call__(self, name: str, *arguments: Any) -> Any:
        """What the reader answers; raises what it raises."""
        return self._thread.submit(getattr(self.reader, name), *arguments).result(60)

    def ranges(self, start: Any, end: Any) -> dict[int, tuple[int, int]]:
        """From where to where each partition (of the only topic) is read in this batch; those with nothing are left out."""
        inputs = self("partitions", start, end)
        session = self.reader._session
        assert session is not None
        plans = session.plans._plans
        slots = {plan_id: plans[plan_id].plan.slots for plan_id in {each.plan_id for each in inputs}}
        found: dict[int, tuple[int, int]] = {}
        for read in sorted(each for planned in slots.values() for slot in planned for each in slot.ranges):
            first, last = found.get(read.partition, (read.start, read.start))
            assert last == read.start, "slots have every offset once"
            found[read.partition] = (first, read.end)
        return found


def next_of(call: Calls, start: dict[str, Any]) -> dict[str, Any]:
    """The end of the next batch, when there is one."""

    def found() -> dict[str, Any] | None:
        end: dict[str, Any] = call("latestOffset", start, ALL)
        return end if end != start else None

    return wait_until(found, 60, "a batch")


@contextmanager
def called(broker: Cluster, topic: str, **more: str) -> Iterator[Calls]:
    """A reader of the topic in the group of the topic's name; ``more`` options with ``__`` for ``.``."""
    said = {"kafka.bootstrap.servers": broker.bootstrap, "group.id": topic, "subscribe": topic}
    said |= {"startingOffsets": "earliest"} | {name.replace("__", "."): value for name, value in more.items()}
    with ThreadPoolExecutor(1) as thread:
        calls = Calls(CohortStreamReader(parse.parse(said)), thread)
        try:
            yield calls
        finally:
            calls("stop")
