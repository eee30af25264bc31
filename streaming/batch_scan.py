"""One scan of a batch read as Cohort's jar describes it: Spark pushes filters, columns and limits to the JVM only.

The description comes with the schema that Spark gives to the reader, whose columns are those that the scan needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

METADATA: Final = "cohort.scan"
"""The key in the metadata of the schema's first column."""


class BatchScan(msgspec.Struct, frozen=True):
    """What BatchPlans.java says of a scan.

    ``bound`` is that of its filter (``narrowing``), [] where none is pushed.  At least ``limit`` rows of each task are wanted.
    ``plan`` has the ranges that an earlier scan of the same ``load()`` fixed, in JSON, "" for the first one.
    """

    bound: list[Any] = msgspec.field(default_factory=list)
    limit: int | None = None
    plan: str = ""


_SCAN: Final = msgspec.json.Decoder(BatchScan)


def scan_of(schema: StructType) -> BatchScan | None:
    """The scan that a schema is of; None where Python alone reads, which is shown nothing."""
    text = schema.fields[0].metadata.get(METADATA) if schema.fields else None
    return _SCAN.decode(text) if text else None
