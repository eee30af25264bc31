"""The type of an option that names a folder of this host, and can't take a URI."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

import click

_URI: Final = re.compile(r"([a-z][a-z0-9+.-]+:).*", re.IGNORECASE | re.DOTALL)
_FILE: Final = re.compile(r"file:(?://)?(/|/[^/%?#][^%?#]*)", re.IGNORECASE)


class LocalFolder(click.Path):
    """A path, or a ``file:`` URI that says the same in each reading; any other URI would become a folder of that name."""

    def __init__(self) -> None:
        """It need not be there; what is there has to be a folder."""
        super().__init__(file_okay=False, resolve_path=True, path_type=Path)

    def convert(self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The absolute path, through all links."""
        text = os.fspath(value)
        if match := _FILE.fullmatch(text):
            text = match[1]
        elif not text:
            self.fail("it is empty; give the path of a folder", param, ctx)
        elif match := _URI.fullmatch(text):  # only its scheme is shown: there may be a key in it
            self.fail(
                f"it is a URI, {match[1]}; give the path of a local folder, ./NAME for one with a colon", param, ctx
            )
        return super().convert(text, param, ctx)
