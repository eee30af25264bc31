"""A picture of what a terminal shows: ``cohort rebalances | python tools/terminal_picture.py TITLE FILE.svg``."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

FONTS_ELSEWHERE: Final = re.compile(r"@font-face\s*\{.*?\}\s*", re.DOTALL)


def picture(text: str, title: str) -> str:
    """The text as an SVG that needs nothing from elsewhere; commands (``$ …``) and lines of headings stand out."""
    lines = text.rstrip("\n").split("\n")
    width = max(map(len, lines)) + 1
    console = Console(record=True, width=width, file=io.StringIO(), highlight=False, force_terminal=True)
    for line in lines:
        heading = line.replace(" ", "").replace("-", "").replace("#", "").replace("+", "").isupper()
        console.print(Text(line, style="bold green" if line.startswith("$ ") else "bold cyan" if heading else ""))
    return FONTS_ELSEWHERE.sub("", console.export_svg(title=title, unique_id="cohort"))


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(picture(sys.stdin.read(), sys.argv[1]))
