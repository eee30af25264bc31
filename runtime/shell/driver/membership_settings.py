"""What the options say of a membership in the real group: to its machine, and to the client of a member."""

from __future__ import annotations

import socket

from sparkcohort.runtime.kafka.membership_state import MembershipConfig
from sparkcohort.runtime.kafka.run_epoch import MOST_TEXT
from sparkcohort.runtime.shell.options.parse import SourceOptions

READ_TIMEOUT_S = 5.0  # of a call that reads what is committed


def membership_config(options: SourceOptions) -> MembershipConfig:
    """The machine's settings."""
    return MembershipConfig(
        options.group_id,
        options.group_instance_id,
        str(options.subscription),
        # And a call more: what librdkafka has heard of a refusal comes when it is polled, after the call's timeout.
        options.session_timeout_ms + int(READ_TIMEOUT_S * 1000),
        socket.gethostname()[:MOST_TEXT],
    )


def member_settings(options: SourceOptions) -> dict[str, object]:
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
