"""The command: a campaign of so many minutes, or the faults that a seed draws."""

from __future__ import annotations

import json
import secrets
import shutil
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path

import click

from tests.chaos import firewall
from tests.chaos.campaign import Campaign, Outcome
from tests.chaos.schedule import BY_NAME, KILL_NOBODY, Fault, draw

EXAMPLES = f"""
\b
Examples:
  python -m tests.chaos 10                              ten minutes, of a seed that is printed
  python -m tests.chaos 10 --seed 7                     the same faults again
  python -m tests.chaos 10 --seed 7 --draw              only what they are
  python -m tests.chaos 5 --only agent-killed,broker-frozen
  python -m tests.chaos 60 --kill-nobody                processes live long enough to show whether they grow
  python -m tests.chaos 120 --output json               the result for a program
  python -m tests.chaos 20 --sink                       from topic to topic, exactly once

\b
Kinds of faults: {", ".join(BY_NAME)}

Exit status: 0 nothing lost, doubled, stepped back or skipped, no end without a reason, no figure grows; 1
something is wrong; 2 the command was.
"""


def _tell(outcome: Outcome, seed: int, minutes: float, output: str) -> None:
    if output == "json":
        told: dict[str, object] = {"seed": seed, "minutes": minutes, "well": outcome.well, "restarts": outcome.restarts}
        told |= {"findings": outcome.verdict.findings, "standstills_s": outcome.standstills, "faults": outcome.faults}
        told |= {"readers_late_s": outcome.late, "looked_at": outcome.looked}
        click.echo(json.dumps(told | {"records": outcome.verdict.records, "grown": outcome.grown}))
        return
    click.echo(
        f"\n{'kind of fault':32}{'times':>6}{'longest standstill s':>22}{'readers late s' if outcome.late else '':>16}"
    )
    for name, longest in sorted(outcome.standstills.items(), key=lambda each: -each[1]):
        late = f"{outcome.late[name]:16.1f}" if outcome.late else ""
        click.echo(f"{name:32}{outcome.faults[name]:6}{longest:22.1f}{late}")
    for line in ("", *outcome.figures, "", *outcome.verdict.lines(), *outcome.grown, outcome.looked):
        click.echo(line)
    click.echo(f"the query was started again {outcome.restarts} times")
    click.echo(f"seed {seed}, {minutes:g} minutes: {'well' if outcome.well else 'NOT WELL'}")


@click.command(epilog=EXAMPLES, context_settings={"max_content_width": 120})
@click.argument("minutes", type=click.FloatRange(0.5, 24 * 60))
@click.option("--seed", type=int, help="Draws the faults; a new one each time.")
@click.option("--only", default="", metavar="KINDS", help="Kinds of faults, separated by commas; all of them.")
@click.option("--kill-nobody", is_flag=True, help="Only faults by which no process of ours ends: what grows shows.")
@click.option("--sink", "exactly_once", is_flag=True, help="The query writes to a topic, exactly once.")
@click.option("--draw", "only_draw", is_flag=True, help="Print the faults and end.")
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    help="A new folder for logs and files, which stays; without it they stay only if something went wrong.",
)
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def main(
    minutes: float,
    seed: int | None,
    only: str,
    kill_nobody: bool,
    exactly_once: bool,
    only_draw: bool,
    keep: Path | None,
    output: str,
) -> None:
    """Hurt a query on a real cluster for MINUTES, and say what became of its records."""
    names = [name.strip() for name in only.split(",") if name.strip()]
    if names and kill_nobody:
        raise click.UsageError("--only and --kill-nobody exclude each other.")
    names = list(KILL_NOBODY) if kill_nobody else names
    if unknown := sorted(set(names) - BY_NAME.keys()):
        raise click.UsageError(f"--only: no such kind of fault: {', '.join(unknown)}; there are {', '.join(BY_NAME)}")
    if keep is not None and keep.exists():
        raise click.UsageError(f"--keep: {keep} is there already; name a new folder")
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    faults = draw(seed, minutes * 60, names)
    if only_draw:
        for fault in faults:
            click.echo(str(fault))
        return
    try:
        firewall.enter()
    except OSError as error:
        raise click.ClickException(str(error)) from None
    sys.exit(_run(faults, seed, minutes, keep, output, exactly_once=exactly_once))


def _run(faults: list[Fault], seed: int, minutes: float, keep: Path | None, output: str, *, exactly_once: bool) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing that was started stays
    folder = keep or Path(tempfile.mkdtemp(prefix="cohort-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    click.echo(f"seed {seed}, {minutes:g} minutes, {len(faults)} faults", err=True)
    well = False
    try:
        say = partial(click.echo, err=True)
        outcome = Campaign(folder, faults, minutes * 60, say, exactly_once=exactly_once).run()
        well = outcome.well
    except AssertionError as error:
        click.echo(f"seed {seed}: {error}", err=True)
        return 1
    finally:
        if keep is None and well:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            click.echo(f"logs and files are in {folder}", err=True)
    _tell(outcome, seed, minutes, output)
    return 0 if well else 1


if __name__ == "__main__":
    main()
