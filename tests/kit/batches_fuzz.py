"""What the reader of record batches is fed with; ``fuzz.py`` feeds it."""

from __future__ import annotations

import struct
from typing import NamedTuple

from sparkcohort.runtime.values.columns import KAFKA_ROW, KAFKA_ROW_WITH_HEADERS, Columns, fields_of
from tests.kit.fuzz import Fuzzed

SOURCES = (
    "arrow/blocks.c",
    "arrow/columns.c",
    "arrow/export.c",
    "arrow/utf8.c",
    "kafka_batches/batches.c",
    "kafka_batches/crc32c.c",
)
NO_END = 2**63 - 1
NOTHING, CHECKSUMS, ALL = range(3)


class Plan(NamedTuple):
    """How the program reads: which columns, what it mends first, and what a decoder is told with each part."""

    columns: Columns = KAFKA_ROW_WITH_HEADERS
    mends: int = ALL
    position: int = 0
    stop: int = NO_END
    high_watermark: int = -1
    largest: int = 1 << 20
    rows: int = 1_000
    nbytes: int = 1 << 20
    piece: int = 0  # how much is unpacked at once; 0: all
    aborted: tuple[tuple[int, int], ...] = ()  # in the order of their first offsets


PLANS = (
    Plan(),
    Plan(piece=1),
    Plan(piece=50, rows=2),
    Plan(columns=KAFKA_ROW, position=3, stop=9, high_watermark=12, nbytes=60),
    Plan(aborted=((7, 0), (8, 4), (7, 9))),
    Plan(largest=100, piece=8, position=2),
    Plan(columns=KAFKA_ROW, mends=CHECKSUMS, position=2**62, high_watermark=2**62 + 9),
    Plan(columns=KAFKA_ROW[:1], piece=3, stop=4, largest=60),
    Plan(mends=NOTHING),
)


def plan_of(data: bytes) -> Plan:
    """By which an input is read."""
    return PLANS[data[0] % len(PLANS)]


def packed_plans() -> bytes:
    """As the program reads them."""
    return struct.pack("=q", len(PLANS)) + b"".join(map(_written, PLANS))


def _written(plan: Plan) -> bytes:
    fields = fields_of(plan.columns)
    numbers = struct.pack("=10q", len(fields), *plan[1:-1], len(plan.aborted))
    return numbers + fields + b"".join(struct.pack("=qq", *each) for each in plan.aborted)


FUZZED = Fuzzed("batches", SOURCES, packed_plans)
