"""The command as a process, against a live coordinator's port and its connection file."""

from __future__ import annotations

import json
import os
import pty
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click
import pytest

from sparkcohort.cli import views
from sparkcohort.cli.main import cli
from sparkcohort.runtime.shell.rpc import connection_file
from sparkcohort.runtime.shell.rpc.certificates import new_authority
from sparkcohort.runtime.shell.rpc.endpoint import Run
from sparkcohort.runtime.shell.rpc.flight import GroupServer
from tests.kit.command import COMMAND, cohort, process
from tests.kit.status import a_status

CONTEXT = click.Context(cli)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory for connection files, of this process and of the command."""
    monkeypatch.setenv("COHORT_HOME", str(tmp_path))
    return tmp_path


@contextmanager
def a_run(run_id: str, status: Callable[[], dict[str, Any]], page: str = "") -> Iterator[GroupServer]:
    """A coordinator's port that knows its status, and its connection file, with the address of its live page."""
    authority = new_authority()
    server = GroupServer(
        authority, {"Status": lambda _: json.dumps(status()).encode()}, lambda _: events(), lambda _: None
    )
    said = status()
    run = Run(run_id, None, server.port, authority.client)
    path = connection_file.write(said["group"], said["instance_id"], run, page)
    assert path is not None
    try:
        yield server
    finally:
        path.unlink(missing_ok=True)
        server.stop(60)


def events() -> Any:
    """No events: nobody subscribes in these tests."""
    raise AssertionError("the command subscribed")


def test_describe_prints_the_live_group(home: Path) -> None:
    """In a pipe: the view as text, nothing else, exit status 0."""
    with a_run("r1", a_status):
        said = process("describe", "--group", "billing")
    held = ["orders-2 held: broker 3 does not answer", "orders-1 read as far as it is fetched: its leader is slow"]
    held += ["orders-1 held by open transactions: 457 records wait, for 2m3s or longer"]
    assert (said.returncode, said.stderr) == (0, "".join(f"group billing: {line}\n" for line in held))
    assert said.stdout.startswith(views.as_text(views.offsets(a_status())) + "\nbilling, Stable: 3 partitions, ")


def test_all_groups_when_none_is_named(home: Path) -> None:
    """Several runs are one table, by group."""
    with ExitStack() as stack:
        for group in ("shipping", "billing"):
            stack.enter_context(a_run(group, lambda name=group: a_status(group=name)))  # type: ignore[misc]
        everyone = cohort("describe", "--state")
        listed = cohort("groups")
    assert [line.split()[0] for line in everyone.stdout.splitlines()] == ["GROUP", "billing", "shipping"]
    assert [line.split()[:3] for line in listed.stdout.splitlines()[1:]] == [
        ["billing", "cohort-0a1b2c3d", "Stable"],
        ["shipping", "cohort-0a1b2c3d", "Stable"],
    ]


def on_a_terminal(*arguments: str, columns: int = 200) -> str:
    """What the command prints to a terminal of so many columns."""
    leader, follower = pty.openpty()
    command = [*COMMAND, *arguments]
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color"}
    child = subprocess.Popen(command, stdout=follower, stderr=follower, env=environment)
    os.close(follower)
    text = b""
    try:
        while chunk := os.read(leader, 65536):
            text += chunk
    except OSError:  # Linux says EIO when the last writer of a terminal is gone
        pass
    os.close(leader)
    assert child.wait(timeout=30) == 0
    return text.decode()


def test_no_live_coordinator_is_exit_status_1(home: Path) -> None:
    """One line that says where and when to run it."""
    for arguments in (["describe"], ["groups"], ["describe", "--group", "billing"]):
        said = cohort(*arguments)
        assert (said.returncode, said.stdout, said.stderr.count("\n")) == (1, "", 1)
        assert "no live coordinator" in said.stderr
        assert "driver's host" in said.stderr


@pytest.mark.parametrize(
    "arguments",
    [["descrobe"], ["describe", "--output", "xml"], ["describe", "x"], ["describe", "--members", "--state"]],
)
def test_a_mistake_on_the_command_line_is_exit_status_2(home: Path, arguments: list[str]) -> None:
    """One line that names the mistake and where the help is."""
    said = cohort(*arguments)
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (2, "", 1)
    assert "--help" in said.stderr


@pytest.mark.parametrize(
    "group", [name for name in cli.list_commands(CONTEXT) if isinstance(cli.get_command(CONTEXT, name), click.Group)]
)
def test_a_group_of_commands_wants_one(group: str) -> None:
    """One line, not its help folded into one."""
    said = cohort(group)
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr == f"cohort: Missing command. (see 'cohort {group} --help')\n"


def test_a_silent_coordinator_is_one_line(home: Path) -> None:
    """A run whose port is closed already: describe fails naming it, groups lists it as unreachable."""
    with a_run("r1", a_status) as server:
        server.stop(60)
        described, listed = cohort("describe"), cohort("groups")
    assert (described.returncode, described.stdout, described.stderr.count("\n")) == (1, "", 1)
    assert "billing" in described.stderr
    assert listed.returncode == 0
    assert "unreachable" in listed.stdout


def test_one_silent_run_does_not_hide_the_others(home: Path) -> None:
    """What can be shown is shown; the exit status still tells that something is missing."""
    with a_run("r1", a_status), a_run("r2", lambda: a_status(group="shipping")) as silent:
        silent.stop(60)
        said = cohort("describe", "--state")
    assert said.returncode == 1
    assert [line.split()[0] for line in said.stdout.splitlines()] == ["GROUP", "billing"]
    assert "shipping" in said.stderr


def test_a_container_with_the_same_home_names_the_run_and_leaves_its_file(home: Path) -> None:
    """There the driver's pid is nobody's: `groups` lists it as elsewhere, with its host."""
    inside = ["unshare", "--pid", "--fork", "--mount-proc"]
    with a_run("r1", a_status):
        listed, described = process("groups", within=inside), process("describe", "--group", "billing", within=inside)
        again = cohort("describe", "--group", "billing")
    assert (listed.returncode, described.returncode, again.returncode) == (0, 1, 0), listed.stderr
    (row,) = listed.stdout.splitlines()[1:]
    assert row.split()[0] == "billing"
    assert "elsewhere" in row
    assert row.split()[-1] == socket.gethostname()
    assert f"group billing on {socket.gethostname()} (process {os.getpid()})" in described.stderr


@pytest.mark.parametrize("told", ["9.9.9", None])
def test_a_run_of_another_version_is_named_as_such(home: Path, told: str | None) -> None:
    """Its status has another shape: the line says which version the query runs, and whose command to use."""
    with a_run("r1", lambda: {"group": "billing", "instance_id": "cohort-1", "later": True}):
        (path,) = home.glob("*.json")
        said = json.loads(path.read_text())
        del said["version"]
        path.write_text(json.dumps(said if told is None else {**said, "version": told, "later": [1]}))
        answer = cohort("describe", "--group", "billing")
    assert (answer.returncode, answer.stdout, answer.stderr.count("\n")) == (1, "", 1)
    assert f"group billing: its query runs sparkcohort {told or 'of an older version'}, " in answer.stderr
    assert "use the command of the Python that the query runs in" in answer.stderr
