"""The benches in one program: ``make bench`` and ``make bench-assignors``, and what checks them."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

ROOT = Path(__file__).resolve().parents[2]
# The tree last: the installed wheel is what is measured, and `tests.kit` comes from here.  This folder not at all.
sys.path[:] = [entry for entry in sys.path if entry and Path(entry).resolve() not in {ROOT, Path(__file__).parent}]
sys.path.append(str(ROOT))

BENCHES = {
    "source": "this source and Spark's own side by side",
    "assignors": "the assignors beside Kafka's own, up to a million partitions",
}
EXAMPLES = """\b
Examples:
  make bench ARGS=--quick                           the same as: python -P tools/bench source --quick
  make bench-assignors ARGS=--quick                 the same as: python -P tools/bench assignors --quick
  python -P tools/bench source --part drain         only one part of a bench
  python -P tools/bench check -k assignors          whether the benches count and judge right
  python -P tools/bench source --help               what can be chosen, with examples
"""


class Benches(click.Group):
    """A bench's modules are imported when it is run: one needs Spark, another doesn't."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The benches, then the rest."""
        return [*BENCHES, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The ``main`` of a bench's room."""
        if cmd_name not in BENCHES:
            return super().get_command(ctx, cmd_name)
        command: click.Command = import_module(f"tools.bench.{cmd_name}.main").main
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  click's signature
        """One line each, without an import."""
        checks = [(name, command.get_short_help_str(80)) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl([*BENCHES.items(), *checks])


@click.group(cls=Benches, epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Measure Cohort, beside Spark and Kafka on this machine."""


@main.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def check(options: tuple[str, ...]) -> None:
    """Check the benches themselves, without measuring: pytest and its options."""
    sys.exit(pytest.main([str(Path(__file__).parent / "checks"), "-o", "pythonpath=", *options]))


if __name__ == "__main__":
    main(prog_name="python -P tools/bench")
