"""The command: many seeds, or one told again."""

from __future__ import annotations

import json
import sys
import time

import click

from sparkcohort.runtime.group import timeline
from tests.simulator.breaks import BREAKS
from tests.simulator.runs import Tally, run, tallies

EXAMPLES = """
\b
Examples:
  python -m tests.simulator                           2,000 seeds
  python -m tests.simulator --seeds 10000 --jobs 2    more of them, on two cores
  python -m tests.simulator --seed 17                 one seed, its story told
  python -m tests.simulator --break lose-commit       see the simulator find a fault
  python -m tests.simulator --output json             the result for a program

Exit status: 0 no law was broken, 1 a law was broken, 2 the command was wrong.
"""
SHOWN = 3


def say(text: str) -> None:
    """A line for whoever waits."""
    click.echo(text, err=True)


def replay_command(seed: int, events: int, broken: str | None) -> str:
    """The command that shows this seed again."""
    more = f" --break {broken}" if broken else ""
    return f"python -m tests.simulator --seed {seed} --events {events}{more}"


def tell(seed: int, events: int, broken: str | None, output: str) -> int:
    """Run one seed and tell its story; the exit status."""
    if broken:
        with BREAKS[broken].applied():
            world, found = run(seed, events)
    else:
        world, found = run(seed, events)
    if output == "json":
        told: dict[str, object] = {"seed": seed, "events": world.events, "digest": world.digest()}
        told |= {"law": found.law, "what": found.what, "report": found.report} if found else {"law": None}
        click.echo(json.dumps(told))
        return 1 if found else 0
    for line in world.lines():
        click.echo(line)
    for member_id in world.coordinator.group.members:
        click.echo(f"\nThe story of {member_id}:")
        for _, line in timeline.placed_lines(world.coordinator.journal, member_id):
            click.echo(f"  {line}")
    click.echo(f"\nseed {seed}: {world.events} events, digest {world.digest()}")
    if found:
        click.echo(f"seed {seed} breaks {found.law}: {found.what}")
    return 1 if found else 0


def search(first: int, seeds: int, events: int, jobs: int, broken: str | None, output: str) -> int:
    """Run many seeds and sum up; the exit status."""
    began = time.monotonic()
    whole = Tally()
    for part in tallies(first, seeds, events, jobs, broken):
        whole.add(part)
        for found in part.broken[: SHOWN - len(whole.broken) + len(part.broken)]:
            say(f"{found.report}\n\nTo see it again: {replay_command(found.seed, events, broken)}\n")
        if whole.seeds % 1_000 < part.seeds:
            took = time.monotonic() - began
            say(f"{whole.seeds:,} of {seeds:,} seeds, {len(whole.broken)} broken, {whole.seeds / took:.0f} seeds/s")
    took = time.monotonic() - began
    laws = sorted({found.law for found in whole.broken})
    if output == "json":
        result = {
            "seeds": whole.seeds,
            "first": first,
            "events": whole.events,
            "seconds": round(took, 2),
            "counts": dict(sorted(whole.counts.items())),
            "laws": laws,
            "broken": [{"seed": x.seed, "law": x.law, "what": x.what} for x in whole.broken],
        }
        click.echo(json.dumps(result))
    else:
        click.echo(f"{whole.seeds:,} seeds from {first}, {whole.events:,} events in {took:.1f} s")
        for what, count in sorted(whole.counts.items()):
            click.echo(f"  {count:>9,} {what}")
        click.echo(f"laws broken by {len(whole.broken)} seeds: {', '.join(laws)}" if laws else "no law was broken")
    return 1 if whole.broken else 0


@click.command(epilog=EXAMPLES)
@click.option("--seeds", default=2_000, show_default=True, type=click.IntRange(1), help="how many seeds to run")
@click.option("--first", default=0, show_default=True, type=click.IntRange(0), help="the first of them")
@click.option("--events", default=150, show_default=True, type=click.IntRange(1), help="events before the faults end")
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1, 64), help="processes")
@click.option("--seed", type=click.IntRange(0), help="run this one seed and tell its story")
@click.option("--break", "broken", type=click.Choice(sorted(BREAKS)), help="break one thing, to see it found")
@click.option("--output", default="text", show_default=True, type=click.Choice(["text", "json"]), help="the result as")
def main(seeds: int, first: int, events: int, jobs: int, seed: int | None, broken: str | None, output: str) -> None:
    """Drive the group's core through drawn faults under a virtual clock, and check its laws after every step."""
    if seed is not None:
        sys.exit(tell(seed, events, broken, output))
    sys.exit(search(first, seeds, events, jobs, broken, output))


if __name__ == "__main__":
    main(prog_name="python -m tests.simulator")
