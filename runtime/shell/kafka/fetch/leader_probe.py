"""Whether this process reaches the leaders of partitions, by what counts: a fetch that is answered."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.fetch.new_source import new_record_source
from sparkcohort.runtime.shell.kafka.fetch.record_source import Event, PartitionError
from sparkcohort.runtime.shell.options.kafka_settings import column
from sparkcohort.runtime.values.columns import OFFSETS

_POLL_S: Final = 0.1
_NO_END: Final = 2**63 - 1
_SIZES: Final = column(lambda row: row.probing)
"""As much as fetching asks for, nearly: a slow leader would still deliver a few bytes in time."""


def probe_leaders(
    conf: Mapping[str, Any], starts: Mapping[TopicPartition, int], limit_s: float
) -> frozenset[TopicPartition]:
    """The partitions whose leaders answered a fetch from these offsets within the limit, whatever the answer."""
    reachable: set[TopicPartition] = set()
    source = new_record_source({**conf, **_SIZES}, columns=OFFSETS)
    try:
        source.assign({tp: (offset, _NO_END) for tp, offset in starts.items()})
        deadline = time.monotonic() + limit_s
        while len(reachable) < len(starts) and time.monotonic() < deadline:
            events = source.poll(_POLL_S, 1_000)
            replies = {event.tp for event in events if _is_an_answer(event)}
            source.unassign(replies)
            reachable |= replies & starts.keys()
    finally:
        source.close()
    return frozenset(reachable)


def _is_an_answer(event: Event) -> bool:
    """Errors of the client's own have numbers below zero: they are those of the way."""
    return not (isinstance(event, PartitionError) and isinstance(event.error, KafkaError) and event.error.code() < 0)
