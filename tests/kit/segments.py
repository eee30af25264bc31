"""What a disk, or a producer, can do to a stopped broker's log: a flipped bit, a payload that no codec can read.

Usage, the broker stopped in good order (a killed one checks its logs when it comes back, and cuts what is broken)::

    broker.stop()
    segment = segment_of(broker.node(1), "orders", 0)
    flip_byte(segment, 120)          # a bit in the last bytes of the batch that holds offset 120
    break_payload(segment, 300)      # what no codec can read, under a checksum that is right
    broker.start()
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tests.kit.broker import Node
from tests.kit.record_batches import HEAD, summed, whole


class Batch(NamedTuple):
    """A record batch of the file: offsets [first, last], bytes [at, end)."""

    first: int
    last: int
    at: int
    end: int


def segment_of(node: Node, topic: str, partition: int) -> Path:
    """The only segment of a partition's log; raises ValueError where there are more."""
    (segment,) = (node.data / f"{topic}-{partition}").glob("*.log")
    return segment


def batch_of(segment: Path, offset: int) -> Batch:
    """The batch that holds an offset."""
    at = 0
    for data in whole(segment.read_bytes()):
        first, _, _, _, _, _, more, *_ = HEAD.unpack_from(data)
        if first <= offset <= first + more:
            return Batch(first, first + more, at, at + len(data))
        at += len(data)
    raise ValueError(f"{segment} has no batch with offset {offset}")


def flip_byte(segment: Path, offset: int, place: int = -5) -> Batch:
    """Change one bit of the batch at ``place``, counted from its beginning, or from its end if negative."""
    batch = batch_of(segment, offset)
    data = bytearray(segment.read_bytes())
    data[(batch.at if place >= 0 else batch.end) + place] ^= 1
    segment.write_bytes(data)
    return batch


def break_payload(segment: Path, offset: int) -> Batch:
    """Make nonsense of the batch's compressed records and put the checksum right again: a broken producer's work."""
    batch = batch_of(segment, offset)
    data = segment.read_bytes()
    begin = batch.at + HEAD.size
    broken = data[batch.at : begin] + bytes(byte ^ 0xA5 for byte in data[begin : batch.end])
    segment.write_bytes(data[: batch.at] + summed(broken) + data[batch.end :])
    return batch
