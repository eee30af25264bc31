"""What the reader of record batches is fed with; ``fuzz.py`` feeds it."""

from __future__ import annotations

import struct
from typing import NamedTuple

from sparkcohort.runtime.values.columns import KAFKA_ROW, KAFKA_ROW_WITH_HEADERS, Columns, fields_of
from tests.kit.fuzz import Fuzzed
from tests.kit.record_batches import (
    ABORT,
    COMMIT,
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Batch,
    Record,
    encoded,
    framed,
    marker,
)

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
HEADERS = ((b"h", b"v"), ("ü".encode(), None), (b"", b""))
PLAIN = tuple(Record(at, at, b"k" * at or None, b"value" * at, HEADERS[:at]) for at in range(4))
ODD = (
    Record(0, -(2**40), b"", None),
    Record(2, 2**54, None, b"x" * 130),
    Record(5, 1, b"k", b"v", ((b"\xff", b""),)),
)


def logs() -> list[bytes]:
    """Batches of every kind, in every codec (whose bytes are plain here, see ``batches_fuzz.c``)."""
    made = [_batch(Batch(0, PLAIN, codec=codec)) for codec in (*range(5), 7)]
    made += [_batch(Batch(0, ODD, attributes=attributes)) for attributes in (0, LOG_APPEND_TIME)]
    made += [_batch(Batch(base, PLAIN[:2], first_timestamp=2**62)) for base in (2**62, 2**63 - 3)]
    made += [_batch(Batch(4, PLAIN, last=9, codec=3)) + _batch(Batch(14, ODD)), _batch(Batch(0, (), last=5, codec=2))]
    made += [_batch(Batch(0, PLAIN[:1], count=count)) for count in (2, -1)]
    made += [_transactions(ABORT), _transactions(COMMIT), _batch(Batch(0, PLAIN)) + _batch(Batch(4, PLAIN))[:-7]]
    long = tuple(Record(at, at, None, b"z" * 90, HEADERS) for at in range(5))
    return [
        *made,
        _batch(Batch(0, ODD, codec=3)),
        _batch(Batch(0, long, codec=4)),
        _batch(Batch(1, long)) + _batch(Batch(6, PLAIN, codec=1)),
    ]


def _batch(batch: Batch) -> bytes:
    return framed(batch, b"".join(map(encoded, batch.records)))


def _transactions(kind: int) -> bytes:
    one = _batch(Batch(0, PLAIN, attributes=TRANSACTIONAL, producer=7))
    other = _batch(Batch(4, PLAIN[:3], attributes=TRANSACTIONAL, producer=8, codec=1))
    ends = _batch(marker(7, 7, kind)) + _batch(marker(8, 8, COMMIT))
    return one + other + ends + _batch(Batch(9, PLAIN, attributes=TRANSACTIONAL, producer=7)) + _batch(ODD_MARKER)


ODD_MARKER = Batch(13, (Record(0, key=b"\0"),), attributes=TRANSACTIONAL | CONTROL, producer=7)


def seeds() -> list[str]:
    """Every log for every plan."""
    return [(bytes([number]) + log).hex() for number in range(len(PLANS)) for log in logs()]


def least() -> list[str]:
    """What the corpus keeps: a good log for every plan, and what the compiler makes no block of its own of."""
    good, negative, large = logs()[1], _batch(Batch(0, PLAIN[:1], count=-1)), _batch(Batch(0, ODD, codec=3))
    return [
        *[(bytes([number]) + good).hex() for number in range(len(PLANS))],
        f"00{negative.hex()}",
        f"05{large.hex()}",
    ]


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


FUZZED = Fuzzed("batches", SOURCES, packed_plans, seeds, least)
