"""The configuration of an agent's member.  A task writes it, and imports nothing else of the agent, which reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from sparkcohort.runtime.protocol.wire_types import to_json
from sparkcohort.runtime.shell.rpc.executor import Executor
from sparkcohort.runtime.shell.rpc.tls import Credentials
from sparkcohort.runtime.text import printable
from sparkcohort.runtime.values.columns import Columns

MOST_WORDS: Final = 150

Positive: TypeAlias = Annotated[int, Meta(ge=1, le=1 << 40)]


class MalformedConfig(ValueError):
    """The bytes are no member's configuration; the message quotes none of them."""


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """The request of a task to an agent for a new member, on the agent's socket."""

    address: str
    executor: Executor
    host: str
    port: int
    credentials: Credentials
    kafka: Mapping[str, str]
    columns: Columns
    fail_on_data_loss: bool
    poll_timeout_ms: Positive
    buffer_bytes: Positive
    session_timeout_ms: Positive
    heartbeat_interval_ms: Positive
    rebalance_timeout_ms: Positive
    assignors: tuple[str, ...]
    rack: str
    listener: str = ""
    group_id: str = ""
    rack_env: str = ""  # the variable of an executor's environment that says its rack
    load_window_ms: int = 0  # over how long loads are smoothed; 0: they are not reported


# Compiled at import: many queries' members may start at a time (see ``wire_types``).
_DECODER: Final = msgspec.json.Decoder(AgentConfig)


def encode_config(config: AgentConfig) -> bytes:
    """The configuration with its secrets: for the agent's socket, never for a log or a file."""
    return to_json(config)


def decode_config(body: bytes) -> AgentConfig:
    """The inverse of ``encode_config``.  Raises MalformedConfig."""
    try:
        return _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedConfig(printable(str(error), MOST_WORDS)) from None
