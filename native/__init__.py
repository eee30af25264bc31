"""What is compiled: ``_drain`` (Kafka's records, and Avro inside of them) and ``_json`` (JSON, parsed by yyjson).

Each is there or isn't, by what there was when the wheel was built; ``module.c`` and ``json/module.c`` have the maps of their
C files.  Without them the same is done in Python.
"""

from __future__ import annotations

import logging
from functools import cache
from importlib import import_module

PARTS = {"_drain": "Kafka's records and Avro", "_json": "JSON"}
"""What is read by each."""

_log = logging.getLogger("sparkcohort.native")


def missing() -> dict[str, str]:
    """The parts that can't be loaded, and why."""
    found = {}
    for part in PARTS:
        try:
            import_module(f"{__name__}.{part}")
        except ImportError as error:
            found[part] = str(error)
    return found


@cache
def warn_of_missing_parts() -> None:
    """One line for all of them, once in a process; whoever goes without a part calls this."""
    gone = missing()
    if gone:
        _log.warning(
            "%s can't be loaded (%s): %s read in Python, at several times the CPU; a wheel built where there are a C "
            "compiler, Python's headers and the source of yyjson has all",
            " and ".join(f"the native part {part}" for part in gone),
            "; ".join(gone.values()),
            " and ".join(PARTS[part] for part in gone) + (" is" if list(gone) == ["_json"] else " are"),
        )
