"""Deterministic records into a real broker, each of which says where it belongs.

A record's value is ``b"<partition>:<sequence>:xxx..."`` and its key ``b"<sequence>"``; sequences count from 0 per
partition, so a lost or doubled record shows without asking the broker.  (A record's offset equals its sequence as
long as nothing but ``produce`` writes to the topic.)

Usage::

    produce(broker.bootstrap, "orders", 12_000, partitions=12)          # 1,000 to each, round-robin
    produce(broker.bootstrap, "orders", 12_000, partitions=12, first=1_000)
    abort(broker.bootstrap, "orders", 100, partition=0)                 # an aborted transaction's records
    with Steady(broker.bootstrap, "orders", partitions=12, rate=500) as steady: ...
    steady.counts                                                       # records acknowledged, per partition
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, Message, Producer

from tests.kit.admin import Admin
from tests.kit.waiting import wait_until

FLUSH_TIMEOUT_S = 120.0
Headers = list[tuple[str, bytes | None]]
NO_CONF: Mapping[str, str | int | bool] = MappingProxyType({})


def value_of(partition: int, sequence: int, size: int = 100) -> bytes:
    """The value of one record: ``size`` bytes, or as many as its numbers need."""
    return b"%d:%d:" % (partition, sequence) + b"x" * (size - len(b"%d:%d:" % (partition, sequence)))


def place_of(value: bytes) -> tuple[int, int]:
    """(partition, sequence) of a value made by ``value_of``."""
    partition, sequence, _ = value.split(b":", 2)
    return int(partition), int(sequence)


def producer(bootstrap: str, **conf: str | int | bool) -> Producer:
    """A producer with room for a million records that keeps their order; ``conf`` with ``_`` for ``.``.

    Not idempotent unless asked: that costs half a second at the start.
    """
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "max.in.flight": 1,
            "linger.ms": 5,
            "batch.size": 1 << 20,
            "queue.buffering.max.messages": 2_000_000,
            "message.max.bytes": 16 << 20,
            "log_level": 0,  # brokers come and go in tests
            **{key.replace("_", "."): value for key, value in conf.items()},
        }
    )


def gathering(bootstrap: str, topic: str, **conf: str | int | bool) -> Producer:
    """A producer that sends nothing before it is flushed: what each partition of the topic gets then is one batch, if it fits."""
    client = producer(bootstrap, linger_ms=60_000, **conf)  # which a flush cuts short
    # What is produced before the partitions are known is moved to them one by one, and a flush would send the first at once.
    client.list_topics(topic, FLUSH_TIMEOUT_S)
    return client


class Acknowledged:
    """Counts deliveries per partition and keeps the first error."""

    def __init__(self) -> None:
        """Nothing acknowledged yet."""
        self.counts: Counter[int] = Counter()
        self.error: KafkaError | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        """The delivery report of one record."""
        if error is not None:
            self.error = self.error or error
        else:
            self.counts[message.partition() or 0] += 1

    def check(self, expected: int, left_in_queue: int) -> None:
        """Raise RuntimeError unless all ``expected`` records were acknowledged."""
        if self.error is not None or left_in_queue or self.counts.total() != expected:
            raise RuntimeError(f"{self.counts.total()} of {expected} records produced; first error: {self.error}")


def produce(
    bootstrap: str,
    topic: str,
    records: int,
    *,
    partitions: int = 1,
    first: int = 0,
    value_bytes: int = 100,
    timestamp_ms: int | None = None,
    headers: Headers | None = None,
    compression: str = "none",
) -> dict[int, int]:
    """Write ``records`` records round-robin over partitions 0 to ``partitions - 1``; returns how many each got.

    Sequences start at ``first``.  ``timestamp_ms`` is every record's timestamp (default: now).  Raises RuntimeError
    when not all of them were acknowledged.  As few batches as they fit into (a MiB each, of 10,000 records at most),
    however busy the machine is.
    """
    client = gathering(bootstrap, topic, compression_type=compression)
    seen = Acknowledged()
    extra: dict[str, Any] = {} if headers is None else {"headers": headers}
    at = timestamp_ms or 0  # 0: the client's clock
    for number in range(records):
        sequence, partition = divmod(number, partitions)
        sequence += first
        value, key = value_of(partition, sequence, value_bytes), b"%d" % sequence
        client.produce(topic, value, key, partition, seen, timestamp=at, **extra)
        if not number & 0xFFFF:
            client.poll(0)
    seen.check(records, client.flush(FLUSH_TIMEOUT_S))
    return dict(seen.counts)


def open_transaction(
    bootstrap: str, topic: str, first: int, end: int, *, partition: int = 0, transactional_id: str = ""
) -> Producer:
    """The producer of an open transaction, whose records [first, end) of one partition are in the log."""
    name = transactional_id or f"open-{topic}"
    client = producer(bootstrap, transactional_id=name, transaction_timeout_ms=300_000)  # not ended by the broker
    client.init_transactions(30)
    client.begin_transaction()
    for sequence in range(first, end):
        client.produce(topic, value_of(partition, sequence), b"%d" % sequence, partition)
    assert client.flush(FLUSH_TIMEOUT_S) == 0
    return client


def transact(
    bootstrap: str,
    topic: str,
    records: int,
    *,
    partition: int = 0,
    first: int = 0,
    commit: bool = True,
    transactional_id: str = "tests",
) -> None:
    """Write ``records`` records of one partition in one transaction, then commit or abort it.

    The records reach the log before an abort, so that readers have to pass over them and over the control record, which
    is there on return.
    """
    client = open_transaction(
        bootstrap, topic, first, first + records, partition=partition, transactional_id=transactional_id
    )
    if commit:
        client.commit_transaction(30)
    else:
        client.abort_transaction(30)
    admin = Admin(bootstrap)  # the control record comes a moment after the answer
    wait_until(
        lambda: admin.ends(topic)[partition] == admin.ends(topic, committed_only=True)[partition],
        FLUSH_TIMEOUT_S,
        f"the end of the transaction in {topic}-{partition}",
    )


def abort(bootstrap: str, topic: str, records: int, *, partition: int = 0, first: int = 1_000_000) -> None:
    """Write ``records`` records in a transaction that is aborted; sequences from a million show if they leak."""
    transact(bootstrap, topic, records, partition=partition, first=first, commit=False, transactional_id="aborted")


class Steady:
    """A thread that keeps writing ``rate`` records a second, round-robin; ``counts`` are final after the block."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        partitions: int | Sequence[int],
        rate: int,
        first: int = 0,
        conf: Mapping[str, str | int | bool] = NO_CONF,
    ) -> None:
        """Nothing is written before the block is entered; ``partitions`` is how many from 0 on, or which."""
        self._partitions = range(partitions) if isinstance(partitions, int) else partitions
        self._topic, self._rate, self._first = topic, rate, first
        self._client = producer(bootstrap, enable_idempotence=True, **conf)
        self._seen = Acknowledged()
        self._stop = threading.Event()
        self._sent = 0
        self._thread = threading.Thread(target=self._run, name="steady-producer", daemon=True)

    @property
    def counts(self) -> dict[int, int]:
        """Records acknowledged so far, per partition."""
        return dict(self._seen.counts)

    def _run(self) -> None:
        began = time.monotonic()
        while not self._stop.wait(0.02):
            for number in range(self._sent, int((time.monotonic() - began) * self._rate)):
                sequence, place = divmod(number, len(self._partitions))
                sequence, partition = sequence + self._first, self._partitions[place]
                self._client.produce(
                    self._topic, value_of(partition, sequence), b"%d" % sequence, partition, self._seen
                )
                self._sent = number + 1
            self._client.poll(0)

    def __enter__(self) -> Self:
        """Start writing."""
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop, wait for the last acknowledgement; raises RuntimeError when a record was not taken."""
        self._stop.set()
        self._thread.join()
        left = self._client.flush(FLUSH_TIMEOUT_S)
        if error is None:
            self._seen.check(self._sent, left)
