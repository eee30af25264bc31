"""``make bench-group``: the group on the scale, and beside Kafka's own protocols."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from typing import Any

import click

from tools.bench.group import core, peers, report, rpc
from tools.bench.group.consumers import JavaError
from tools.bench.group.core import CoreError
from tools.bench.group.peers import PeerError
from tools.bench.group.rpc import RpcError
from tools.bench.report import as_json

FAILURES = (CoreError, RpcError, PeerError, JavaError, TimeoutError, AssertionError, OSError, RuntimeError)
PARTS = ("core", "rpc", "peers")


@dataclass(frozen=True)
class Plan:
    """How much to measure."""

    members: int
    partitions: int
    core_runs: int
    heartbeat_rounds: int
    rpc_runs: int
    heartbeat_s: float
    peers: peers.Plan


def say(text: str) -> None:
    """A progress line, out of the result's way."""
    click.echo(text, err=True)


def measure_core(plan: Plan) -> dict[str, Any]:
    """The pure core, one process, no network."""
    core.run(min(plan.members, 50), min(plan.partitions, 500), 1)
    runs = []
    for number in range(1, plan.core_runs + 1):
        runs.append(core.run(plan.members, plan.partitions, plan.heartbeat_rounds))
        joined, rate = runs[-1].rebalances["all join at once"], runs[-1].heartbeats / runs[-1].heartbeat.group
        say(
            f"[{number}/{plan.core_runs}] core: stable after {joined.without_assignor * 1000:.0f} CPU-ms, {rate:,.0f} heartbeats per CPU-s"
        )
    return report.core(runs, core.memory(plan.members, plan.partitions))


def measure_rpc(plan: Plan) -> dict[str, Any]:
    """The server in a process of its own, its members in others."""
    runs = []
    for number in range(1, plan.rpc_runs + 1):
        runs.append(rpc.run(plan.members, plan.partitions, plan.heartbeat_s))
        say(
            f"[{number}/{plan.rpc_runs}] RPC: stable after {runs[-1].stable_s:.2f} s, {runs[-1].per_cpu_s:,.0f} heartbeats "
            f"per second of the server's CPU, {runs[-1].per_s:,.0f} per second"
        )
    return report.rpc(runs)


def measure(plan: Plan, parts: tuple[str, ...]) -> dict[str, Any]:
    """The parts that are wanted, and what has to hold of them."""
    result: dict[str, Any] = {"bench": "cohort group", "cores": os.cpu_count()}
    if "core" in parts:
        result["core"] = measure_core(plan)
    if "rpc" in parts:
        result["rpc"] = measure_rpc(plan)
    if "peers" in parts:
        result["peers"] = report.peers(peers.measure(plan.peers, say))
        result["ratios"] = report.ratios(result["peers"])
        result["session_ms"], result["heartbeat_ms"] = plan.peers.session_ms, plan.peers.heartbeat_ms
    return result | {"bounds": report.bounds(result)}


EXAMPLES = """\b
Examples:
  make bench-group                                       all of it, about 7 minutes
  make bench-group ARGS=--quick                          a first impression, about 2 minutes
  python -P tools/bench group --part core --part rpc     without broker and Java
  python -P tools/bench group --part peers --rounds 5    only the comparison with Kafka's protocols
  python -P tools/bench group --output json >group.json  only the JSON line on standard output
"""


@click.command(epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--part", type=click.Choice(PARTS), multiple=True, help="Only this part (repeatable).")
@click.option("--members", type=click.IntRange(2), default=1000, show_default=True, help="Members of core and rpc.")
@click.option("--partitions", type=click.IntRange(1), default=10_000, show_default=True, help="Partitions of both.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="Runs of each part and peer.")
@click.option("--peer", type=click.Choice(peers.PEERS), multiple=True, help="Only this peer (repeatable).")
@click.option("--session-ms", type=click.IntRange(100), default=6000, show_default=True, help="Peers' session timeout.")
@click.option("--heartbeat-ms", type=click.IntRange(10), default=2000, show_default=True, help="Peers' heartbeats.")
@click.option("--quick", is_flag=True, help="One run of each part and peer: drift is not evened out.")
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(
    part: tuple[str, ...],
    members: int,
    partitions: int,
    rounds: int,
    peer: tuple[str, ...],
    session_ms: int,
    heartbeat_ms: int,
    quick: bool,
    output: str,
) -> None:
    """Measure the group: the pure core, the server behind its port, and the time to stable beside Kafka's protocols.

    core and rpc: 1,000 members and 10,000 partitions join at once and heartbeat.  peers: 10 members and 900 partitions;
    one joins, leaves, is killed, in the order A-B-C-D-D-C-B-A.  Ours are real member agents, each a process; the peers
    are Java consumers in one warm JVM, the one to be killed in its own.  Time runs from the call (or kill) until every
    partition has one owner again, as all members' callbacks say by one clock.  A pause is the time from revoked to
    assigned of a partition that its owner keeps: the least that it can't be read for.
    The last line of standard output is the result as one JSON object.
    Exit status: 0 measured and every bound holds, 1 a part failed or a bound does not hold, 2 wrong usage.
    """
    chosen = peers.Plan(
        10, 900, rounds, session_ms, heartbeat_ms, tuple(p for p in peers.PEERS if not peer or p in peer)
    )
    plan = Plan(members, partitions, rounds, 10, rounds, 8.0, chosen)
    if quick:
        plan = replace(plan, core_runs=1, rpc_runs=1, heartbeat_s=4.0, peers=replace(chosen, rounds=1))
    try:
        result = measure(plan, part or PARTS)
    except FAILURES as error:
        say(f"bench-group: {type(error).__name__}: {error}")
        sys.exit(1)
    if output == "table":
        report.print_tables(result)
    click.echo(as_json(result))
    sys.exit(0 if all(result["bounds"].values()) else 1)
