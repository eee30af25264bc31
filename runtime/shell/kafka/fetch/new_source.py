"""Which source: our own fetching wherever it can do what the settings ask for, else confluent-kafka's consumer.

``COHORT_NATIVE=librdkafka`` in the environment of the executors (and their agents, which inherit it) chooses the consumer, for
diagnosis and for the tests that both have to pass.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from sparkcohort.runtime.shell.kafka.fetch.connection import TransportError
from sparkcohort.runtime.shell.kafka.fetch.consumer_source import ConsumerSource
from sparkcohort.runtime.shell.kafka.fetch.record_source import BATCH_BYTES, UNHURRIED, Largest, RecordSource
from sparkcohort.runtime.shell.kafka.fetch.source import FetchSource, librdkafka_reason
from sparkcohort.runtime.values.columns import Columns, raw_columns

SWITCH = "COHORT_NATIVE"
BY_LIBRDKAFKA = "librdkafka"

_log = logging.getLogger("sparkcohort.record_source")


def new_record_source(
    conf: Mapping[str, Any],
    *,
    columns: Columns,
    batch_bytes: int = BATCH_BYTES,
    unhurried: bool = False,
    largest: Largest | None = None,
    threads: int = 1,
) -> RecordSource:
    """A source for these librdkafka settings; raises KafkaException for those that librdkafka refuses.

    ``threads`` decode what is inside of keys and values, if that is asked for.

    ``unhurried``: no reader waits for the next record, as a rule; readers that can be paced call for ``RecordSource.pace``.
    ``largest``: larger records are an error; librdkafka has them unpacked before it can be asked.
    """
    raw = raw_columns(columns)
    source = _source_of_bytes(conf, raw, batch_bytes, unhurried=unhurried, largest=largest)
    if raw == columns:
        return source
    from sparkcohort.runtime.shell.kafka.fetch.decoding_source import DecodingSource  # noqa: PLC0415  most queries have none

    return DecodingSource(source, columns, threads)


def _source_of_bytes(
    conf: Mapping[str, Any], columns: Columns, batch_bytes: int, *, unhurried: bool, largest: Largest | None
) -> RecordSource:
    try:
        reason = f"{SWITCH}={BY_LIBRDKAFKA}" if os.environ.get(SWITCH) == BY_LIBRDKAFKA else librdkafka_reason(conf)
        if not reason:
            return FetchSource(conf, columns=columns, batch_bytes=batch_bytes, unhurried=unhurried, largest=largest)
    except (TransportError, ValueError) as error:
        reason = str(error)
    _log.info("records are fetched by librdkafka: %s", reason)
    held_back = {**UNHURRIED, **conf} if unhurried else conf
    return ConsumerSource(held_back, columns=columns, batch_bytes=batch_bytes)


def bounds(queue: int) -> dict[str, Any]:
    """The client's own buffers, whatever the user has set: the budget holds for all of it."""
    return {
        "queued.max.messages.kbytes": max(1, queue >> 12),  # a small message costs five times its bytes
        "queued.min.messages": max(100, queue // 300),  # what a queued message costs beside its bytes
        "fetch.max.bytes": max(queue // 4, 1_000_000),  # small ones stay in the processor's cache from here to the copy
        "message.max.bytes": 1_000_000,
        "max.partition.fetch.bytes": max(queue // 4, 64 << 10),  # few large chunks rather than many
    }
