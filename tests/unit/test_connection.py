"""Connection files: private, found by group, never stale."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell import connection
from sparkcohort.runtime.shell.run import Run
from sparkcohort.runtime.shell.tls import new_authority


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COHORT_HOME", str(tmp_path / "home"))


def a_run() -> Run:
    """A run that nobody serves."""
    return Run("f00", None, 1, new_authority().client)


def test_a_file_is_readable_by_its_owner_only_and_leads_to_the_run() -> None:
    """Mode 0600, and what is read back is the run that was written."""
    run = a_run()
    path = connection.write("billing", "cohort-1", run)

    assert path is not None
    assert path.stat().st_mode & 0o777 == 0o600
    (found,) = connection.find("billing")
    assert run == found.run


def test_a_file_whose_process_is_gone_is_skipped_and_removed() -> None:
    """Stale files mislead nobody: pids are reused, so the start time counts too."""
    path = connection.write("billing", "cohort-1", a_run())
    assert path is not None
    said = json.loads(path.read_text())
    path.write_text(json.dumps({**said, "started": said["started"] - 1}))

    assert list(connection.live()) == []
    assert not path.exists()


def test_a_file_of_somebody_else_is_no_error() -> None:
    """Half-written or foreign JSON is passed over."""
    connection.home().mkdir(parents=True)
    (connection.home() / "x.json").write_text('{"group_id": ')
    (connection.home() / "y.json").write_text("[]")

    assert list(connection.live()) == []


def test_a_group_that_is_not_there_is_named_with_those_that_are() -> None:
    """The error names the group asked for, the live ones, and where to ask."""
    connection.write("billing", "cohort-1", a_run())

    with pytest.raises(CohortError, match=r"group shipping.*billing.*driver's host"):
        connection.find("shipping")


def test_a_run_that_does_not_answer_is_one_clear_error() -> None:
    """A coordinator whose port is closed is named by its group, without a secret."""
    run = a_run()
    connection.write("billing", "cohort-1", run)
    (found,) = connection.find("billing")

    with pytest.raises(CohortError, match="group billing: no answer") as failed:
        connection.fetch_status(found)
    assert run.credentials.token not in str(failed.value)
