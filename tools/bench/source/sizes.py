"""The part ``sizes``: the part ``source`` with other records: small, large, with headers, without keys, compressed."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from rich.table import Table

from tools.bench.figures import Bound, middle, shown
from tools.bench.source import source
from tools.bench.source.peers import COHORT, KAFKA, ROW, WITH_HEADERS
from tools.bench.source.topics import Shape
from tools.bench.source.world import Found, World, say

CODECS = ("none", "lz4", "zstd", "snappy")
KINDS = (Shape(20), Shape(100), Shape(1_000), Shape(10_000), Shape(100, headers=True), Shape(100, null_keys=True))
SHAPES = {shape.name: shape for shape in (replace(kind, compression=codec) for kind, codec in product(KINDS, CODECS))}
# Unless asked by name: every kind uncompressed but the one that the part `source` has, and every codec with two kinds.
USUAL = tuple(
    name
    for name, shape in SHAPES.items()
    if shape in {Shape(100, shape.compression), Shape(1_000, shape.compression)} or shape.compression == "none"
    if shape != Shape(100)
)
TOPIC_BYTES = 400_000_000
OVERHEAD_BYTES = 30  # of a record, about
LEAST_RECORDS = 24_000


def measure(world: World) -> Found:
    """Cohort and Spark's own with its defaults on a topic of each shape."""
    found: Found = {}
    with world.application(world.plan.masters[0]) as bench:
        for name in world.plan.shapes or USUAL:
            shape, topic = SHAPES[name], f"sizes-{name.replace('/', '-')}"
            say(f"-- {name}")
            written = source.fill(bench, topic, shape, records_of(shape, world.plan.records))
            peers = world.chosen(COHORT, KAFKA)
            runs = source.rounds(
                bench, peers, topic, written, world.plan.rounds, view=WITH_HEADERS if shape.headers else ROW
            )
            found[name] = source.summary(runs)
            bench.broker.admin.delete_topic(topic)
    return found


def records_of(shape: Shape, most: int) -> int:
    """As many as make a topic of a moderate size."""
    return max(min(most // 2, TOPIC_BYTES // (shape.value_bytes + OVERHEAD_BYTES)), LEAST_RECORDS)


def bounds(found: Found) -> list[Bound]:
    """Never slower than Spark's own."""
    return [
        Bound(f"sizes, {name}: rows/s of {KAFKA.name}'s", middle(over[KAFKA.name]["rows_per_s"]), 1.0, aim=1.5)
        for name, seen in found.items()
        if KAFKA.name in (over := seen["cohort_over"])
    ]


def tables(found: Found) -> list[Table]:
    """One line a shape."""
    table = Table(title="All of a topic, other records, steady batches (median, least to greatest)")
    for name in ("records", "cohort, M rows/s", "kafka, M rows/s", "cohort's rows/s : kafka's", "CPU : kafka's"):
        table.add_column(name, justify="left" if name == "records" else "right")
    for name, seen in found.items():
        rates = [shown(seen["sources"].get(peer.name, {}).get("rows_per_s"), 1e-6, 3) for peer in (COHORT, KAFKA)]
        over = seen["cohort_over"].get(KAFKA.name, {})
        table.add_row(name, *rates, shown(over.get("rows_per_s")), shown(over.get("cpu")))
    return [table]
