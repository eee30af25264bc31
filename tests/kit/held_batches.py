"""What a process takes that holds batches of all sizes, which come and go all the time.

    python -m tests.kit.held_batches

Prints the most bytes that were resident besides the batches.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.kit.parts import NO_END, decoder
from tests.kit.record_batches import Batch, Record, encode

MIB = 1 << 20
HELD = 48 * MIB
PARTS = 3_000


def _resident() -> int:
    found = re.search(r"RssAnon:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


def _logs() -> Iterator[bytes]:
    """Six batches of many small records, then six of a few large ones."""
    some = random.Random(5)
    for _ in range(6):
        yield encode(Batch(0, tuple(Record(at, value=bytes(100)) for at in range(some.randrange(2_000, 9_000)))))
    for _ in range(6):
        yield encode(Batch(0, tuple(Record(at, value=bytes(some.randrange(MIB // 2, MIB))) for at in range(3))))


def main() -> None:
    """Hold the last batches, with something small beside each, as an agent does."""
    logs, some, by = list(_logs()), random.Random(7), decoder(headers=False)
    held: list[Any] = []
    beside: list[bytearray] = []
    before, size, most = _resident(), 0, 0
    for number in range(PARTS):
        log = some.choice(logs[:6] if number % 1_000 < 600 else logs[6:])
        part = by.part(log, 0, len(log), "t", 0, 0, NO_END, -1, None)
        while (event := part.take(32_768, 3 * MIB)) is not None:
            held.append(event[5])
            size += event[5][0].nbytes
            beside.append(bytearray(some.randrange(600, 4_000)))
        while size > HELD:
            size -= held.pop(0)[0].nbytes
            beside.pop(0)
        most = max(most, _resident() - before - size)
    sys.stdout.write(str(most))


if __name__ == "__main__":
    main()
