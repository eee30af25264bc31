"""The README's tables as the code has them; ``python -m tests.support.readme`` writes them into the README."""

from __future__ import annotations

import re
from pathlib import Path

from sparkcohort.runtime.shell.config import OPTIONS, Option
from sparkcohort.runtime.shell.metrics import METRICS

README = Path(__file__).parents[2] / "README.md"


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


if __name__ == "__main__":
    text = README.read_text()
    README.write_text(with_section(with_section(text, "options", options_table()), "metrics", metrics_table()))
