"""What a static membership of the real group is made of: its states, its client's settings, what is committed."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from confluent_kafka import TopicPartition as Position

from sparkcohort.runtime.shell.kafka import clients
from sparkcohort.runtime.shell.options.parse import SourceOptions


class Committed(NamedTuple):
    """A partition's committed offset (None: there is none), its metadata text, and its leader epoch (-1: none, KIP-320)."""

    offset: int | None
    metadata: str
    epoch: int = -1


class State(Enum):
    """Where the membership stands."""

    JOINING = "joining"
    MEMBER = "member"  # assigned, and verified that no later run is there
    WATCHING = "watching"  # fenced; is the other one newer?
    ENDED = "ended"  # failed for good, or closed


def settings(options: SourceOptions) -> dict[str, object]:
    """What makes a client the static member of the group."""
    return {
        "group.id": options.group_id,
        "group.instance.id": options.group_instance_id,
        "session.timeout.ms": options.session_timeout_ms,
        "heartbeat.interval.ms": options.heartbeat_interval_ms,
        "max.poll.interval.ms": max(300_000, options.session_timeout_ms),
        "partition.assignment.strategy": "range",
        "topic.metadata.refresh.interval.ms": options.metadata_max_age_ms,
    }


def committed(answer: Position) -> Committed:
    """What the group coordinator says of one partition."""
    return Committed(answer.offset if answer.offset >= 0 else None, answer.metadata or "", clients.epoch_of(answer))


def committed_or(known: Committed | None, start: int) -> int:
    """The committed offset, or the start where there is none."""
    return start if known is None or known.offset is None else known.offset
