"""The connection file: how a person's tools find and authenticate to a live coordinator on the driver's host.

One file per run, mode 0600, in ``$COHORT_HOME`` (default ``~/.cohort``); removed with the run.  A file whose process
is gone is stale: it is skipped, and removed by whoever sees it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.flight import CoordinatorRefused, CoordinatorUnreachable, Link
from sparkcohort.runtime.shell.run import Run
from sparkcohort.runtime.shell.tls import Credentials

STATUS_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Connection:
    """A live coordinator run on this host."""

    group_id: str
    instance_id: str
    pid: int
    run: Run


def home() -> Path:
    """Where connection files are."""
    return Path(os.environ.get("COHORT_HOME") or Path.home() / ".cohort")


def write(group_id: str, instance_id: str, run: Run) -> Path | None:
    """Write this process's connection file; None where no file can be written (a query must not fail for that)."""
    said = {
        "group_id": group_id,
        "instance_id": instance_id,
        "pid": os.getpid(),
        "started": _started(os.getpid()),
        "run_id": run.run_id,
        "port": run.port,
        "authority": run.credentials.authority.decode(),
        "certificate": run.credentials.certificate.decode(),
        "key": run.credentials.key.decode(),
        "token": run.credentials.token,
    }
    path = home() / f"{run.run_id}.json"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(said, file)
    except OSError:
        return None
    return path


def live() -> Iterator[Connection]:
    """The live coordinator runs of this user on this host, by group id."""
    found = [connection for path in sorted(home().glob("*.json")) if (connection := _read(path)) is not None]
    yield from sorted(found, key=lambda connection: (connection.group_id, connection.instance_id))


def find(group_id: str) -> list[Connection]:
    """The live runs of one group (several drivers may share a group on different topics).

    Raises CohortError naming the groups that are there when this one is not.
    """
    everyone = list(live())
    found = [connection for connection in everyone if connection.group_id == group_id]
    if found:
        return found
    groups = ", ".join(sorted({connection.group_id for connection in everyone})) or "none"
    raise CohortError(
        f"no live coordinator of group {group_id} on this host (live groups here: {groups}); run this on the "
        "driver's host, as the driver's user, while the query runs",
        "GROUP_ID_NOT_FOUND",
    )


def describe(group_id: str, instance_id: str | None = None) -> dict[str, Any]:
    """A live group of this host as Python values: state, members, pending members, partitions, the rebalance under way.

    For a notebook; the keys are those of ``status.build``.  ``instance_id`` chooses among runs that share a group.
    Raises CohortError: no such group here, several runs and none chosen, no answer, the query is ending.
    """
    run = only(group_id, instance_id)
    if not (status := fetch_status(run)):
        raise CohortError(f"group {group_id}: the query is ending", "COORDINATOR_NOT_AVAILABLE")
    return status


def only(group_id: str, instance_id: str | None = None) -> Connection:
    """The one live run of a group.  Raises CohortError when there is none, or several of which none is chosen."""
    runs = find(group_id)
    chosen = [run for run in runs if instance_id in (None, run.instance_id)]
    if len(chosen) == 1:
        return chosen[0]
    known = ", ".join(run.instance_id for run in runs)
    raise CohortError(f"group {group_id} has the runs {known} on this host: give the instance id of one of them")


def fetch_status(connection: Connection) -> dict[str, Any]:
    """The status of the run (see ``status``).  Raises CohortError when it does not answer."""
    return _ask(connection, "Status", b"")


def fetch_rebalances(connection: Connection, last: int) -> list[dict[str, Any]]:
    """The last rebalances of the run, newest last (see ``reports.rebalances``).  Raises CohortError."""
    found: list[dict[str, Any]] = _ask(connection, "Rebalances", json.dumps({"last": last}).encode())["rebalances"]
    return found


def fetch_rebalance(connection: Connection, generation: int) -> dict[str, Any]:
    """One rebalance with who had what (see ``reports.shown``).  Raises CohortError."""
    return _ask(connection, "Rebalances", json.dumps({"show": generation}).encode())


def fetch_story(connection: Connection, member: str) -> dict[str, Any]:
    """What happened to a member, by its id or client id (see ``reports.story``).  Raises CohortError."""
    return _ask(connection, "Story", json.dumps({"member": member}).encode())


def _ask(connection: Connection, action: str, body: bytes) -> dict[str, Any]:
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
    try:
        said = json.loads(path.read_text())
        if _started(said["pid"]) != said["started"]:
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        credentials = Credentials(
            authority=said["authority"].encode(),
            certificate=said["certificate"].encode(),
            key=said["key"].encode(),
            token=said["token"],
        )
        run = Run(said["run_id"], None, said["port"], credentials)
        return Connection(said["group_id"], said["instance_id"], said["pid"], run)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # not one of ours
        return None


def _started(pid: int) -> int:
    """The start time of a process in clock ticks since boot, 0 when it is gone: pids are reused."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0
