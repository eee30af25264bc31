"""Which options a next run may not have changed if it is to go on with the members of the run before."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from sparkcohort.assignors import ASSIGNORS
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.group import new_group
from sparkcohort.runtime.group.state import GroupConfig
from sparkcohort.runtime.shell.agent.agent_config import AgentConfig
from sparkcohort.runtime.shell.coordinator.group_journal import Predecessor, RunIdentity
from sparkcohort.runtime.shell.coordinator.plan_registry import PlanRegistry
from sparkcohort.runtime.shell.driver import fail_over, group_run
from sparkcohort.runtime.shell.driver.fail_over import _is_free, _is_soon_free, _members
from sparkcohort.runtime.shell.driver.group_commits import GroupCommits
from sparkcohort.runtime.shell.driver.log_ends import LogEnds
from sparkcohort.runtime.shell.driver.query_progress import QueryProgress
from sparkcohort.runtime.shell.options.parse import parse
from sparkcohort.runtime.shell.rpc.certificates import new_authority
from sparkcohort.runtime.shell.rpc.executor import Executor
from sparkcohort.runtime.shell.rpc.process_identity import started
from sparkcohort.runtime.shell.rpc.shutdown import Ending

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
    "fail_on_data_loss",
    "poll_timeout_ms",
    "buffer_bytes",
    "session_timeout_ms",
    "heartbeat_interval_ms",
    "rebalance_timeout_ms",
    "assignors",
    "rack",
    "rack_env",
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
        {"failOnDataLoss": "false"},
        {"kafkaConsumer.pollTimeoutMs": "7000"},
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


def test_who_goes_on_with_a_group_has_its_journal_before_its_members_find_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in between it would leave the journal of the run before, and a group that has gone on without it."""
    monkeypatch.setenv("COHORT_HOME", str(tmp_path))
    jvm, kept = Executor(os.getpid(), started(os.getpid()) or 0, "driver", "host", 1), list[bool]()
    monkeypatch.setattr(fail_over, "driver_jvm", lambda: jvm)
    former = Predecessor(RunIdentity("run", 4711, new_authority()), new_group(GroupConfig("g")))
    monkeypatch.setattr(group_run, "predecessor", lambda _: former)

    def opened(*_: object, **__: object) -> None:
        kept.append(run.coordinator.is_kept)
        raise OSError("another process has the port")

    monkeypatch.setattr(group_run, "GroupServer", opened)
    options, ending = parse(LEAST), Ending()
    log_ends, plans = LogEnds(options), PlanRegistry()
    commits, progress = GroupCommits(options, log_ends), QueryProgress(lambda *_: None)
    run = group_run.GroupRun(options, ASSIGNORS, log_ends, commits, plans, progress, ending, dict)
    with pytest.raises(CohortError, match="another process was faster"):
        run._open_port()
    ending.run()
    assert kept == [True]


SEEN: list[str] = []


def test_what_concerns_no_member_may_change() -> None:
    """Limits, starts, topics, metrics: the next run goes on with other ones."""
    others = {
        "maxOffsetsPerTrigger": "10",
        "startingOffsets": "latest",
        "metrics.port": "9000",
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
