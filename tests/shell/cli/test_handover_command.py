"""What ``cohort handover`` says and does where Kafka fails after the query has stopped, and of its settings.

The hand-over itself, between real queries, is tests/e2e/test_exclusivity.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from sparkcohort.cli import handover
from sparkcohort.cli.handover import write_checkpoint
from sparkcohort.cli.local_folder import LocalFolder
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.handover import FREE, HandoverAnswer, HandoverRecord, HandoverView, RunName
from sparkcohort.runtime.kafka.run_epoch import CommitMetadata, encode
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.handover_client import HandoverClient, HandoverDelayed
from tests.kit.command import cohort

RUN = CommitMetadata(run=3, id="abc")
NOBODY = "127.0.0.1:1"


class Kafka:
    """A group whose driver has parked, at a broker that then fails so many times, at once."""

    group_id = "billing"

    def __init__(self, failures: int) -> None:
        self._failures = failures
        self.tries = 0
        self.written: list[HandoverRecord] = []

    def look(self) -> HandoverView:
        """The query has stopped."""
        return HandoverView(RUN, (HandoverRecord(HandoverAnswer.PARKED, FREE, RunName(RUN.run, RUN.id)),))

    def committed(self) -> dict[TopicPartition, tuple[int, str]]:
        """Where it has ended."""
        self._fail()
        return {TopicPartition("t", 0): (7, encode(RUN))}

    def write(self, record: HandoverRecord) -> None:
        """Told that the group is free."""
        self._fail()
        self.written.append(record)

    def _fail(self) -> None:
        self.tries += 1
        if self.tries <= self._failures:
            raise HandoverDelayed("hand-over of group billing: _TRANSPORT: refused")


def hand_over(kafka: Kafka, folder: Path | None = None) -> None:
    """As the command does."""
    handover._hand_over(cast("HandoverClient", kafka), folder, 10_000)


def test_a_broker_that_fails_at_once_is_asked_with_pauses(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Until it answers: what is printed then is all there is."""
    pauses: list[float] = []
    monkeypatch.setattr(handover, "_pause", pauses.append)
    kafka = Kafka(failures=5)
    hand_over(kafka)
    assert pauses == [0.25] * 5
    assert len(kafka.written) == 1
    assert capsys.readouterr().out == "t-0 7\n"


def test_what_fails_after_the_query_has_stopped_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 1 alone would read as "it has not"; another call goes on from there."""
    monkeypatch.setattr(handover, "READ_S", 0.0)
    stopped = r"^the query of group billing has stopped, but .*; run this again$"
    with pytest.raises(CohortError, match=stopped) as read:
        hand_over(Kafka(failures=1_000_000))
    assert "_TRANSPORT: refused" in str(read.value)
    (tmp_path / "file").write_text("")
    with pytest.raises(CohortError, match=stopped) as written:
        hand_over(Kafka(failures=0), tmp_path / "file" / "checkpoint")
    assert "cannot be written: Not a directory" in str(written.value)
    kafka = Kafka(failures=0)
    hand_over(kafka, tmp_path / "checkpoint")
    assert json.loads((tmp_path / "checkpoint" / "offsets" / "0").read_text().splitlines()[2]) == {"t": {"0": 7}}
    assert len(kafka.written) == 1
    assert "has committed its last batch and stopped" in capsys.readouterr().err


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The groups whose query is asked to stop."""
    found: list[str] = []

    def ask(client: HandoverClient, *_: object) -> None:
        found.append(client.group_id)
        raise CohortError("asked")

    monkeypatch.setattr(handover, "ask", ask)
    return found


COMMAND = ("handover", "--group", "billing", "--bootstrap-server", NOBODY, "--to-checkpoint")


@pytest.mark.parametrize(
    "place", ["s3://AKIA:hunter2@bucket/p", "hdfs:/p", "S3A://bucket/p", "file://host/p", "file:///a%20b", "ab:c", ""]
)
def test_what_is_no_local_folder_stops_nobody(
    place: str, asked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A URI would be a folder of that name here, and the query would have stopped for it; status 2, and no key is shown."""
    monkeypatch.chdir(tmp_path)
    said = cohort(*COMMAND, place)
    assert (said.returncode, said.stdout, said.stderr.count("\n"), asked) == (2, "", 1, [])
    assert "'--to-checkpoint'" in said.stderr
    assert "give the path of a" in said.stderr
    assert "hunter2" not in said.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("place", [".", "new", "./a:b", "link", "file:{}/new", "file://{}/new"])
def test_a_local_folder_is_found_however_it_is_named(
    place: str, asked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each of these can be written once the query has stopped."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "link").symlink_to(tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path / "empty")
    if place == ".":
        (tmp_path / "empty" / "link").unlink()
    assert cohort(*COMMAND, place.format(tmp_path)).returncode == 1
    assert asked == ["billing"]
    found = LocalFolder().convert(place.format(tmp_path), None, None)
    assert write_checkpoint(found, {TopicPartition("t", 0): 7}) == 0
    assert (
        tmp_path / "empty" / place.format(tmp_path).removeprefix("file://").removeprefix("file:") / "offsets" / "0"
    ).exists()


def test_what_cannot_be_written_stops_nobody(asked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A mount can't be replaced, and there is nothing below a file."""
    (tmp_path / "file").touch()
    said = cohort(*COMMAND, str(tmp_path / "file" / "checkpoint"))
    assert (said.returncode, f"cannot be written: Not a directory: {tmp_path / 'file'}" in said.stderr) == (1, True)
    monkeypatch.setattr(Path, "is_mount", lambda _: True)
    said = cohort(*COMMAND, str(tmp_path / "mount"))
    assert (said.returncode, "is a mount" in said.stderr, asked) == (1, True, [])


def test_settings_are_those_of_every_command(tmp_path: Path) -> None:
    """A bad one is a mistake on the command line, and what is of no use is told."""
    config = tmp_path / "client.properties"
    arguments = ("handover", "--group", "billing", "--bootstrap-server", NOBODY, "--command-config", str(config))
    said = cohort(*arguments)
    assert (said.returncode, str(config) in said.stderr) == (2, True)
    config.write_text("security.protocol=NONSENSE\n")
    said = cohort(*arguments)
    assert (said.returncode, "security.protocol" in said.stderr) == (2, True)
    config.write_text("metric.reporters=org.example.Mine\n")
    said = cohort(*arguments, "--timeout-ms", "1000")
    assert said.returncode == 1
    assert "metric.reporters" in said.stderr
