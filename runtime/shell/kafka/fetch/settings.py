"""The settings of a client that reads records: the user's, between our defaults and what is forced."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from sparkcohort.runtime.kafka.addresses import servers
from sparkcohort.runtime.shell.options.client_defaults import READING, READING_FORCED
from sparkcohort.runtime.shell.options.connection_settings import unsupported
from sparkcohort.runtime.shell.options.kafka_settings import ROWS, UNKNOWN


def settings_of(conf: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a source's client: the user's, between our defaults and what is forced."""
    # A name of its own: the consumer never joins, so no permission on a group is needed either.
    group = {"group.id": f"cohort-fetch-{uuid.uuid4().hex}"}
    return {**READING, **_without_aliases(conf), **READING_FORCED, **group}


def bootstrap_of(config: Mapping[str, Any]) -> str:
    """``bootstrap.servers``, by its name or its old one."""
    return str(config.get("bootstrap.servers") or config.get("metadata.broker.list") or "")


def librdkafka_reason(conf: Mapping[str, Any]) -> str:
    """Why these settings need librdkafka; "" when they don't.  Raises ValueError for unusable values."""
    config = settings_of(conf)
    return unsupported(config) or ("" if servers(bootstrap_of(config)) else "there is no bootstrap.servers")


def bounds(queue: int) -> dict[str, Any]:
    """The client's own buffers, whatever the user has set: the budget holds for all of it."""
    return {
        "queued.max.messages.kbytes": max(1, queue >> 12),  # a small message costs five times its bytes
        "queued.min.messages": max(100, queue // 300),  # what a queued message costs beside its bytes
        "fetch.max.bytes": max(queue // 4, 1_000_000),  # small ones stay in the processor's cache from here to the copy
        "message.max.bytes": 1_000_000,
        "max.partition.fetch.bytes": max(queue // 4, 64 << 10),  # few large chunks rather than many
    }


def _without_aliases(conf: Mapping[str, Any]) -> dict[str, Any]:
    """Call settings by the names that our defaults have, so that a default never meets its alias."""
    return {ROWS.get(name, UNKNOWN).alias_of or name: value for name, value in conf.items()}
