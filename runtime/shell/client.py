"""Making Kafka clients for the driver: settings, log lines, and librdkafka's errors in words for the user."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol import TopicPartition
from sparkcohort.runtime.shell.security_options import redact_text

log = logging.getLogger("sparkcohort.kafka")
REPEAT_S = 30.0


class Calm(logging.Filter):
    """Drops a line that differs only in numbers from one of the last 30 seconds.

    librdkafka's errors are no more than warnings: it tries again by itself, and what ends a query is raised.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line goes on."""
        if record.levelno > logging.WARNING:
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        shape = re.sub(r"\d+", "0", record.getMessage().partition("[thrd:")[2])
        now = time.monotonic()
        if shape and now - self._last.get(shape, -REPEAT_S) < REPEAT_S:
            return False
        self._last = {key: at for key, at in self._last.items() if now - at < REPEAT_S} | {shape: now}
        return True


log.addFilter(Calm())

# The driver moves no records: the smallest queues, and quick reconnects so that a broker that comes back is seen.
_QUICK = {
    "reconnect.backoff.ms": "50",
    "reconnect.backoff.max.ms": "1000",
    "log.connection.close": "false",
    "metadata.recovery.rebootstrap.trigger.ms": "10000",  # not five minutes, where all brokers have been away
}
_SMALL = {
    **_QUICK,
    "queued.max.messages.kbytes": "1",
    "queued.min.messages": "1",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "allow.auto.create.topics": "false",
}
_CONSUMER_ONLY = frozenset(
    {
        *(
            "check.crcs",
            "fetch.error.backoff.ms",
            "fetch.max.bytes",
            "fetch.message.max.bytes",
            "fetch.min.bytes",
            "fetch.queue.backoff.ms",
        ),
        *(
            "fetch.wait.max.ms",
            "isolation.level",
            "max.partition.fetch.bytes",
            "queued.max.messages.kbytes",
            "queued.min.messages",
        ),
    }
)

Errors = Callable[[KafkaError], None]


def new_consumer(conf: Mapping[str, str], on_error: Errors | None = None, **more: Any) -> Consumer:
    """A consumer that never fetches by itself; its log lines go to the logger ``sparkcohort.kafka`` when it is polled.

    ``conf`` is librdkafka's (``SourceOptions.kafka``) and wins over the small settings; ``more`` wins over both.
    """
    settings: dict[str, Any] = {"group.id": "cohort", **_SMALL, **conf, **more}
    settings |= dict.fromkeys(("enable.auto.commit", "enable.auto.offset.store", "allow.auto.create.topics"), "false")
    if on_error is not None:
        settings["error_cb"] = on_error
    try:
        return Consumer(settings, logger=log)
    except KafkaException as error:
        raise CohortError(f"the Kafka client cannot be made: {redact_text(text_of(error), conf)}") from None


def new_admin(conf: Mapping[str, str]) -> AdminClient:
    """An administrator with the same settings, less those of consumers."""
    return AdminClient(
        {**_QUICK, **{name: value for name, value in conf.items() if name not in _CONSUMER_ONLY}}, logger=log
    )


def error_of(error: KafkaException) -> KafkaError | None:
    """The KafkaError inside an exception of confluent_kafka."""
    first = error.args[0] if error.args else None
    return first if isinstance(first, KafkaError) else None


def code_of(error: KafkaException) -> int:
    """librdkafka's error code; -1 (unknown) where there is none."""
    inner = error_of(error)
    return inner.code() if inner is not None else KafkaError.UNKNOWN


def text_of(error: KafkaException | KafkaError) -> str:
    """The error in librdkafka's words."""
    inner = error_of(error) if isinstance(error, KafkaException) else error
    return f"{inner.name()}: {inner.str()}" if inner is not None else str(error)


def names_of(partitions: Iterable[TopicPartition], limit: int = 10) -> str:
    """``t-0, t-1 and 3 more``."""
    ordered = sorted(partitions)
    more = f" and {len(ordered) - limit} more" if len(ordered) > limit else ""
    return ", ".join(f"{tp.topic}-{tp.partition}" for tp in ordered[:limit]) + more
