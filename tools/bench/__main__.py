"""``make bench``: this source and Spark's own side by side, in one run, on a real broker."""

from __future__ import annotations

import os
import sys
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

# The tree last: the installed wheel is what is measured, and `tests.support` comes from here.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from tests.support.broker import Broker
from tools.bench import drain, report
from tools.bench.clients import MARK, Clients
from tools.bench.peers import COHORT, KAFKA, PEERS, Peer, session
from tools.bench.results import BenchError, Throughput, Trickle, order
from tools.bench.runs import Bench

PARTITIONS = 8
MANY_PARTITIONS = 300
PARTS = ("throughput", "trickle", "drain")
ERROR_CHARACTERS = 4000
BATCHES = 6  # of which the first and the last are not measured


@dataclass(frozen=True)
class Plan:
    """How much to measure."""

    records: int
    rounds: int
    trickle_batches: int
    cap_s: float
    parts: tuple[str, ...]
    peers: tuple[Peer, ...]


def say(text: str) -> None:
    """A progress line, out of the result's way."""
    click.echo(text, err=True)


def measure_throughput(bench: Bench, plan: Plan) -> list[Throughput]:
    """All of a topic, each source ``plan.rounds`` times after one warming run of each."""
    say(f"filling a topic: {plan.records:,} records of 100 bytes in {PARTITIONS} partitions")
    bench.fill("throughput", plan.records, PARTITIONS)
    for peer in plan.peers:
        say(f"warming up: {peer.name}")
        bench.throughput(peer, "throughput", plan.records, BATCHES)
    runs: list[Throughput] = []
    todo = order(plan.peers, plan.rounds)
    for number, peer in enumerate(todo, 1):
        run = bench.throughput(peer, "throughput", plan.records, BATCHES)
        runs.append(run)
        say(
            f"[{number}/{len(todo)}] {peer.name}: {run.rows_per_s / 1e6:.2f} M rows/s, {run.cpu_per_million:.2f} CPU-s "
            f"per M rows; whole query {run.query_wall_s:.1f} s"
        )
    return runs


def measure_trickle(bench: Bench, plan: Plan) -> list[Trickle]:
    """Trigger times at 8 and 300 partitions; Spark's own at 300 last and once, since it may crawl."""
    for partitions in (PARTITIONS, MANY_PARTITIONS):
        bench.broker.admin.create_topic(f"trickle-{partitions}", partitions)
    sources = [peer for peer in plan.peers if peer in (COHORT, KAFKA)]
    steps = [(peer, size) for peer in sources for size in (PARTITIONS, MANY_PARTITIONS)]
    slow = (KAFKA, MANY_PARTITIONS)
    steps = [step for step in (*steps, *reversed(steps)) if step != slow] + [step for step in steps if step == slow]
    runs: list[Trickle] = []
    for number, (peer, size) in enumerate(steps, 1):
        run = bench.trickle(peer, f"trickle-{size}", size, plan.trickle_batches, plan.cap_s)
        runs.append(run)
        shown = "no measured batch" if run.median_ms is None else f"{run.median_ms:.0f} ms a trigger"
        count = len(run.trigger_ms) + run.unmeasured
        say(
            f"[{number}/{len(steps)}] trickle, {size} partitions, {peer.name}: {shown} ({count} batches in {run.seconds:.0f} s)"
        )
    return runs


def measure_with_spark(plan: Plan, master: str, broker: Broker) -> tuple[list[Throughput], list[Trickle]]:
    """The parts that need Spark, in one application."""
    mark = os.environ[MARK] = uuid.uuid4().hex
    say("starting Spark")
    with (
        tempfile.TemporaryDirectory(prefix="cohort-bench-", ignore_cleanup_errors=True) as directory,
        Clients(mark, broker.pid) as clients,
        session(master, Path(directory)) as spark,
    ):
        bench = Bench(spark, broker, clients)
        rates = measure_throughput(bench, plan) if "throughput" in plan.parts else []
        return rates, measure_trickle(bench, plan) if "trickle" in plan.parts else []


def measure(plan: Plan, master: str) -> dict[str, Any]:
    """Run all parts of the plan on one broker."""
    say("starting a broker")
    with Broker(heap_mb=1024) as broker:
        # At least five rounds: these runs are short, and their ratios are what is demanded.
        drained = drain.measure(broker, plan.records, max(plan.rounds, 5), say) if "drain" in plan.parts else []
        with_spark = set(plan.parts) - {"drain"}
        rates, trickles = measure_with_spark(plan, master, broker) if with_spark else ([], [])
    drains, seen, times = drain.report(drained), report.throughput(rates), report.trickle(trickles)
    return {
        "bench": "cohort",
        "master": master,
        "cores": os.cpu_count(),
        "records": plan.records,
        "rounds": plan.rounds,
        "throughput": seen,
        "trickle": times,
        "drain": drains,
        "ratios": report.ratios(seen, times) | drain.ratios(drains),
    }


EXAMPLES = """\b
Examples:
  make bench                                       all of it, about 12 minutes
  make bench ARGS=--quick                          a first impression, about 7 minutes
  python tools/bench --part throughput --rounds 6  only rows per second and CPU
  python tools/bench --part drain                  only Kafka into Arrow, without Spark
  python tools/bench --output json >bench.json     only the JSON line on standard output
"""


@click.command(epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--records", type=click.IntRange(10_000), default=6_000_000, show_default=True, help="Records to read.")
@click.option("--rounds", type=click.IntRange(1), default=4, show_default=True, help="Measured runs of each source.")
@click.option("--batches", type=click.IntRange(3), default=40, show_default=True, help="Batches of each trickle.")
@click.option("--cap", type=click.FloatRange(1), default=60.0, show_default=True, help="Longest trickle, in seconds.")
@click.option(
    "--quick", is_flag=True, help="2,400,000 records, 2 rounds, 15 batches, 40 s: drift is hardly evened out."
)
@click.option("--part", type=click.Choice(PARTS), multiple=True, help="Only this part.")
@click.option(
    "--source", type=click.Choice([peer.name for peer in PEERS]), multiple=True, help="Only this source (repeatable)."
)
@click.option("--master", default="local[2]", show_default=True, help="Spark master, as local-cluster[2,1,1024].")
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(
    records: int,
    rounds: int,
    batches: int,
    cap: float,
    quick: bool,
    part: tuple[str, ...],
    source: tuple[str, ...],
    master: str,
    output: str,
) -> None:
    """Compare format("cohort") with Spark's own format("kafka"), default and tuned, on a real broker.

    Same data, noop sink, warm, in the order A-B-C-C-B-A.  CPU-seconds are those of the driver JVM, Python workers,
    stream runner and member agents.  The last line of standard output is the result as one JSON object.
    Exit status: 0 measured, 1 a source failed or did not deliver every record, 2 wrong usage.
    """
    if quick:
        records, rounds, batches, cap = 2_400_000, 2, 15, 40.0
    peers = tuple(peer for peer in PEERS if not source or peer.name in source)
    plan = Plan(records, rounds, batches, cap, part or PARTS, peers)
    try:
        result = measure(plan, master)
    except (BenchError, FileNotFoundError, PySparkException, Py4JError) as error:
        say(f"bench: {str(error)[:ERROR_CHARACTERS]}")
        sys.exit(1)
    if output == "table":
        report.print_tables(result)
    click.echo(report.as_json(result))


if __name__ == "__main__":
    main(prog_name="python tools/bench")
