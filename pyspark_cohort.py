"""Registers ``format("cohort")`` by being installed.

PySpark imports every top-level module named ``pyspark_*`` and registers its ``DefaultSource``.  A module that raises ends that look-up, and
other people's sources are not found either.  So an error is shown when the format is used.  A query with any Python source waits for this
module: it imports the class of ours and none of the libraries that a query needs, but checks that they are there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkcohort.streaming.installation import check_libraries, unusable_reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.datasource import DataSource

__all__ = ["DefaultSource"]


def _unusable(error: Exception) -> type[DataSource]:
    """A source of our name that raises the reason when a query uses it."""
    from pyspark.sql.datasource import DataSource  # noqa: PLC0415  since PySpark 4.0

    reason = unusable_reason(error)

    class Unusable(DataSource):
        def __init__(self, options: Mapping[str, str]) -> None:  # noqa: ARG002  PySpark's signature
            raise RuntimeError(reason) from RuntimeError(
                reason
            )  # the cause is printed first, see streaming/spark_errors

        @classmethod
        def name(cls) -> str:
            return "cohort"

    return Unusable


try:
    check_libraries()
    from sparkcohort.streaming.source import CohortSource as DefaultSource
except Exception as failed:  # noqa: BLE001  every error is shown when the format is used
    try:
        DefaultSource = _unusable(failed)  # type: ignore[misc, assignment]
    except ImportError:  # PySpark before 4.0, or none: no sources are looked for
        __all__ = []
