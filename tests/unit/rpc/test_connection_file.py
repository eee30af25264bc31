"""Connection files: private, found by group, never stale."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.rpc import connection_file
from sparkcohort.runtime.shell.rpc.certificates import new_authority
from sparkcohort.runtime.shell.rpc.endpoint import Run
from sparkcohort.runtime.shell.rpc.process_identity import current_place


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COHORT_HOME", str(tmp_path / "home"))


def a_run() -> Run:
    """A run that nobody serves."""
    return Run("f00", None, 1, new_authority().client)


def test_a_file_is_readable_by_its_owner_only_and_leads_to_the_run() -> None:
    """Mode 0600, and what is read back is the run that was written."""
    run = a_run()
    path = connection_file.write("billing", "cohort-1", run)

    assert path is not None
    assert path.stat().st_mode & 0o777 == 0o600
    (found,) = connection_file.find("billing")
    assert run == found.run


def test_a_file_whose_process_is_gone_is_skipped_and_removed() -> None:
    """Stale files mislead nobody: pids are reused, so the start time counts too."""
    path = connection_file.write("billing", "cohort-1", a_run())
    assert path is not None
    said = json.loads(path.read_text())
    path.write_text(json.dumps({**said, "started": said["started"] - 1}))

    assert list(connection_file.live()) == []
    assert not path.exists()


def test_the_file_of_a_run_that_takes_over_is_not_removed_as_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the name of the run before, whose file somebody has just read."""
    run = a_run()
    path = connection_file.write("billing", "cohort-1", run)
    assert path is not None

    def its_successor_comes(_: int) -> None:
        monkeypatch.undo()
        monkeypatch.setenv("COHORT_HOME", str(path.parent))
        connection_file.write("billing", "cohort-1", run)

    monkeypatch.setattr(connection_file, "started", its_successor_comes)
    assert list(connection_file.live()) == []
    assert [found.run for found in connection_file.live()] == [run]


def test_what_a_killed_process_left_half_written_hinders_no_successor() -> None:
    """A run that goes on with its group has the same name."""
    connection_file.home().mkdir(parents=True)
    (connection_file.home() / "f00.new").write_text('{"group_id": ')

    assert connection_file.write("billing", "cohort-1", a_run()) is not None
    assert [file.name for file in connection_file.home().iterdir()] == ["f00.json"]


@pytest.mark.parametrize("other", [{"host": "far"}, {"boot": "b-2"}, {"pids": 1}])
@pytest.mark.parametrize("lives", [True, False])
def test_a_run_elsewhere_is_named_and_never_touched(other: dict[str, object], lives: bool) -> None:
    """Another host, boot or pid namespace: its pid says nothing here, so its file is neither a live run's nor stale."""
    path = connection_file.write("billing", "cohort-1", a_run())
    assert path is not None
    said = {**json.loads(path.read_text()), "host": "near", **other}
    path.write_text(json.dumps({**said, "started": said["started"] - (not lives)}))

    assert list(connection_file.live()) == []
    assert [(found.group_id, found.place.host) for found in connection_file.elsewhere()] == [("billing", said["host"])]
    with pytest.raises(CohortError, match=rf"billing on {said['host']} \(process {said['pid']}\)"):
        connection_file.find("billing")
    with pytest.raises(CohortError, match=r"while the query runs$"):
        connection_file.find("shipping")
    assert path.exists()


def test_where_the_kernel_does_not_tell_nothing_is_removed() -> None:
    """Without boot id and pid namespace another place may look like this one."""
    place = current_place()
    assert place.is_certain() and place.is_here()
    assert not place._replace(boot="").is_certain()
    assert not place._replace(pids=0).is_certain()


@pytest.mark.parametrize("named", ["file", "file/below"])
def test_a_home_that_cannot_be_written_is_one_warning(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The query runs without a file; the warning says what doesn't work then, and names COHORT_HOME."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("COHORT_HOME", str(tmp_path / named))

    assert connection_file.write("billing", "cohort-1", a_run()) is None
    (warning,) = caplog.messages
    for word in ("group billing", str(tmp_path / named), "command cohort", "set COHORT_HOME"):
        assert word in warning


def test_a_full_disk_leaves_no_file(caplog: pytest.LogCaptureFixture) -> None:
    """A file that can't be written whole is not there at all, and the warning says why."""
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, most[1]))
    try:
        assert connection_file.write("billing", "cohort-1", a_run()) is None
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)

    assert list(connection_file.home().iterdir()) == []
    (warning,) = caplog.messages
    assert "File too large" in warning


def test_a_file_of_somebody_else_is_no_error() -> None:
    """Half-written or foreign JSON is passed over."""
    connection_file.home().mkdir(parents=True)
    (connection_file.home() / "x.json").write_text('{"group_id": ')
    (connection_file.home() / "y.json").write_text("[]")
    (connection_file.home() / "deep.json").write_text("[" * 60_000)
    (connection_file.home() / "folder.json").mkdir()

    assert list(connection_file.live()) == []


def test_a_group_that_is_not_there_is_named_with_those_that_are() -> None:
    """The error names the group asked for, the live ones, and where to ask."""
    connection_file.write("billing", "cohort-1", a_run())

    with pytest.raises(CohortError, match=r"group shipping.*billing.*driver's host"):
        connection_file.find("shipping")


def test_a_run_that_does_not_answer_is_one_clear_error() -> None:
    """A coordinator whose port is closed is named by its group, without a secret."""
    run = a_run()
    connection_file.write("billing", "cohort-1", run)
    (found,) = connection_file.find("billing")

    with pytest.raises(CohortError, match="group billing: no answer") as failed:
        connection_file.fetch_status(found)
    assert run.credentials.token not in str(failed.value)
