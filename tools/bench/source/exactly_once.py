"""The part ``exactly-once``: what transactions cost a sink, beside the same sink at least once.

From topic to topic: stored records in batches of a limit, and what comes at a low rate, until a ``read_committed`` consumer has it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from tests.kit.streams import CHECKPOINT_FILES, WITHOUT_PROCESSES
from tools.bench.figures import Demand, Sample, difference
from tools.bench.report import Column
from tools.bench.results import BenchError, order
from tools.bench.source import topics
from tools.bench.source.peers import COHORT
from tools.bench.source.runs import Bench, steady
from tools.bench.source.sink import RATE, copied_while, warm_broker
from tools.bench.source.world import World, say

BATCHES = 10
MOST_RECORDS = 2_000_000
LIMIT_S = 300.0
# As docs/operate/sizing.md has it for a checkpoint on a local disk: else Spark starts processes for the log files of each batch.
LOCAL_CHECKPOINT = {CHECKPOINT_FILES: WITHOUT_PROCESSES}
STORED, COMING = "topic to topic, stored records", f"topic to topic, {RATE:,} records/s"
AT_LEAST, EXACTLY = "at least once", "exactly once"
GUARANTEES = (AT_LEAST, EXACTLY)
TITLE = "What exactly once costs"
COLUMNS = (
    Column("rows_per_s", "M rows/s", 1e-6, compared=True),
    Column("cpu_s_per_million", "CPU-s per M rows", compared=True),
    Column("batch_ms", "a batch, ms", digits=0),
    Column("p50_ms", "p50, ms", digits=0),
    Column("p99_ms", "p99, ms", digits=0, compared=True),
)


def measure(world: World) -> list[Sample]:
    """Both; raises BenchError when a topic holds something else than was written."""
    warm_broker(world)
    with world.application(world.plan.masters[0]) as bench:
        found = _stored(world, bench)
    with world.application(world.plan.masters[0], LOCAL_CHECKPOINT, counting=False) as bench:
        return found + _coming(world, bench)


def _options(guarantee: str) -> dict[str, str]:
    sink_id = f"bench-{time.monotonic_ns()}"
    return {"delivery.guarantee": "exactly-once", "sink.id": sink_id} if guarantee == EXACTLY else {}


def _stored(world: World, bench: Bench) -> list[Sample]:
    records, found = min(world.plan.records, MOST_RECORDS), list[Sample]()
    topics.fill(bench.spark, bench.broker, "exactly-once-from", topics.Shape(), records)
    for number, guarantee in enumerate([*GUARANTEES, *order(GUARANTEES, world.plan.rounds)]):
        figures = _copy_all(bench, guarantee, records)
        say(
            f"{STORED}, {guarantee}: {figures['rows_per_s'] / 1e6:.2f} M rows/s, {figures['cpu_s_per_million']:.2f} CPU-s per M rows"
        )
        if number >= len(GUARANTEES):  # the first of each is warming up
            found.append(Sample(STORED, guarantee, figures))
    return found


def _copy_all(bench: Bench, guarantee: str, records: int) -> dict[str, float]:
    topic, limit = f"exactly-once-to-{time.monotonic_ns()}", str(-(-records // BATCHES))
    bench.broker.admin.create_topic(topic, topics.PARTITIONS)
    frame = bench.read(COHORT, "exactly-once-from", startingOffsets="earliest", maxOffsetsPerTrigger=limit)
    asked = {"kafka.bootstrap.servers": bench.broker.bootstrap, "topic": topic, **_options(guarantee)}
    writer = frame.select("key", "value").writeStream.format(COHORT.format).options(**asked)
    with bench.streaming(COHORT, writer) as query:
        bench.await_batches(query, BATCHES, LIMIT_S)
    seen = bench.progress.batches(query)
    held = sum(bench.broker.admin.ends(topic).values())
    bench.broker.admin.delete_topic(topic)
    if sum(batch.rows for batch in seen) != records or held < records:
        raise BenchError(f"{STORED}, {guarantee}: {held} offsets instead of {records} records")
    return steady(seen)


def _coming(world: World, bench: Bench) -> list[Sample]:
    found: list[Sample] = []
    bench.broker.admin.create_topic("sink-from", topics.PARTITIONS)
    for guarantee in GUARANTEES:
        say(f"warming up: {guarantee}, {COMING}")
        copied_while(bench, COHORT, world.plan.stretch_s / 2, _options(guarantee))
    for guarantee in order(GUARANTEES, world.plan.rounds):
        figures = copied_while(bench, COHORT, world.plan.stretch_s, _options(guarantee))
        found.append(Sample(COMING, guarantee, figures))
        say(f"{COMING}, {guarantee}: {', '.join(f'{name} {value:.0f}' for name, value in figures.items())}")
    return found


def demands(_: Sequence[str]) -> list[Demand]:
    """Nearly as many rows; little more time for a batch; soon with a ``read_committed`` reader."""
    return [
        Demand(STORED, "rows_per_s", "rows/s", 0.95, (EXACTLY,), beside=AT_LEAST, at_least=True),
        Demand(COMING, "batch_ms", "a batch, ms more", 30.0, (EXACTLY,), beside=AT_LEAST, by=difference),
        Demand(COMING, "p99_ms", "p99, ms", 350.0, (EXACTLY,)),
    ]
