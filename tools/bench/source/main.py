"""``make bench``: this source and Spark's own side by side, in one run, on a real broker."""

from __future__ import annotations

import os
import signal
import sys

import click
from confluent_kafka import KafkaException

from tests.kit.broker import Broker
from tools.bench import report
from tools.bench.figures import Bound, Samples
from tools.bench.source import (
    drain,
    exactly_once,
    gap,
    isolation,
    latency,
    many,
    partitions,
    sink,
    source,
    start,
    values,
)
from tools.bench.source.peers import PEERS
from tools.bench.source.runs import ERROR_CHARACTERS
from tools.bench.source.world import Part, Plan, World, say

PARTS: dict[str, Part] = {
    "drain": drain,
    "source": source,
    "start": start,
    "values": values,
    "partitions": partitions,
    "latency": latency,
    "gap": gap,
    "isolation": isolation,
    "many": many,
    "sink": sink,
    "exactly-once": exactly_once,
}
# A source that fails, or delivers something else (a BenchError), a broker that doesn't answer, a producer that can't.
FAILURES = (RuntimeError, OSError, AssertionError, KafkaException)
HOST = "127.0.0.1"
AS_USERS_HAVE_IT = {"group.initial.rebalance.delay.ms": "3000"}  # Kafka's default: a new group's first join takes 3 s
MASTERS = ("local[2]", "local-cluster[2,1,1024]")


def measure(plan: Plan) -> tuple[dict[str, Samples], list[Bound]]:
    """Run all parts of the plan on one broker: what was measured, and what was demanded of it."""
    found: dict[str, Samples] = {}
    bounds: list[Bound] = []
    say("starting a broker")
    with Broker(heap_mb=1024, java_options=(), host=HOST, properties=AS_USERS_HAVE_IT) as broker:
        world = World(plan, broker)
        for name in plan.parts:
            say(f"--- {name}")
            part = PARTS[name]
            try:
                found[name] = samples = Samples(part.measure(world))
            except FAILURES as error:  # what the other parts find is worth an hour
                bounds.append(Bound(f"{name}: measured", 0.0, 1.0))
                say(f"bench: {name}: {type(error).__name__}: {str(error)[:ERROR_CHARACTERS]}")
                continue
            bounds += filter(None, (demand.bound(name, samples) for demand in part.demands(samples.cases)))
    return found, bounds


EXAMPLES = """\b
Examples:
  make bench                                              all of it, more than two hours
  make bench ARGS=--quick                                 a first impression, about half an hour
  python -P tools/bench source --part source --rounds 7   only rows per second and CPU
  python -P tools/bench source --part drain               only Kafka into Arrow, without Spark
  python -P tools/bench source --part sink --rounds 2     only rows into Kafka
  python -P tools/bench source --part gap --rounds 2 --window 30 --recommended
  python -P tools/bench source --part source --master 'local[2]' --source cohort --source kafka
  python -P tools/bench source --output json >bench.json  only the JSON line on standard output
"""


@click.command(epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--records", type=click.IntRange(10_000), default=6_000_000, show_default=True, help="Records to read.")
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True, help="Measured runs of each source.")
@click.option("--batches", type=click.IntRange(3), default=40, show_default=True, help="Batches of each trickle.")
@click.option("--cap", type=click.FloatRange(1), default=60.0, show_default=True, help="Longest trickle, in seconds.")
@click.option("--stretch", type=click.FloatRange(5), default=20.0, show_default=True, help="Seconds of other runs.")
@click.option("--window", type=click.FloatRange(5), default=60.0, show_default=True, help="Seconds after an event.")
@click.option("--quick", is_flag=True, help="Fewer of all of them, 2 rounds: drift is hardly evened out.")
@click.option("--part", type=click.Choice(list(PARTS)), multiple=True, help="Only this part (repeatable).")
@click.option(
    "--source", type=click.Choice([peer.name for peer in PEERS]), multiple=True, help="Only this source (repeatable)."
)
@click.option("--master", multiple=True, help=f"Only this Spark master (repeatable).  [default: {', '.join(MASTERS)}]")
@click.option(
    "--recommended/--plain",
    default=None,
    help="Only with, or only without, the settings of conf/spark-defaults.conf.  [default: both, where it matters]",
)
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(
    records: int,
    rounds: int,
    batches: int,
    cap: float,
    stretch: float,
    window: float,
    quick: bool,
    part: tuple[str, ...],
    source: tuple[str, ...],
    master: tuple[str, ...],
    recommended: bool | None,
    output: str,
) -> None:
    """Compare format("cohort") with Spark's own format("kafka"), default and tuned, on a real broker.

    Same data, warm, in the order A-B-C-C-B-A; ratios are those of the runs of one round.  CPU-seconds are those of the
    driver, executors, Python workers, stream runner and member agents.  Each source's rows are compared with what was
    written, byte for byte, in a run that isn't measured.  The last line of standard output is the result as one JSON object.
    Exit status: 0 measured and every bound holds, 1 a source failed, or delivered something else than was written, or a
    bound does not hold, 2 wrong usage.
    """
    if quick:
        records, rounds, batches, cap, stretch, window = 2_400_000, 2, 15, 40.0, 8.0, 15.0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and everything that was started ends too
    peers = tuple(peer for peer in PEERS if not source or peer.name in source)
    parts, masters = part or tuple(PARTS), master or MASTERS
    plan = Plan(records, rounds, batches, cap, stretch, window, parts, peers, masters, recommended)
    try:
        found, bounds = measure(plan)
    except (FileNotFoundError, RuntimeError) as error:  # no jars, no broker
        say(f"bench: {str(error)[:ERROR_CHARACTERS]}")
        sys.exit(1)
    if output == "table":
        tables = [report.part_table(PARTS[name].TITLE, PARTS[name].COLUMNS, samples) for name, samples in found.items()]
        report.print_all([*tables, report.bound_table(bounds)])
    held = {bound.what: bound.as_value() for bound in bounds}
    settings = {"bench": "cohort", "cores": os.cpu_count(), "records": records, "rounds": rounds}
    measured = {name: samples.as_value() for name, samples in found.items()}
    click.echo(report.as_json({**settings, **measured, "bounds": held}))
    sys.exit(0 if all(bound.holds for bound in bounds) else 1)
