"""Batches of some KB that stand for hundreds of megabytes, and what it takes to read one under a hard limit.

    python -m tests.kit.heavy "large values" zstd

Prints {"rows": …, "expected": …, "whole": bytes, "grown": bytes, "most": bytes, …}.
"""

from __future__ import annotations

import json
import re
import resource
import struct
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from sparkcohort.native import _native
from tests.kit.parts import NO_END, decoder
from tests.kit.record_batches import CODECS, HEAD, Batch, Record, encoded, framed

MIB = 1 << 20
BUDGET = 4 * MIB
ROOM = 200 * MIB  # above which the process may not map more


class Heavy(NamedTuple):
    """So many records of this kind, of which those from ``start`` on are wanted; how much memory that may take."""

    records: int
    value: int = 0
    headers: int = 0
    start: int = 0
    most: int = 20 * MIB


KINDS: Mapping[str, Heavy] = {
    "large values": Heavy(128, MIB),
    "one large value": Heavy(4, 60 * MIB, start=3, most=140 * MIB),
    "many headers": Heavy(200, 20, 10_000, most=12 * MIB),
    "many small records": Heavy(6_000_000, 0, start=5_990_000),
    "nothing wanted": Heavy(128, MIB, start=127),
}


def plain(kind: Heavy) -> Iterator[bytes]:
    """The records, some at a time."""
    headers = ((b"", None),) * kind.headers
    if kind.value >= 1_000 or kind.headers:
        yield from (encoded(Record(at, value=bytes(kind.value), headers=headers)) for at in range(kind.records))
        return
    empty = encoded(Record(0))  # all of one offset, but for the last ones
    for at in range(0, kind.start, 10_000):
        yield empty * min(10_000, kind.start - at)
    yield b"".join(encoded(Record(at)) for at in range(kind.start, kind.records))


def packed(kind: Heavy, codec: str) -> tuple[bytes, int]:
    """A batch of them, and how many bytes its records have."""
    size, number = 0, CODECS.index(codec)
    if codec == "snappy":
        snappy = pa.Codec("snappy")
        blocks = []
        for part in plain(kind):
            blocks.append(bytes(snappy.compress(part)))
            size += len(part)
        payload = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
        payload += b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    else:
        sink = pa.BufferOutputStream()
        stream = sink if codec == "none" else pa.CompressedOutputStream(sink, codec)
        for part in plain(kind):
            stream.write(part)
            size += len(part)
        if stream is not sink:
            stream.close()
        payload = bytes(sink.getvalue())
    batch = Batch(0, last=kind.records - 1, count=kind.records, codec=number)
    return framed(batch, payload), size


def _memory(field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) << 10


def measure(name: str, codec: str) -> dict[str, int]:
    """Read one batch to its end; the most memory that was resident meanwhile, above what was before."""
    kind = KINDS[name]
    data, size = packed(kind, codec)
    part = decoder().part(data, 0, len(data), "t", 7, kind.start, NO_END, -1, None)
    decoder().part(b"", 0, 0, "t", 7, 0, NO_END, -1, None).take(1, 1)
    limit = _memory("VmSize") + ROOM + kind.most
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM counts from here
    before, rows, largest = _memory("VmHWM"), 0, 0
    while (event := part.take(10_000, BUDGET)) is not None:
        assert event[0] in (_native.RECORDS, _native.UNPACKING), event
        if event[5] is not None:
            rows += event[5][0].num_rows
            largest = max(largest, event[4])
        del event
    grown = _memory("VmHWM") - before
    assert len(data) > HEAD.size
    return {
        "rows": rows,
        "expected": kind.records - kind.start,
        "whole": size + kind.records * kind.headers * 8,
        "grown": grown,
        "most": kind.most,
        "largest_batch": largest,
        "budget": max(BUDGET, kind.value) + 4096,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(*sys.argv[1:])))
