"""Registers ``format("cohort")`` by being installed.

PySpark imports every top-level module named ``pyspark_*`` and registers its ``DefaultSource`` by itself.  One that raises
ends that look-up, and other people's sources are not found either: so what is wrong is said when the format is used.
Whoever asks for any Python source waits for this module: it imports the class of ours, and none of the libraries that a
query needs, but looks whether they are there.
"""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.datasource import DataSource

__all__ = ["DefaultSource"]

_LEAST = (4, 2)
_NEEDED = ("confluent_kafka", "cryptography", "msgspec", "numpy", "prometheus_client", "pyarrow")


def _old_pyspark() -> str:
    """The version of a PySpark that is too old for the source; else nothing."""
    import pyspark  # noqa: PLC0415  who looks for sources has it

    found = str(getattr(pyspark, "__version__", "of unknown version"))
    numbers = re.match(r"(\d+)\.(\d+)", found)
    return found if numbers and (int(numbers[1]), int(numbers[2])) < _LEAST else ""


def _look_for_what_is_needed() -> None:
    """Raises ImportError for a library that is not there."""
    if found := _old_pyspark():
        raise ImportError(found)
    for name in _NEEDED:
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def what_is_wrong(error: Exception) -> str:
    """Why the source can't be used in this Python, and what to do."""
    if found := _old_pyspark():
        return f"format('cohort') needs PySpark 4.2 or newer, found {found} in {sys.executable}: upgrade pyspark"
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return (
        f"format('cohort') can't be loaded in {sys.executable} ({reason}): install it again there, with all that it "
        "needs: python -m pip install --force-reinstall sparkcohort"
    )


def _unusable(error: Exception) -> type[DataSource]:
    """A source of our name that says ``what is wrong`` as soon as somebody uses it."""
    from pyspark.sql.datasource import DataSource  # noqa: PLC0415  since PySpark 4.0

    said = what_is_wrong(error)

    class Unusable(DataSource):
        def __init__(self, options: Mapping[str, str]) -> None:  # noqa: ARG002  PySpark's signature
            raise RuntimeError(said) from RuntimeError(said)  # the cause is printed first, see streaming/spark_errors

        @classmethod
        def name(cls) -> str:
            return "cohort"

    return Unusable


try:
    _look_for_what_is_needed()
    from sparkcohort.streaming.source import CohortSource as DefaultSource
except Exception as failed:  # noqa: BLE001  whatever it is
    try:
        DefaultSource = _unusable(failed)  # type: ignore[misc, assignment]
    except ImportError:  # PySpark before 4.0, or none: nobody looks for sources
        __all__ = []
