"""JSON's records, read in C, or in Python where no compiler was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from sparkcohort.native import warn_of_missing_parts
from sparkcohort.runtime.shell.values.arrow_types import MOST, array_of, arrow_type, binary_buffers, check_values
from sparkcohort.runtime.values.json.plan import JsonReason, packed, plan, words
from sparkcohort.runtime.values.json.reader import JsonReader
from sparkcohort.runtime.values.json.zone import ZoneTable, packed_zone
from sparkcohort.runtime.values.types import ColumnType

try:
    from sparkcohort.native._json import JsonDecoder as NativeDecoder
except ImportError:  # built without a compiler, or without yyjson
    NativeDecoder = None  # type: ignore[assignment,misc]


class BadJson(NamedTuple):
    """A row at fault: null as a whole, or with a field that is null (``reason.whole`` tells)."""

    row: int
    reason: JsonReason
    message: str


class JsonValues:
    """Reads columns of JSON objects into one struct type; for one thread at a time.

    ``zone`` is that of timestamps that name none.
    """

    def __init__(
        self,
        target: ColumnType,
        *,
        zone: ZoneTable = (),
        native: bool = NativeDecoder is not None,
        most: int = MOST,
    ) -> None:
        self.target, self.type = target, arrow_type(target)
        self._fields, self._most, self._zone = plan(target), most, zone
        self._native = NativeDecoder(*packed(self._fields), most, packed_zone(zone)) if native else None
        if NativeDecoder is None:
            warn_of_missing_parts()

    def decode(self, values: pa.Array) -> tuple[pa.Array, list[BadJson]]:
        """As many rows as ``values`` (binary) has, and those at fault among them; a null row is null and no fault.

        OverflowError where a column of theirs would have more than ``most`` bytes or items, MemoryError where memory has
        run out; the decoder is as good as new then.
        """
        faults: Sequence[tuple[int, int, int]]
        validity, offsets, data = binary_buffers(values)
        if self._native:
            what, faults = self._native.decode(validity, offsets, data, values.offset, len(values), self._take)
        else:
            what, faults = self._plain_decode(values)
        bad = [(row, JsonReason(reason), at) for row, reason, at in faults]
        return what, [BadJson(row, reason, words(reason, at, self._fields)) for row, reason, at in bad]

    def _take(self, address: int) -> Any:
        return pa.Array._import_from_c(address, self.type)

    def _plain_decode(self, values: pa.Array) -> tuple[Any, list[tuple[int, int, int]]]:
        reader, rows = JsonReader(self._fields, check_values, self._zone), []
        bad: list[tuple[int, int, int]] = []
        for row, record in enumerate(values.to_pylist()):
            value, fault = reader.read(record)
            rows.append(value)
            if fault:
                bad.append((row, *fault))
        return array_of(rows, self.type, self._most), bad
