"""The configuration of an agent's member.  A task writes it, and imports nothing else of the agent, which reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from sparkcohort.runtime.shell.rpc.executor import Executor
from sparkcohort.runtime.shell.rpc.tls import Credentials
from sparkcohort.runtime.text import printable
from sparkcohort.runtime.values.columns import Columns

MOST_CORES: Final = 100_000
MOST_MS: Final = (1 << 31) - 1
MOST_BYTES: Final = 1 << 40
MOST_WORDS: Final = 150
LEAST_TOKEN: Final = 16


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
    buffer_bytes: int
    session_timeout_ms: int
    heartbeat_interval_ms: int
    rebalance_timeout_ms: int
    assignors: tuple[str, ...]
    rack: str
    listener: str = ""
    group_id: str = ""
    group_instance_id: str = ""  # the driver's: queries may share a group on different topics
    load_window_ms: int = 0  # over how long loads are smoothed; 0: they are not reported


# Compiles the type, for ``convert`` too: many queries' members may start at a time (see ``wire_types``).
msgspec.json.Decoder(AgentConfig)


def to_json(config: AgentConfig) -> dict[str, object]:
    """The configuration as JSON-able values: for the agent's socket, never for a log or a file."""
    return {
        **{name: getattr(config, name) for name in AgentConfig.__slots__ if name not in ("executor", "credentials")},
        "kafka": dict(config.kafka),
        "executor": {name: getattr(config.executor, name) for name in Executor.__slots__},
        "credentials": {
            "authority": config.credentials.authority.decode(),
            "certificate": config.credentials.certificate.decode(),
            "key": config.credentials.key.decode(),
            "token": config.credentials.token,
        },
    }


def from_json(values: Any) -> AgentConfig:
    """The inverse of ``to_json``, for what came from outside.  Raises MalformedConfig."""
    try:
        texts = {name: values["credentials"][name] for name in ("authority", "certificate", "key")}
        secrets = {name: text.encode() for name, text in texts.items()}
        credentials = {**values["credentials"], **secrets}
        config = msgspec.convert({**values, "credentials": credentials}, AgentConfig)
    except msgspec.ValidationError as error:
        raise MalformedConfig(printable(str(error), MOST_WORDS)) from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise MalformedConfig(f"it is no configuration ({type(error).__name__})") from None
    bounds = {
        "port": (config.port, 1, 65_535),
        "cores": (config.executor.cores, 1, MOST_CORES),
        "buffer_bytes": (config.buffer_bytes, 1, MOST_BYTES),
        "session_timeout_ms": (config.session_timeout_ms, 1, MOST_MS),
        "heartbeat_interval_ms": (config.heartbeat_interval_ms, 1, MOST_MS),
        "rebalance_timeout_ms": (config.rebalance_timeout_ms, 1, MOST_MS),
        "load_window_ms": (config.load_window_ms, 0, MOST_MS),
        "token": (len(config.credentials.token), LEAST_TOKEN, 1 << 10),
        "address": (len(config.address.encode(errors="replace")), 1, 100),
    }
    for name, (number, least, most) in bounds.items():
        if not least <= number <= most:
            raise MalformedConfig(f"{name} is not between {least} and {most}")
    return config
