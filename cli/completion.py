"""``cohort completion``: prints click's script by which a shell completes the command."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

from sparkcohort.runtime.errors import CohortError

_EPILOG: Final = """\b
Examples:
  eval "$(cohort completion bash)"          in ~/.bashrc
  eval "$(cohort completion zsh)"           in ~/.zshrc, after compinit
"""


@click.command("completion", epilog=_EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh"]))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    """Print the script that has SHELL complete commands and options."""
    shell_class = get_completion_class(shell)
    if shell_class is None:
        raise CohortError(f"this version of click has no completion for {shell}; upgrade click")
    completion = shell_class(context.find_root().command, {}, "cohort", "_COHORT_COMPLETE")
    # Not ``source()``: it starts a bash to learn its version, and writes to standard error if there is none.
    click.echo(completion.source_template % completion.source_vars())
