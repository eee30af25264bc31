"""The producer: Arrow record batches in, acknowledged by all replicas in sync out, at least once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import pyarrow as pa

from sparkcohort.runtime.kafka.decision import SinkTransaction, WrittenRange
from sparkcohort.runtime.shell.kafka.produce.librdkafka_sender import LibrdkafkaSender
from sparkcohort.runtime.shell.kafka.produce.produce_report import ProduceReport
from sparkcohort.runtime.shell.kafka.produce.row_encoding import as_producer_rows
from sparkcohort.runtime.shell.kafka.produce.wire_sender import WireSender
from sparkcohort.runtime.shell.options.producer_settings import ProducerSettings


class RowSender(Protocol):
    """What sends rows of ``row_encoding.ROWS``; see ``Producer``."""

    def write(self, rows: pa.RecordBatch) -> None:
        """See ``Producer``."""

    def flush(self) -> ProduceReport:
        """See ``Producer``."""

    def close(self) -> None:
        """See ``Producer``."""


class Producer:
    """Writes rows to Kafka; for one thread, and for as long as its worker lives.

    The first batch that fails for good ends it: every call raises the same ProduceError from then on.  Rows between two flushes are
    written at least once, in the order of their partition.
    """

    def __init__(self, settings: ProducerSettings) -> None:
        """Nothing is connected yet."""
        self._sender: RowSender = LibrdkafkaSender(settings) if settings.librdkafka_reason else WireSender(settings)

    def begin(self, name: str, timeout_ms: int, new_name: Callable[[], str] | None = None) -> SinkTransaction:
        """Begin a transaction of this id, with all rows until the next begins; it is left open.  Raises ProduceError.

        Where no answer comes, it has an id of ``new_name``; without one the same id is asked for again.
        After ``flush``, and for senders of our own only: ``ProducerSettings.librdkafka_reason`` is "".
        """
        return self._transactional().begin(name, timeout_ms, new_name)

    def is_open(self, transaction: SinkTransaction) -> bool:
        """Whether its coordinator still has it as begun, with rows.  Raises ProduceError."""
        return self._transactional().is_open(transaction)

    def written_ranges(self) -> tuple[WrittenRange, ...]:
        """What the transaction has had acknowledged, by partition."""
        return self._transactional().written_ranges()

    def _transactional(self) -> WireSender:
        assert isinstance(self._sender, WireSender)  # noqa: S101  exactly-once is refused where it can't be
        return self._sender

    def write(self, rows: pa.RecordBatch) -> None:
        """Queue rows to be sent; blocks while more than ``buffer.memory`` waits for brokers.

        Columns, by these names, those that are missing being null: ``topic`` string (or a dictionary of strings), ``partition`` int32
        (null: by the key's murmur2 as Java's producer does, the same one for a while without key), ``key`` and ``value``
        binary or string, ``headers`` list<struct<key: string, value: binary>>, ``timestamp`` a timestamp, or int64 in ms (null: now).
        Raises ProduceError.
        """
        self._sender.write(as_producer_rows(rows))

    def flush(self) -> ProduceReport:
        """Have all rows acknowledged, each batch within ``delivery.timeout.ms``; what came since the last flush.  Raises ProduceError."""
        return self._sender.flush()

    def close(self) -> None:
        """Close the connections; rows that were not flushed may be lost.  Does not raise."""
        self._sender.close()
