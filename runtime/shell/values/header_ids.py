"""Schema ids that stand in a header of the record, as Confluent's ``HeaderSchemaIdSerializer`` writes them.

The header is read before the record's first bytes (``DualSchemaIdDeserializer``): its id becomes the frame that the decoders
know, so a record has one layout for them, wherever its id stood.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

HEADER: Final = "__{}_schema_id"
"""The header's name, for a record's key or value."""
ID_SIZE, GUID_SIZE = 5, 17  # each with its magic byte, 0 or 1
FIRST_GUID_NUMBER: Final = 1 << 31
"""A frame has four bytes for an id.  A registry's ids are positive Java ints, so the numbers above them are free for GUIDs."""
MOST_GUIDS: Final = 100_000
"""More than any registry has schemas: a producer of more makes them up."""


class HeaderIds:
    """Puts the schema ids of records' headers in front of their bytes; for one thread at a time.

    ``part``: ``key`` or ``value``.  ``indexed``: behind the id stands Protobuf's message index, in the header as in a frame.
    """

    def __init__(self, part: str, *, indexed: bool = False) -> None:
        self._header, self._indexed = HEADER.format(part), indexed
        self._numbers: dict[UUID, int] = {}  # a GUID's number in frames; it never changes
        self._guids: list[UUID] = []  # by number, from FIRST_GUID_NUMBER

    def registry_key(self, number: int) -> int | str:
        """The registry's key for the number in a frame: an id, or a GUID."""
        place = number - FIRST_GUID_NUMBER
        return str(self._guids[place]) if 0 <= place < len(self._guids) else number

    def add_frames(self, values: pa.Array, headers: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        """The records with a frame where a header has their id; and by row, what is wrong with an id.

        ``headers``: lists of key and value.  A record whose id is wrong becomes empty, lest its first bytes be read as an id.
        """
        last, ids = self._last_headers(headers)
        frames, faults = [b"", b""], ["", "the schema id is negative"]  # of records without the header
        for header in ids.dictionary.to_pylist():
            frame, fault = self._frame(header)
            frames.append(frame)
            faults.append(fault)
        if len(frames) == 2 and not self._guids:
            return values, {}
        kinds = np.where(last < 0, _negative(values), np.append(ids.indices.to_numpy() + 2, 0)[last])
        faulty = np.array([bool(fault) for fault in faults])[kinds] & values.is_valid().to_numpy(zero_copy_only=False)
        prefixes = pa.array(frames, pa.binary()).take(pa.array(kinds))
        add_frames = pc.if_else(pa.array(faulty), b"", pc.binary_join_element_wise(prefixes, values, b""))
        return add_frames, {int(row): faults[kinds[row]] for row in np.flatnonzero(faulty)}

    def _last_headers(self, headers: pa.Array) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], pa.DictionaryArray]:
        """By row, the place of its header among those of the name, -1 without one; and what those headers hold."""
        last = np.full(len(headers), -1, np.int64)
        pairs = pc.list_flatten(headers)
        matches = pc.equal(pc.struct_field(pairs, 0), self._header)
        rows = pc.list_parent_indices(headers).filter(matches).to_numpy()
        np.maximum.at(last, rows, np.arange(len(rows)))  # Kafka's Headers.lastHeader: the last one of a name counts
        return last, pc.dictionary_encode(pc.struct_field(pairs, 1).filter(matches), null_encoding="encode")

    def _frame(self, header: bytes | None) -> tuple[bytes, str]:
        """The frame that a header stands for, and what is wrong with it."""
        size = {0: ID_SIZE, 1: GUID_SIZE}.get(header[0], 0) if header else 0
        if not header or not size or len(header) < size or (len(header) > size and not self._indexed):
            return b"", f"the header {self._header} has no schema id: {len(header or b'')} bytes"
        if size == ID_SIZE:
            return (header, "") if header[1] < 128 else (b"", "the schema id is negative")
        guid = UUID(bytes=header[1:size])
        if guid not in self._numbers:
            if len(self._guids) == MOST_GUIDS:
                return b"", f"the header {self._header} has one GUID more than a registry has schemas"
            self._numbers[guid] = FIRST_GUID_NUMBER + len(self._guids)
            self._guids.append(guid)
        return b"\0" + self._numbers[guid].to_bytes(4, "big") + header[size:], ""


def _negative(values: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which records begin with a frame whose id is negative: such a number is that of a GUID here."""
    begins = pc.binary_slice(values, 0, 2)
    negative = pc.and_(pc.greater_equal(begins, b"\x00\x80"), pc.less(begins, b"\x01"))
    return negative.fill_null(False).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
