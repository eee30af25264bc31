"""The type of an option that names a folder of this host: a path, no URI."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

import click

_URI: Final = re.compile(r"([a-z][a-z0-9+.-]+:).*", re.IGNORECASE | re.DOTALL)
_FILE: Final = re.compile(r"file:(?://)?(/|/[^/%?#][^%?#]*)", re.IGNORECASE)


class LocalFolder(click.Path):
    """A path, or a ``file:`` URI that can be read in one way only.  Any other URI is refused, or a folder of that name would be made."""

    def __init__(self) -> None:
        """The folder may be missing; a file in its place is refused."""
        super().__init__(file_okay=False, resolve_path=True, path_type=Path)

    def convert(self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The absolute path, with all links resolved."""
        text = os.fspath(value)
        if match := _FILE.fullmatch(text):
            text = match[1]
        elif not text:
            self.fail("it is empty; give the path of a folder", param, ctx)
        elif match := _URI.fullmatch(text):  # only the scheme is shown: a URI may contain a key
            self.fail(
                f"it is a URI, {match[1]}; give the path of a local folder, ./NAME for one with a colon", param, ctx
            )
        return super().convert(text, param, ctx)
