"""Which source: our own fetching wherever it can do what the settings ask for, else librdkafka's, both natively.

``COHORT_NATIVE`` in the environment of the executors (and their agents, which inherit it) chooses for diagnosis, and for the
tests that all have to pass: ``librdkafka`` fetches nothing by itself, ``0`` means librdkafka in Python.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

from sparkcohort.runtime.shell.kafka.consumer.record_source import BATCH_BYTES, UNHURRIED, Largest, RecordSource
from sparkcohort.runtime.values.columns import Columns, raw_columns

SWITCH = "COHORT_NATIVE"
IN_PYTHON, BY_LIBRDKAFKA = "0", "librdkafka"

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

    ``unhurried``: nobody waits for the next record, as a rule; those that can be paced call for ``RecordSource.pace``.
    ``largest``: larger records are an error; librdkafka has them unpacked before it can be asked.
    """
    raw = raw_columns(columns)
    source = _source_of_bytes(conf, raw, batch_bytes, unhurried=unhurried, largest=largest)
    if raw == columns:
        return source
    from sparkcohort.runtime.shell.kafka.consumer.decoding_source import DecodingSource  # noqa: PLC0415  most queries have none

    return DecodingSource(source, columns, threads)


def _source_of_bytes(
    conf: Mapping[str, Any], columns: Columns, batch_bytes: int, *, unhurried: bool, largest: Largest | None
) -> RecordSource:
    # A callback is Python's: only confluent-kafka's own client can call it.
    plain = all(isinstance(value, str | int | float) for value in conf.values())
    chosen = os.environ.get(SWITCH)
    natively = plain and chosen != IN_PYTHON
    if natively and chosen != BY_LIBRDKAFKA:
        fetching = _fetching(conf, columns, batch_bytes, unhurried=unhurried, largest=largest)
        if fetching is not None:
            return fetching
    held_back = {**UNHURRIED, **conf} if unhurried else conf
    return (_native() if natively else _in_python())(held_back, columns=columns, batch_bytes=batch_bytes)


def _fetching(
    conf: Mapping[str, Any], columns: Columns, batch_bytes: int, *, unhurried: bool, largest: Largest | None
) -> RecordSource | None:
    """The source that does without librdkafka; None where the settings are beyond it, of which one line tells."""
    from sparkcohort.runtime.shell.kafka.fetch import connection, source  # noqa: PLC0415  not where librdkafka reads

    try:
        why = source.possible(conf)
        if not why:
            return source.FetchSource(
                conf, columns=columns, batch_bytes=batch_bytes, unhurried=unhurried, largest=largest
            )
    except (connection.TransportError, ValueError) as error:
        why = str(error)
    _log.info("records are fetched by librdkafka: %s", why)
    return None


def _in_python() -> Callable[..., RecordSource]:
    from sparkcohort.runtime.shell.kafka.consumer.python_source import PythonSource  # noqa: PLC0415  pyarrow.compute is slow to come

    return PythonSource


def _native() -> Callable[..., RecordSource]:
    from sparkcohort.runtime.shell.kafka.consumer.native_source import NativeSource  # noqa: PLC0415  most need none

    return NativeSource


def bounds(queue: int) -> dict[str, Any]:
    """The client's own buffers, whatever the user has set: the budget holds for all of it."""
    return {
        "queued.max.messages.kbytes": max(1, queue >> 12),  # a small message costs five times its bytes
        "queued.min.messages": max(100, queue // 300),  # what a queued message costs beside its bytes
        "fetch.max.bytes": max(queue // 4, 1_000_000),  # small ones stay in the processor's cache from here to the copy
        "message.max.bytes": 1_000_000,
        "max.partition.fetch.bytes": max(queue // 4, 64 << 10),  # few large chunks rather than many
    }
