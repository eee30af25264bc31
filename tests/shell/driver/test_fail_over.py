"""Which options a next run may not have changed if it is to go on with the members of the run before."""

from __future__ import annotations

import socket

import pytest

from sparkcohort.runtime.shell.agent.agent_config import AgentConfig
from sparkcohort.runtime.shell.driver.fail_over import _is_free, _is_soon_free, _members
from sparkcohort.runtime.shell.options.parse import parse

LEAST = {"kafka.bootstrap.servers": "a:9092", "subscribe": "t", "group.id": "g"}
AVRO = """{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"%s}]}"""
REGISTRY = {
    "value.format": "avro",
    "schema.registry.url": "http://a:8081",
    "schema.registry.basic.auth.user.info": "me:before",
    "value.schema": AVRO % "",
}

OF_THE_MEMBER = {"address", "executor", "port", "credentials", "group_id"}
"""What another member has otherwise anyway, or what is the same for the same journal."""
SEALED = {
    "host",
    "kafka",
    "columns",
    "buffer_bytes",
    "session_timeout_ms",
    "heartbeat_interval_ms",
    "rebalance_timeout_ms",
    "assignors",
    "rack",
    "listener",
    "load_window_ms",
}


def members(**changed: str) -> str:
    """How the members of a query with these options are set up."""
    return _members(parse({**LEAST, **{name.replace("__", "."): value for name, value in changed.items()}}))


def test_everything_that_a_member_is_started_with_counts() -> None:
    """Whoever adds to it decides whether it is sealed."""
    assert set(AgentConfig.__slots__) == OF_THE_MEMBER | SEALED


@pytest.mark.parametrize(
    "other",
    [
        {"kafka.fetch.max.bytes": "1000000"},
        {"kafka.client.rack": "r1"},
        {"includeHeaders": "true"},
        {"value.format": "string"},
        {"value.format": "json", "value.schema": "a INT"},
        {"value.format": "json", "value.schema": "a INT, b INT"},
        {"value.format": "json", "value.schema": "a INT", "value.mode": "failfast"},
        {"value.format": "avro", "value.schema": AVRO % ""},
        {"value.format": "avro", "value.schema": AVRO % ', "default": 7'},
        {"value.format": "avro", "value.schema": AVRO % ', "aliases": ["m"]'},
        REGISTRY,
        REGISTRY | {"schema.registry.url": "http://b:8081"},
        REGISTRY | {"schema.registry.basic.auth.user.info": "me:after"},
        {"buffer.bytes": "10000000"},
        {"session.timeout.ms": "20000"},
        {"heartbeat.interval.ms": "1000"},
        {"rebalance.timeout.ms": "50000"},
        {"partition.assignment.strategy": "range"},
        {"client.rack.env": "RACK"},
        {"coordinator.host": "driver"},
        {"coordinator.port": "4711"},
    ],
)
def test_another_member_is_another(other: dict[str, str]) -> None:
    """Each of these alone; two of them never look alike."""
    assert members(**other) != members()
    SEEN.append(members(**other))
    assert len(SEEN) == len(set(SEEN))


SEEN: list[str] = []


def test_what_concerns_no_member_may_change() -> None:
    """Limits, starts, topics, metrics: the next run goes on with other ones."""
    others = {
        "maxOffsetsPerTrigger": "10",
        "startingOffsets": "latest",
        "metrics.port": "9000",
        "failOnDataLoss": "false",
    }
    assert members(**others) == members() == members(subscribe="t,u")


def test_a_port_is_free_when_nobody_listens() -> None:
    """Also where whoever listens would share it, as gRPC does."""
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind(("0.0.0.0", 0))
        listening.listen()
        port = listening.getsockname()[1]
        assert not _is_free(port)
        assert not _is_soon_free(port)
    assert _is_soon_free(port)
