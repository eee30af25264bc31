"""The options of one write, typed and checked, for the writer and for its tasks.

Each Python worker that writes imports this, so it imports nothing of the parser.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkcohort.runtime.shell.options.declaration import option
from sparkcohort.runtime.shell.options.producer_settings import ProducerSettings
from sparkcohort.runtime.values.encodings import Encoding


@dataclass(frozen=True, kw_only=True)
class SinkOptions:
    """Every option of one write."""

    topic: str = option(
        "topic",
        "string",
        "of a write: the topic of all rows; beats the column topic",
        reads="none",
        writes=True,
        example="billed",
        heading="Where a write goes: it takes topic, includeHeaders, kafka.*, and of what is made of values what says so",
        instead="subscribe names the topics to read",
    )
    key: Encoding
    value: Encoding
    producer: ProducerSettings
    kafka_names: tuple[str, ...] = ()  # of Kafka's settings among the options, as they were written, in lower case
    warnings: tuple[str, ...] = ()
