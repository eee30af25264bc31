"""Batches on their way from a listener to the coordinator runs of this host, over real ports."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.shell.rpc import batch_reports, connection_file
from sparkcohort.runtime.shell.rpc.batch_reports import BatchReports
from sparkcohort.runtime.shell.rpc.certificates import new_authority
from sparkcohort.runtime.shell.rpc.endpoint import Run
from sparkcohort.runtime.shell.rpc.flight import GroupServer
from sparkcohort.runtime.shell.rpc.process_identity import started
from tests.kit.waiting import wait_until


class Told(list[calls.BatchCommitted]):
    """What a run was told, which serves this query."""

    query = ""


Serve = Callable[[str], Told]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Opens the port of a run that serves a query, with its connection file; what it was told is in the list."""
    monkeypatch.setenv("COHORT_HOME", str(tmp_path / "home"))
    with ExitStack() as stack:

        def opened(query: str) -> Told:
            told = Told()
            told.query = query

            def answer(body: bytes) -> bytes:
                told.append(calls.decode(body, calls.BatchCommitted))
                return calls.encode(calls.BatchCommittedReply(told.query))

            authority = new_authority()
            server = GroupServer(authority, {"BatchCommitted": answer}, _no_events, _no_events, host="127.0.0.1")
            stack.callback(server.stop, 1.0)
            connection_file.write(query, "i", Run(f"run-{query}", None, server.port, authority.client))
            return told

        yield opened


@pytest.fixture
def reports() -> Iterator[BatchReports]:
    """What is under test."""
    made = BatchReports()
    yield made
    made.close()


def _no_events(_: object) -> Any:
    raise AssertionError("nobody subscribes")


def a_batch(query: str, name: str = "bills") -> calls.BatchCommitted:
    """Of no sources, which nobody here looks at."""
    return calls.BatchCommitted(query, name, ())


def test_a_run_of_the_query_is_told(serve: Serve, reports: BatchReports) -> None:
    """One of another query is asked once whose it is, and then left alone."""
    mine, other = serve("q1"), serve("q2")
    for number in range(3):
        reports.add_batch(a_batch("q1", str(number)), is_ours=True)
        wait_until(lambda number=number: mine[-1:] == [a_batch("q1", str(number))], 20, "the batch")  # type: ignore[misc]
    assert len(other) <= 1


def test_a_run_that_comes_later_is_told_too(serve: Serve, reports: BatchReports) -> None:
    """As long as anybody is patient: a run writes its file, the listener looks again."""
    reports.add_batch(a_batch("q1"), is_ours=True)
    told = serve("q1")
    wait_until(lambda: told == [a_batch("q1")], 20, "the batch")


@pytest.mark.usefixtures("serve")
def test_nobody_to_tell_is_one_warning(
    reports: BatchReports, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """For a source of ours; what is another's is nobody's concern."""
    monkeypatch.setattr(batch_reports, "PATIENCE_S", 0.1)
    monkeypatch.setattr(batch_reports, "LOOK_S", 0.1)
    caplog.set_level(logging.WARNING, "sparkcohort.progress")
    reports.add_batch(a_batch("theirs", "another's"), is_ours=False)
    for _ in range(2):
        reports.add_batch(a_batch("q1"), is_ours=True)
        wait_until(lambda: not reports._pending, 20, "the end of patience")
    (line,) = caplog.messages
    assert line.startswith("query bills: its coordinator can't be found from here")


def test_a_run_that_is_gone_and_one_that_does_not_know(serve: Serve, reports: BatchReports) -> None:
    """Neither keeps the others from being told."""
    unsure = serve("")
    connection_file.write("dead", "i", Run("run-dead", None, 1, new_authority().client))
    told = serve("q1")
    reports.add_batch(a_batch("q1"), is_ours=True)
    wait_until(lambda: told == [a_batch("q1")] and unsure == [a_batch("q1")], 20, "the batch")


def test_a_run_that_takes_over_with_another_checkpoint_is_told(serve: Serve, reports: BatchReports) -> None:
    """It has the name, the port and the credentials of the run before, in another process, and serves another query."""
    told = serve("q1")
    reports.add_batch(a_batch("q1"), is_ours=True)
    wait_until(lambda: told == [a_batch("q1")], 20, "the first run's batch")
    told.query = "q2"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as successor:
        file = connection_file.home() / "run-q1.json"
        said = json.loads(file.read_text())
        file.write_text(json.dumps(said | {"pid": successor.pid, "started": started(successor.pid)}))
        reports.add_batch(a_batch("q2"), is_ours=True)
        wait_until(lambda: a_batch("q2") in told, 20, "the next run's batch")
        successor.communicate(b"\n")


def test_whose_a_run_is_is_asked_again_when_its_query_has_ended(serve: Serve, reports: BatchReports) -> None:
    """Its successor may be there before anybody has looked into the folder."""
    told = serve("q1")
    reports.add_batch(a_batch("q1"), is_ours=True)
    wait_until(lambda: told == [a_batch("q1")] and not reports._pending, 20, "the first run's batch")
    told.query = "q2"
    reports.forget_query("q1")
    reports.add_batch(a_batch("q2"), is_ours=True)
    wait_until(lambda: a_batch("q2") in told, 20, "the next run's batch")
