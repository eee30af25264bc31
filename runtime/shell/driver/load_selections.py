"""Which selection a ``load()`` has been read with: Spark keeps one for all DataFrames of it.

Spark 4.2 keeps what a push of filters has left (ranges, and the filters it needn't look at) in the source that all DataFrames
of one ``load()`` share (``UserDefinedPythonDataSource``), so that a second push changes what the first one reads.  Each push is a
process of its own: what they know of each other is a file.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sparkcohort.runtime.errors import CohortError, OptionError
from sparkcohort.runtime.shell.rpc.connection_file import home

if TYPE_CHECKING:
    from pathlib import Path

    from sparkcohort.runtime.batches.offset_filters import Selection

log = logging.getLogger("sparkcohort.batch")

FOLDER: Final = "loads"
KEPT_S: Final = 7 * 86_400.0
"""Longer than any session reads from one ``load()``."""


def claim(load_id: str, selected: Selection) -> None:
    """Have the DataFrames of this load read this selection.  Raises OptionError where they read another one already."""
    places = tuple(sorted(selected.places, key=repr))  # Spark tells them in any order
    fingerprint = hashlib.sha256(repr(selected._replace(places=places)).encode()).hexdigest()
    try:
        first = _first(home() / FOLDER, load_id, fingerprint)
    except (OSError, CohortError) as error:
        log.warning("whether this load() has been read with another filter is not known: %s", error)
        return
    if first != fingerprint:
        raise OptionError(
            "option pushDownPredicate: this load() has been read with another filter, and Spark keeps one selection for all "
            "DataFrames of a load(): call load() anew for each filter, or leave the option out"
        )


def _first(folder: Path, load_id: str, fingerprint: str) -> str:
    """What was written first of this load: ``fingerprint``, where nothing was."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in folder.iterdir():
        with suppress(FileNotFoundError):  # another process clears up, too
            if time.time() - old.stat().st_mtime > KEPT_S:
                old.unlink()
    fresh, path = folder / f"{load_id}.{os.getpid()}", folder / load_id
    fresh.write_text(fingerprint)
    try:
        with suppress(FileExistsError):
            path.hardlink_to(fresh)  # whole, and the first one stays
    finally:
        fresh.unlink()
    return path.read_text()
