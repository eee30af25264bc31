"""A log that is cut while a range of it is read, below what was read already: nobody takes parts of both for one log."""

from __future__ import annotations

import struct
from contextlib import closing

import pytest

from sparkcohort.runtime.protocol.partitions import Range
from sparkcohort.runtime.shell.kafka.fetch.range_reader import FetchError, RangeReader
from tests.kit.record_batches import Batch, Record, encode
from tests.kit.scripted_broker import ScriptedBroker, fetched, partition

DATA = encode(Batch(0, tuple(Record(n, value=b"v") for n in range(10))))
DIVERGED = b"\1\0\x0d" + struct.pack(">iqx", 0, 5)  # KIP-595: the leader's log has the epoch up to offset 5 only


def test_what_was_read_of_it_is_void() -> None:
    """The task fails, with failOnDataLoss=false, too: its next attempt reads the whole range from the log as it is."""
    answers = iter([partition(records=DATA)])

    def script(number: int) -> bytes:
        return fetched(number, next(answers, partition()[:-1] + DIVERGED))

    with (
        ScriptedBroker(script) as broker,
        closing(RangeReader({"bootstrap.servers": broker.bootstrap}, fail_on_data_loss=False)) as reader,
    ):
        pieces = reader.read([Range("t", 0, 0, 50)])
        assert next(pieces)[1] == 10
        with pytest.raises(FetchError, match="was cut before offset 10 while it was read") as caught:
            next(pieces)
    assert caught.value.error == "_LOG_TRUNCATION"
