"""Protobuf's records, with or without Confluent's frame, read in C."""

from __future__ import annotations

import pyarrow as pa

from sparkcohort.native._native import ProtobufDecoder
from sparkcohort.runtime.shell.values.arrow_types import MOST, BadRecord, arrow_type, binary_buffers, importer
from sparkcohort.runtime.values.protobuf_columns import column_type
from sparkcohort.runtime.values.protobuf_compilation import compile_steps
from sparkcohort.runtime.values.protobuf_descriptor import MessageDescriptor
from sparkcohort.runtime.values.protobuf_steps import ProtobufReason
from sparkcohort.runtime.values.types import ColumnType, packed


class ProtobufValues:
    """Reads columns of records of one message into its type, or what is asked for of it (else DescriptorError).

    ``framed``: a record has Confluent's frame, with the message's own index unless ``any_index``.
    """

    def __init__(
        self,
        message: MessageDescriptor,
        target: ColumnType | None = None,
        *,
        framed: bool = False,
        any_index: bool = False,
        most: int = MOST,
    ) -> None:
        self.target = target or column_type(message)
        self.type, self._framed = arrow_type(self.target), framed
        self._steps = compile_steps(message, self.target, message.index if framed and not any_index else ())
        self._decoder = ProtobufDecoder(packed(self.target), *self._steps.packed(), self._steps.constants, most)

    def decode(self, values: pa.Array) -> tuple[pa.Array, list[BadRecord]]:
        """As many rows as ``values`` (binary) has, and the bad ones among them; a null row is null and not bad.

        OverflowError where a column of theirs would have more than ``most`` bytes or items, MemoryError where memory has
        run out; the decoder is as good as new then.
        """
        validity, offsets, data = binary_buffers(values)
        take = importer(self.type)
        rows, bad = self._decoder.decode(validity, offsets, data, values.offset, len(values), self._framed, take)
        return rows, [self._bad(*each) for each in bad]

    def _bad(self, row: int, reason: int, position: int, step: int) -> BadRecord:
        path = self._steps.paths[step] if step >= 0 else ""
        return BadRecord(row, ProtobufReason(reason), ProtobufReason(reason).at(position, path))
