"""The README's tables as the code has them; ``python -m tests.kit.readme`` writes them into the README."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

from sparkcohort.runtime.shell.cli.main import cli
from sparkcohort.runtime.shell.observe.metrics import METRICS
from sparkcohort.runtime.shell.options.table import OPTIONS, Option

README = Path(__file__).parents[2] / "README.md"
SIMULATED = (("--members", "-executor-3", "--members", "+1@a"), ("--members", "+1", "--compare"))


def options_table() -> str:
    """Every option of the source, a row each."""
    rows = [f"| `{option.name}` | {_default(option)} | {_meaning(option)} |" for option in OPTIONS]
    return "\n".join(["| option | default | meaning |", "|---|---|---|", *rows])


def metrics_table() -> str:
    """Every metric of the endpoint, a row each."""
    rows = [f"| `{spec.name}` | {', '.join(spec.labels)} | {spec.help} |" for spec in METRICS]
    return "\n".join(["| metric | labels | meaning |", "|---|---|---|", *rows])


def _default(option: Option) -> str:
    return f"`{option.default}`" if option.default else ""


def _meaning(option: Option) -> str:
    if option.status == "honoured":
        return option.doc.replace("|", "\\|")
    word = "no effect" if option.status == "accepted" else "refused"
    return f"*{word}* ({option.doc}): {option.instead}".replace("|", "\\|")


def section(text: str, name: str) -> str:
    """What stands between ``<!-- name:begin -->`` and ``<!-- name:end -->``."""
    found = re.search(f"<!-- {name}:begin -->\n(.*?)\n?<!-- {name}:end -->", text, re.DOTALL)
    return found.group(1) if found else ""


def with_section(text: str, name: str, body: str) -> str:
    """The text with that section replaced."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    head, _, rest = text.partition(begin)
    return f"{head}{begin}\n{body}\n{end}{rest.partition(end)[2]}"


def simulated(text: str) -> str:
    """What the command answers to the README's own case, fenced, with the commands above their answers."""
    case = section(text, "case").removeprefix("```json\n").removesuffix("\n```")
    blocks = []
    for arguments in SIMULATED:
        out = io.StringIO()
        with TemporaryDirectory() as folder, redirect_stdout(out):
            path = Path(folder) / "case.json"
            path.write_text(case)
            cli(["simulate", "--input", str(path), *arguments], prog_name="cohort", standalone_mode=False)
        blocks.append(f"$ cohort simulate --input case.json {' '.join(arguments)}\n{out.getvalue()}")
    return "```\n" + "\n".join(blocks) + "```"


if __name__ == "__main__":
    text = README.read_text()
    text = with_section(with_section(text, "options", options_table()), "metrics", metrics_table())
    README.write_text(with_section(text, "simulate", simulated(text)))
