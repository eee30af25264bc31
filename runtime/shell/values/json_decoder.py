"""JSON's records, read in C."""

from __future__ import annotations

import pyarrow as pa

from sparkcohort.native._native import JsonDecoder
from sparkcohort.runtime.shell.values.arrow_types import MOST, BadRecord, arrow_type, binary_buffers, importer
from sparkcohort.runtime.values.json_plan import JsonReason, packed, plan, words
from sparkcohort.runtime.values.json_zone import ZoneTable, packed_zone
from sparkcohort.runtime.values.types import ColumnType


class JsonValues:
    """Reads columns of JSON objects into one struct type; for one thread at a time.

    ``zone`` is that of timestamps that name none.
    """

    def __init__(self, target: ColumnType, *, zone: ZoneTable = (), most: int = MOST) -> None:
        self.target, self.type, self._fields = target, arrow_type(target), plan(target)
        self._decoder = JsonDecoder(*packed(self._fields), most, packed_zone(zone))

    def decode(self, values: pa.Array) -> tuple[pa.Array, list[BadRecord]]:
        """As many rows as ``values`` (binary) has, and those at fault among them; a null row is null and no fault.

        OverflowError where a column of theirs would have more than ``most`` bytes or items, MemoryError where memory has
        run out; the decoder is as good as new then.
        """
        validity, offsets, data = binary_buffers(values)
        rows, faults = self._decoder.decode(validity, offsets, data, values.offset, len(values), importer(self.type))
        bad = [(row, JsonReason(reason), place) for row, reason, place in faults]
        return rows, [BadRecord(row, reason, words(reason, place, self._fields)) for row, reason, place in bad]
