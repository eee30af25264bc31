"""The connection file, by which tools find a live coordinator on the driver's host and authenticate to it.

One file per run, mode 0600, in ``$COHORT_HOME`` (default ``~/.cohort``), removed with the run.  A file whose process is gone
is stale: a reader skips and removes it.  Only a reader on the same host and in the same container can judge that
(``process_identity``), since a home may be shared: files of runs elsewhere are named, never removed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.rpc.endpoint import Run
from sparkcohort.runtime.shell.rpc.flight import CoordinatorRefused, CoordinatorUnreachable, Link
from sparkcohort.runtime.shell.rpc.notebook import GroupDocument, RebalanceRows
from sparkcohort.runtime.shell.rpc.process_identity import Place, current_place, started
from sparkcohort.runtime.shell.rpc.tls import Credentials

log = logging.getLogger("sparkcohort.connection")

STATUS_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Connection:
    """A coordinator run with a file here; it is live, unless it runs in another ``place``."""

    group_id: str
    instance_id: str
    pid: int
    run: Run
    place: Place
    version: str = ""  # of the run's sparkcohort; "" of older ones
    page: str = ""  # address of its live page; "" without one

    def __str__(self) -> str:
        """For people."""
        return f"group {self.group_id} on {self.place.host} (process {self.pid})"


class _Content(msgspec.Struct):
    """What a file has; ``started`` as ``process_identity.started``."""

    group_id: str
    instance_id: str
    pid: int
    started: int
    host: str
    boot: str
    pids: int
    run_id: str
    port: int
    authority: str
    certificate: str
    key: str
    token: str
    version: str = ""
    page: str = ""


_CONTENT = msgspec.json.Decoder(_Content)


def our_version() -> str:
    """The version of the installed sparkcohort; "" where it runs from its source folder."""
    try:
        return version("sparkcohort")
    except PackageNotFoundError:
        return ""


def home() -> Path:
    """The folder of connection files.  Raises CohortError where there is no home directory."""
    try:
        return Path(os.environ.get("COHORT_HOME") or Path.home() / ".cohort")
    except RuntimeError:
        raise CohortError("this user has no home directory: set COHORT_HOME to a folder of its own") from None


def write(group_id: str, instance_id: str, run: Run, page: str = "", *, is_again: bool = False) -> Path | None:
    """Write this process's connection file, whole or not at all; ``page`` is the address of its live page.

    Returns None after a warning where it can't be written: a query must not fail for that.  ``is_again``: there was a warning.
    """
    credentials = run.credentials
    content = _Content(
        group_id=group_id,
        instance_id=instance_id,
        pid=os.getpid(),
        started=started(os.getpid()),
        **current_place()._asdict(),
        version=our_version(),
        run_id=run.run_id,
        port=run.port,
        authority=credentials.authority.decode(),
        certificate=credentials.certificate.decode(),
        key=credentials.key.decode(),
        token=credentials.token,
        page=page,
    )
    try:
        path = home() / f"{run.run_id}.json"
        _write_whole(path, msgspec.json.encode(content))
    except (OSError, CohortError) as error:
        reason = f"{home()}: {error.strerror or error}" if isinstance(error, OSError) else str(error)
        log.log(
            logging.DEBUG if is_again else logging.WARNING,
            "group %s: no connection file can be written (%s): the query runs, but the command cohort and describe() "
            "don't find it until it can; set COHORT_HOME to a folder that the driver's user can write to",
            group_id,
            reason,
        )
        return None
    return path


def _write_whole(path: Path, data: bytes) -> None:
    """Write a file of mode 0600 and rename it when it is whole; a failure leaves no file."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    try:
        # A killed process may have left it: after a fail-over the next run has the same file name.
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        fresh.rename(path)
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise


def live() -> Iterator[Connection]:
    """The live coordinator runs of this user on this host, by group id."""
    return (connection for connection in _everyone() if connection.place.is_here())


def elsewhere() -> Iterator[Connection]:
    """The runs of other hosts and containers with this home, by group id; they may have ended."""
    return (connection for connection in _everyone() if not connection.place.is_here())


def _everyone() -> list[Connection]:
    connections = [connection for path in sorted(home().glob("*.json")) if (connection := _read(path)) is not None]
    return sorted(connections, key=lambda connection: (connection.group_id, connection.instance_id))


def find(group_id: str) -> list[Connection]:
    """The live runs of one group (several drivers may share a group on different topics).

    Raises CohortError where there is none; it names the live groups, and the hosts of this group's runs elsewhere.
    """
    everyone = list(live())
    runs = [connection for connection in everyone if connection.group_id == group_id]
    if runs:
        return runs
    groups = ", ".join(sorted({connection.group_id for connection in everyone})) or "none"
    elsewhere_runs = [connection for connection in elsewhere() if connection.group_id == group_id]
    raise CohortError(
        f"no live coordinator of group {group_id} on this host (live groups here: {groups}); run this on the "
        f"driver's host, as the driver's user, while the query runs{name_others(elsewhere_runs)}",
        "GROUP_ID_NOT_FOUND",
    )


def name_others(connections: list[Connection]) -> str:
    """The part of a message about runs elsewhere, "" when there are none."""
    return f"; on other hosts or containers with this home: {', '.join(map(str, connections))}" if connections else ""


def describe(group_id: str, instance_id: str | None = None) -> GroupDocument:
    """A live group of this host as Python values: state, members, partitions, rebalances, what is wrong.

    A notebook shows it, and its ``rebalances``, as the live page does.  ``instance_id`` chooses among runs that share a group.
    Raises CohortError: no such group here, several runs without an ``instance_id``, no answer, the query is ending.
    """
    run = find_one(group_id, instance_id)
    if not (status := fetch_status(run)):
        raise CohortError(f"group {group_id}: the query is ending", "COORDINATOR_NOT_AVAILABLE")
    return GroupDocument(status, rebalances=RebalanceRows(status["rebalances"]))


def find_one(group_id: str, instance_id: str | None = None) -> Connection:
    """The one live run of a group with this instance id.  Raises CohortError when there is none, or several."""
    runs = find(group_id)
    matches = [run for run in runs if instance_id in (None, run.instance_id)]
    if len(matches) == 1:
        return matches[0]
    instance_ids = ", ".join(run.instance_id for run in runs)
    raise CohortError(f"group {group_id} has the runs {instance_ids} on this host: give the instance id of one of them")


def fetch_status(connection: Connection) -> dict[str, Any]:
    """The status of the run (see ``status``).  Raises CohortError when it does not answer."""
    return ask(connection, "Status")


def ask(connection: Connection, action: str, body: bytes = b"") -> dict[str, Any]:
    """The run's answer, as ``service`` makes it.  Raises CohortError when it does not answer."""
    run = connection.run
    link = Link("127.0.0.1", run.port, run.credentials)
    try:
        reply: dict[str, Any] = json.loads(link.call(action, body, STATUS_TIMEOUT_S))
    except (CoordinatorUnreachable, CoordinatorRefused) as error:
        raise CohortError(f"group {connection.group_id}: {error}", "COORDINATOR_NOT_AVAILABLE") from None
    finally:
        link.close()
    return reply


def _read(path: Path) -> Connection | None:
    """The connection in a file; None for another file, and for a stale one, which is removed."""
    try:
        status = path.stat()
        content = _CONTENT.decode(path.read_bytes())
    except (OSError, ValueError, msgspec.DecodeError, RecursionError):  # not one of ours
        return None
    place = Place(content.host, content.boot, content.pids)
    if place.is_here() and started(content.pid) != content.started:
        if place.is_certain():
            _remove_stale(path, status)
        return None
    secrets = (content.authority.encode(), content.certificate.encode(), content.key.encode(), content.token)
    run = Run(content.run_id, None, content.port, Credentials(*secrets))
    return Connection(content.group_id, content.instance_id, content.pid, run, place, content.version, content.page)


def _remove_stale(path: Path, file: os.stat_result) -> None:
    """Remove the file that was read, unless the next run has replaced it under the same name (fail-over)."""
    with contextlib.suppress(OSError):
        if os.path.samestat(path.lstat(), file):
            path.unlink()
