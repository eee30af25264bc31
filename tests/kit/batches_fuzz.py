"""Record batches as a target of ``targets``, their decompression left out."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa

from sparkcohort.native import _native
from sparkcohort.runtime.values.columns import KAFKA_ROW, KAFKA_ROW_WITH_HEADERS, Columns
from tests.kit.parts import NO_END, decoder
from tests.kit.record_batches import HEAD, summed
from tests.kit.targets import Target

NOTHING, CHECKSUMS, ALL = range(3)


class Plan(NamedTuple):
    """Which columns are read, what is mended first, and what a decoder is told with each part."""

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


@cache
def decoders() -> list[_native.Decoder]:
    """Those of the plans.  What is compressed is its records already, and comes at one go, or in pieces that end anywhere."""

    def unpack(_codec: int, packed: memoryview, _largest: int) -> bytes:
        return bytes(packed)

    def in_pieces(_codec: int, packed: memoryview, _largest: int) -> Any:
        return pa.BufferReader(pa.py_buffer(packed))

    return [
        decoder(
            columns=plan.columns, largest=plan.largest, window=plan.piece or 200, by=in_pieces if plan.piece else unpack
        )
        for plan in PLANS
    ]


def check(data: bytes) -> None:
    """The number of a plan, then batches: read up to the end or the first fault, ever onwards."""
    if not data:
        return
    number, records = data[0] % len(PLANS), data[1:]
    plan = PLANS[number]
    span = (plan.position, plan.stop, plan.high_watermark, list(plan.aborted))
    part, at = decoders()[number].part(records, 0, len(records), "t", 7, *span), plan.position
    while (event := part.take(plan.rows, plan.nbytes)) is not None and event[0] in (_native.RECORDS, _native.UNPACKING):
        assert event[3] >= at
        at = event[3]
        if event[5] is not None:
            event[5][0].validate(full=True)
            assert 0 < event[5][0].num_rows <= plan.rows


def mend(data: bytes) -> bytes:
    """With the lengths and checksums that batches ought to have, as far as their plan says: else nothing would get any further."""
    mends = PLANS[data[0] % len(PLANS)].mends if data else NOTHING
    made, left = data[:1], data[1:]
    while mends and len(left) >= HEAD.size:
        size = 12 + int.from_bytes(left[8:12])
        if not HEAD.size <= size <= len(left):
            size = len(left)
            left = left[:8] + (size - 12).to_bytes(4) + left[12:] if mends == ALL else left
        made, left = made + summed(left[:size]), left[size:]
    return made + left


TARGET = Target("batches", check, mend=mend)
