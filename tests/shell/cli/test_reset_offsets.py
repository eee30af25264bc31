"""``cohort reset-offsets`` on a real broker: every form beside Kafka's own tool, and what it keeps of Cohort's own."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from sparkcohort.cli.simulate import live_case
from sparkcohort.runtime.kafka.run_epoch import CommitMetadata, decode, encode
from tests.kit import consumer_groups
from tests.kit.broker import Broker
from tests.kit.command import cohort
from tests.kit.mock import MockCluster
from tests.kit.produce import produce
from tests.shell.cli.test_simulate import consumers

FORMS = (
    ("--to-earliest",),
    ("--to-latest",),
    ("--to-current",),
    ("--to-offset", "0"),
    ("--to-offset", "12"),
    ("--to-offset", "1000"),
    ("--shift-by", "3"),
    ("--shift-by", "-1000"),
    ("--to-datetime", "2001-09-09T01:46:41.000"),
    ("--to-datetime", "2100-01-01T00:00:00.000"),
    ("--by-duration", "PT1H"),
)


@pytest.fixture
def group(broker: Broker, topic: str) -> str:
    """A group without members at offset 10 of two logs of 20 records, 5 of which are gone in the first."""
    broker.admin.create_topic(topic, 2)
    produce(broker.bootstrap, topic, 40, partitions=2)
    broker.admin.delete_records(topic, {0: 5})
    name = f"g-{topic}"
    broker.admin.commit(name, topic, {0: 10, 1: 10})
    return name


def exported(text: str) -> list[list[str]]:
    """Lines of a plan, sorted: Kafka's tool quotes and orders them in its own way."""
    return sorted(line for line in csv.reader(io.StringIO(text)) if len(line) == 3)


def test_a_plan_in_a_file_goes_both_ways(broker: Broker, topic: str, group: str, tmp_path: Path) -> None:
    """What Kafka's tool exports is read, offsets beyond the log's ends go to the ends, and --execute moves the group."""
    plan = tmp_path / "plan.csv"
    plan.write_text(
        consumer_groups.run(
            broker.bootstrap, "--reset-offsets", "--group", group, "--topic", topic, "--shift-by", "4", "--export"
        )
    )
    at = ("--group", group, "--bootstrap-server", broker.bootstrap, "--from-file", str(plan), "--execute")
    said = cohort("reset-offsets", *at)
    assert (said.returncode, said.stderr.count("a checkpoint wins")) == (0, 1)
    assert broker.admin.committed(group) == {(topic, 0): 14, (topic, 1): 14}
    plan.write_text(f"{topic},0,0\n{topic},1,99\n")
    assert cohort("reset-offsets", *at).returncode == 0
    assert broker.admin.committed(group) == {(topic, 0): 5, (topic, 1): 20}
    plan.write_text("orders;0;0\n")
    said = cohort("reset-offsets", *at)
    assert (said.returncode, said.stderr.count("\n")) == (2, 1)
    assert "line 1 is not topic,partition,offset" in said.stderr


def test_a_group_with_members_is_left_alone(broker: Broker, topic: str) -> None:
    """One line that names them; exit status 1, also where it would only be shown, or exported."""
    broker.admin.create_topic(topic, 4)
    group = f"g-{topic}"
    at = ("--group", group, "--topic", topic, "--to-latest", "--bootstrap-server", broker.bootstrap)
    with consumers(broker.bootstrap, group, topic):
        answers = [cohort("reset-offsets", *at, *how) for how in (["--execute"], [], ["--export"])]
    for said in answers:
        assert (said.returncode, said.stdout, said.stderr.count("\n")) == (1, "", 1)
        assert "has members" in said.stderr
        assert "left on /" in said.stderr or "(left on" in said.stderr


def test_what_cohort_keeps_beside_offsets_is_that_of_a_later_run(broker: Broker, topic: str, group: str) -> None:
    """Generations stay reserved, the run is over, and nothing is pinned any more; other partitions keep theirs."""
    record = CommitMetadata(run=7, generation=7000, id="5f2c81aa", pin="abc", plan="def", topic="old")
    broker.admin.commit(group, topic, {0: 10, 1: 10}, encode(record))
    at = ("--group", group, "--topic", f"{topic}:1", "--to-offset", "3", "--bootstrap-server", broker.bootstrap)
    said = cohort("reset-offsets", *at, "--execute")
    assert said.returncode == 0
    assert "a first batch that is planned and not committed" in said.stderr
    kept = broker.admin.committed_metadata(group)
    assert decode(kept[topic, 0]) == record
    after = decode(kept[topic, 1])
    assert (after.run, after.generation, after.pin, after.plan) == (8, 7000, "", "")
    assert after.id != record.id
    assert after.topic not in ("", "old")


def test_a_checkpoint_is_looked_at(broker: Broker, topic: str, group: str, tmp_path: Path) -> None:
    """It says up to which batch it has offsets, or that it has none."""
    at = ("--group", group, "--topic", topic, "--to-latest", "--bootstrap-server", broker.bootstrap)
    checkpoint = ("--checkpoint", str(tmp_path))
    assert "has no offsets: a query with it" in cohort("reset-offsets", *at, *checkpoint).stderr
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets/12").touch()
    said = cohort("reset-offsets", *at, *checkpoint)
    assert "has offsets up to batch 12 and wins" in said.stderr
    assert "nothing is changed; --execute does it" in said.stderr


def test_a_checkpoint_that_cannot_be_read_moves_nothing(broker: Broker, topic: str, group: str, tmp_path: Path) -> None:
    """It is looked at first: exit status 1 says that nothing has happened."""
    (tmp_path / "offsets").touch()
    at = ("--group", group, "--topic", topic, "--to-latest", "--bootstrap-server", broker.bootstrap)
    said = cohort("reset-offsets", *at, "--execute", "--export", "--checkpoint", str(tmp_path))
    assert (said.returncode, said.stdout) == (1, "")
    assert f"--checkpoint {tmp_path} can't be read: Not a directory" in said.stderr
    assert broker.admin.committed(group) == {(topic, 0): 10, (topic, 1): 10}


def test_mistakes_are_one_line(broker: Broker, topic: str, group: str) -> None:
    """Exit status 2, whatever is wrong with the options."""
    at = ("reset-offsets", "--group", group, "--bootstrap-server", broker.bootstrap)
    for wrong in (
        ("--topic", topic),
        ("--topic", topic, "--to-earliest", "--to-latest"),
        ("--to-earliest",),
        ("--topic", f"{topic}:2", "--to-earliest"),
        ("--topic", f"{topic}:x", "--to-earliest"),
        ("--topic", "nowhere", "--to-earliest"),
        ("--topic", topic, "--to-datetime", "yesterday"),
        ("--topic", topic, "--by-duration", "5m"),
        ("--topic", topic, "--to-earliest", "--command-config", "/nowhere"),
    ):
        said = cohort(*at, *wrong)
        assert (said.returncode, said.stdout, said.stderr.count("\n")) == (2, "", 1), wrong


def test_no_broker_there(mock_broker: MockCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line with the address and what to look at; exit status 1."""
    monkeypatch.setattr(live_case, "TIMEOUT_S", 1.0)
    mock_broker.broker_down()
    at = ("--group", "g", "--topic", "t", "--to-latest", "--bootstrap-server", mock_broker.bootstrap)
    said = cohort("reset-offsets", *at)
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (1, "", 1)
    assert "check the address" in said.stderr


def test_every_form_goes_where_kafkas_own_tool_goes(broker: Broker, topic: str, group: str) -> None:
    """Its dry run with --export against ours; nothing is changed by either."""
    asked = ("--group", group, "--topic", topic)
    with consumer_groups.one_jvm() as tool:
        for form in FORMS:
            said = cohort("reset-offsets", *asked, *form, "--export", "--bootstrap-server", broker.bootstrap)
            assert (said.returncode, said.stderr) == (0, "")
            planned = tool(broker.bootstrap, "--reset-offsets", *asked, *form, "--dry-run", "--export")
            assert len(exported(planned)) == 2
            assert exported(said.stdout) == exported(planned), form
            assert broker.admin.committed(group) == {(topic, 0): 10, (topic, 1): 10}
