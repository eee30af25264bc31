"""Whether this process reaches the leaders of partitions, by what counts: a fetch that is answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.fetch.events import Event, PartitionError
from sparkcohort.runtime.shell.kafka.fetch.first_records import poll_once_each
from sparkcohort.runtime.shell.options.client_defaults import PROBING
from sparkcohort.runtime.values.columns import OFFSETS


def probe_leaders(
    conf: Mapping[str, Any], starts: Mapping[TopicPartition, int], limit_s: float
) -> frozenset[TopicPartition]:
    """The partitions whose leaders answered a fetch from these offsets within the limit, whatever the answer."""
    polls = poll_once_each({**conf, **PROBING}, OFFSETS, starts, limit_s, _is_an_answer)
    return frozenset(event.tp for events in polls for event in events) & starts.keys()


def _is_an_answer(event: Event) -> bool:
    """Errors of the client's own have numbers below zero: they are those of the way."""
    return not (isinstance(event, PartitionError) and isinstance(event.error, KafkaError) and event.error.code() < 0)
