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
    guarantee: str = option(
        "delivery.guarantee",
        "choice",
        "of a write: exactly-once makes a batch visible whole and once to read_committed readers; wants sink.id",
        default="at-least-once",
        choices=("at-least-once", "exactly-once"),
        reads="none",
        writes=True,
        example="exactly-once",
        instead="it is of a write",
    )
    sink_id: str = option(
        "sink.id",
        "string",
        "of an exactly-once write: its name in Kafka, another one for each query; all transactional ids begin with it",
        reads="none",
        writes=True,
        example="billed-totals",
        instead="it is of a write",
    )
    state_topic: str = option(
        "sink.state.topic",
        "string",
        "of an exactly-once write: the compacted topic that keeps each sink's last decision; made if it is missing",
        default="cohort-sink-state",
        reads="none",
        writes=True,
        instead="it is of a write",
    )
    app_id: str = option(
        "txn.app.id",
        "string",
        "of an exactly-once batch write: the job; a txn.version that was written is not written again",
        reads="none",
        writes=True,
        example="nightly-totals",
        instead="it is of a batch write",
    )
    app_version: int | None = option(
        "txn.version",
        "integer",
        "of an exactly-once batch write: the run, larger than the one before (in foreachBatch: the batch's id)",
        reads="none",
        writes=True,
        example="20261128",
        instead="it is of a batch write",
    )
    key: Encoding
    value: Encoding
    producer: ProducerSettings
    kafka_names: tuple[str, ...] = ()  # of Kafka's settings among the options, as they were written, in lower case
    warnings: tuple[str, ...] = ()

    @property
    def is_exactly_once(self) -> bool:
        """Whether tasks leave their transactions open, for the driver to decide."""
        return self.guarantee == "exactly-once"
