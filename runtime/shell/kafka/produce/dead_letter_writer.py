"""Writes bad records to the dead letter topic, at least once, with the login that a source reads with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from sparkcohort.runtime.kafka.dead_letters import RawRecord
from sparkcohort.runtime.shell.kafka.produce.produce_report import ProduceError
from sparkcohort.runtime.shell.kafka.produce.row_encoding import ROWS
from sparkcohort.runtime.shell.kafka.produce.row_producer import Producer
from sparkcohort.runtime.shell.options.producer_settings import ProducerSettings

# A poll stands meanwhile, and its caller waits ten seconds for its end; what takes longer is tried again.
_SETTINGS: Final = {
    "compression.type": "lz4",
    "delivery.timeout.ms": "6000",
    "linger.ms": "0",
    "max.block.ms": "3000",
    "max.request.size": str(100 << 20),  # the broker's own limit counts: another one has taken these records
    "request.timeout.ms": "5000",
}


class DeadLetterWriter:
    """For the thread that polls a source."""

    def __init__(self, conf: Mapping[str, Any], topic: str) -> None:
        """``conf`` is the source's; nothing is connected before the first bad record."""
        connection = {name: value for name, value in conf.items() if name != "isolation.level"}
        self._settings = replace(ProducerSettings.parse(_SETTINGS), connection=connection)
        self._topic = topic
        self._producer: Producer | None = None

    def write(self, letters: Sequence[RawRecord]) -> ProduceError | None:
        """Have all of them acknowledged, or say why they are not; the next call begins with a new producer then."""
        columns = zip(RawRecord._fields, zip(*letters, strict=True), strict=True)
        rows = {name: pa.array(values, ROWS.field(name).type) for name, values in columns}
        try:
            self._producer = self._producer or Producer(self._settings)
            self._producer.write(pa.RecordBatch.from_pydict({**rows, "topic": [self._topic] * len(letters)}))
            self._producer.flush()
        except ProduceError as error:
            self.close()
            return ProduceError(
                f"bad records can't be written to {self._topic} (dead.letter.topic), so nothing behind them is read: {error}",
                error.error,
            )
        return None

    def close(self) -> None:
        """Close the connections."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()
