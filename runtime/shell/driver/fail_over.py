"""A query that is started again in the same application goes on with the group of the run before (``group_journal``).

The members' agents wait for a session timeout: at the port and with the credentials that they know.  So the next run takes over
journal, port, credentials and the run's name, and begins a higher generation, into which they rejoin with what they own and
have fetched.  It does so only where its members would be set up as those are.
"""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import time
from pathlib import Path

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.coordinator.coordinator import Coordinator
from sparkcohort.runtime.shell.coordinator.group_journal import (
    GroupJournal,
    Predecessor,
    RunIdentity,
    path_of,
    sweep,
    take,
)
from sparkcohort.runtime.shell.driver.stream_process import driver_jvm
from sparkcohort.runtime.shell.options.parse import SourceOptions
from sparkcohort.runtime.shell.rpc.process_identity import started
from sparkcohort.runtime.shell.rpc.shutdown import CLOSE_S

log = logging.getLogger("sparkcohort.journal")

PORT_S, LOOK_S = 1.0, 0.05


def predecessor(options: SourceOptions) -> Predecessor | None:
    """The former run in this application, if its group can be taken over."""
    path = _path(options)
    if path is None:
        return None
    sweep()
    former = take(
        path,
        _members(options),
        session_timeout_ms=options.session_timeout_ms,
        patience_s=CLOSE_S,
    )
    if former is None or _is_soon_free(former.identity.port):
        return former
    log.info("group %s begins anew: port %d, where its members look, is taken", options.group_id, former.identity.port)
    return None


def keep_journal(options: SourceOptions, coordinator: Coordinator, identity: RunIdentity) -> None:
    """Have the group kept for the run after, where it can be told which application this is."""
    path = _path(options)
    if path is not None:
        coordinator.open_journal(GroupJournal(path, identity, _members(options), options.group_id))


def _path(options: SourceOptions) -> Path | None:
    """The journal of this group in its application, where that is known."""
    jvm = driver_jvm()
    with contextlib.suppress(CohortError):  # no home
        return path_of(jvm, options.group_id, options.group_instance_id) if jvm is not None else None
    return None


def application_goes_on() -> bool:
    """Whether the driver's JVM is there: else no run comes after this one."""
    jvm = driver_jvm()
    return jvm is not None and started(jvm.pid) == jvm.started


def _members(options: SourceOptions) -> str:
    """All that members are started with (``AgentConfig``), secrets too, and where they find their coordinator."""
    config = [
        *sorted(options.kafka.items()),
        options.columns,  # all of them: their repr shows neither schemas nor registries
        options.fail_on_data_loss,
        options.poll_timeout_ms,
        options.buffer_bytes,
        options.session_timeout_ms,
        options.heartbeat_interval_ms,
        options.rebalance_timeout_ms,
        options.assignors,
        options.client_rack,
        options.client_rack_env,
        options.rebalance_listener,
        options.load_balance_after_ms,
        options.coordinator_host,
        options.coordinator_port,
    ]
    return json.dumps(config)


def _is_soon_free(port: int) -> bool:
    """Whether no process listens there, or only the former run that is closing: gRPC would share the port with another."""
    deadline = time.monotonic() + PORT_S
    while not (free := _is_free(port)) and time.monotonic() < deadline:
        time.sleep(LOOK_S)
    return free


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))  # noqa: S104  as the coordinator does
        except OSError:
            return False
    return True
