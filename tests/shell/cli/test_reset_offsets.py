"""``cohort reset-offsets`` on a real broker: every form beside Kafka's own tool, and what it keeps of Cohort's own."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
import pytest
from confluent_kafka import Consumer

from sparkcohort.cli import kafka_group, reset_offsets
from sparkcohort.runtime.kafka.run_epoch import CommitMetadata, decode, encode
from tests.kit import consumer_groups
from tests.kit.broker import Broker
from tests.kit.command import cohort
from tests.kit.mock import MockCluster
from tests.kit.produce import produce
from tests.kit.waiting import wait_until

FORMS = (
    ("--to-earliest",),
    ("--to-latest",),
    ("--to-offset", "0"),
    ("--to-offset", "12"),
    ("--to-offset", "1000"),
    ("--shift-by", "3"),
    ("--to-datetime", "2001-09-09T01:46:41.000"),
    ("--to-datetime", "2100-01-01T00:00:00.000"),
    ("--shift-by", "-1000"),
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


@contextmanager
def consumers(bootstrap: str, group: str, topic: str) -> Iterator[list[Consumer]]:
    """Two members of a group that have settled on two partitions each."""
    conf: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0}
    conf |= {"partition.assignment.strategy": "cooperative-sticky", "auto.offset.reset": "earliest"}
    both = [Consumer({**conf, "client.id": name}) for name in ("left", "right")]

    def settled() -> bool:
        for each in both:
            each.poll(0.05)
        return all(len(each.assignment()) == 2 for each in both)

    try:
        for each in both:
            each.subscribe([topic])
        wait_until(settled, 30, "two partitions each")
        yield both
    finally:
        both.clear()  # not by ``close``, which at times never ends: see GroupMembership


def test_a_group_with_members_is_left_alone(broker: Broker, topic: str) -> None:
    """One line that names them; exit status 1, also where it would only be shown."""
    broker.admin.create_topic(topic, 4)
    group = f"g-{topic}"
    at = ("--group", group, "--topic", topic, "--to-latest", "--bootstrap-server", broker.bootstrap)
    with consumers(broker.bootstrap, group, topic):
        answers = [cohort("reset-offsets", *at, *how) for how in (["--execute"], [])]
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
        ("--topic", topic, "--to-earliest", "--command-config", "/nowhere"),
    ):
        said = cohort(*at, *wrong)
        assert (said.returncode, said.stdout, said.stderr.count("\n")) == (2, "", 1), wrong


def test_no_broker_there(mock_broker: MockCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line with the address and what to look at; exit status 1."""
    monkeypatch.setattr(kafka_group, "TIMEOUT_S", 1.0)
    mock_broker.broker_down()
    at = ("--group", "g", "--topic", "t", "--to-latest", "--bootstrap-server", mock_broker.bootstrap)
    said = cohort("reset-offsets", *at)
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (1, "", 1)
    assert "check the address" in said.stderr


def test_every_form_goes_where_kafkas_own_tool_goes(broker: Broker, topic: str, group: str) -> None:
    """Its dry run against ours, which says that nothing is changed; --execute goes there."""
    asked = ("--group", group, "--topic", topic)
    with consumer_groups.one_jvm() as tool:
        for form in FORMS:
            at = ("reset-offsets", *asked, *form, "--bootstrap-server", broker.bootstrap)
            said = cohort(*at, "--output", "csv")
            assert (said.returncode, said.stderr.splitlines()) == (0, [reset_offsets.DRY_RUN, reset_offsets.WINS])
            planned = tool(broker.bootstrap, "--reset-offsets", *asked, *form, "--dry-run", "--export")
            theirs = sorted(line for line in csv.reader(io.StringIO(planned)) if len(line) == 3)
            assert [row[1:3] + row[4:] for row in csv.reader(io.StringIO(said.stdout))][1:] == theirs, form
            assert broker.admin.committed(group) == {(topic, 0): 10, (topic, 1): 10}
    assert cohort(*at, "--execute").returncode == 0
    assert broker.admin.committed(group) == {(topic, 0): 5, (topic, 1): 0}


@pytest.mark.parametrize("text", ["t:", "t:,", "t:0,", "t:x", "t:" + "9" * 5_000])
def test_no_partition_is_not_all_of_them(text: str) -> None:
    """A variable of the shell that is empty would move the whole topic."""
    with click.Context(reset_offsets.reset_command):
        assert len(reset_offsets.topic_partitions(["t"], {"t": 3})) == 3
        with pytest.raises(click.UsageError, match=r"partitions are numbers, such as t:0,1; t alone is all of it"):
            reset_offsets.topic_partitions([text], {"t": 3})
