"""What an agent is started with.  A task writes it and imports nothing of what runs in the agent; the agent reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkcohort.runtime.shell.process.executor import Executor
from sparkcohort.runtime.shell.rpc.tls import Credentials


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """What the task that starts an agent tells it, over its standard input."""

    address: str
    executor: Executor
    host: str
    port: int
    credentials: Credentials
    kafka: Mapping[str, str]
    include_headers: bool
    buffer_bytes: int
    session_timeout_ms: int
    heartbeat_interval_ms: int
    rebalance_timeout_ms: int
    assignors: tuple[str, ...]
    rack: str
    listener: str = ""
    load_window_ms: int = 0  # over how long loads are smoothed; 0: nobody asks for them


def to_json(config: AgentConfig) -> dict[str, object]:
    """The configuration as JSON-able values: for a pipe to the agent, never for a log or a file."""
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


def from_json(values: dict[str, Any]) -> AgentConfig:
    """The inverse of ``to_json``."""
    credentials = values["credentials"]
    return AgentConfig(
        **{
            **values,
            "assignors": tuple(values["assignors"]),
            "executor": Executor(**values["executor"]),
            "credentials": Credentials(
                authority=credentials["authority"].encode(),
                certificate=credentials["certificate"].encode(),
                key=credentials["key"].encode(),
                token=credentials["token"],
            ),
        }
    )
