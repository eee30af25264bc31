"""``cohort describe`` and ``cohort groups``: chosen rows, their sums, narrow terminals, and groups as Kafka tells them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from tests.kit.broker import Broker
from tests.kit.command import cohort
from tests.kit.produce import produce
from tests.kit.status import IN_FLIGHT, a_status
from tests.kit.waiting import wait_until
from tests.shell.cli.test_main import a_run, on_a_terminal
from tests.shell.cli.test_main import home as home  # noqa: PLC0414  the fixture


@pytest.mark.parametrize(
    ("flags", "shown"),
    [
        ([], [0, 1, 2]),
        (["--sort", "lag"], [0, 1, 2]),
        (["--sort", "age"], [0, 1, 2]),
        (["--sort", "member"], [2, 0, 1]),
        (["--min-lag", "1"], [0, 2]),
        (["--member", "executor-2"], [0, 1]),
        (["--member", "m-2", "--min-lag", "50"], [0]),
        (["--member", "m-9"], []),
        (["--topic", "orders"], [0, 1, 2]),
        (["--topic", "orders", "--topic", "bills"], [0, 1, 2]),
        (["--topic", "bills"], []),
    ],
)
def test_rows_are_chosen_and_sorted(home: Path, flags: list[str], shown: list[int]) -> None:
    """What isn't known is neither dropped by a bound nor put before what is."""
    with a_run("r1", a_status):
        rows = json.loads(cohort("describe", *flags, "--output", "json").stdout)
        whole = json.loads(cohort("describe", "--verbose", "--output", "json").stdout)
    assert [row["partition"] for row in rows] == shown
    assert whole[0]["lag_seconds"] == 7.5
    assert all(row.keys() == whole[0].keys() for row in rows)


@pytest.mark.parametrize("flags", [[], ["--members"], ["--state", "--verbose"]])
def test_the_batch_in_flight_stands_below(home: Path, flags: list[str]) -> None:
    """In every view, and in the state's JSON; where there is none, there is no line."""
    status = a_status()
    status["batches"]["in_flight"] = IN_FLIGHT
    with a_run("r1", lambda: status):
        text = cohort("describe", *flags).stdout
        (state,) = json.loads(cohort("describe", "--state", "--output", "json").stdout)
    said = "billing, batch 17 in flight for 2m3s: 10 ranges delivered, 2 owed; waits for tasks that read orders-1"
    assert said in text.splitlines()
    assert state["batch"] == IN_FLIGHT
    with a_run("r1", a_status):
        assert "in flight" not in cohort("describe", *flags).stdout


def test_the_sums_stand_below(home: Path) -> None:
    """Of what is shown, and of how much that is; none of it in CSV, which a program sums."""
    with a_run("r1", a_status):
        said = {flags: cohort("describe", *flags.split()).stdout.splitlines()[-1] for flags in SUMS}
        csv = cohort("describe", "--output", "csv").stdout.splitlines()
        ages = cohort("describe", "--verbose").stdout.splitlines()
    assert said == SUMS
    assert (len(csv), csv[0].split(",")[0]) == (4, "GROUP")
    assert (ages[0].split()[-1], ages[1].split()[-1]) == ("AGE", "7s")


SUMS = {
    "": "billing, Stable: 3 partitions, 50 records behind, the oldest since 7s, the lag of 1 not known",
    "--topic bills": "billing, Stable: 0 of 3 partitions, 0 records behind",
    "--min-lag 1 --member m-2": "billing, Stable: 1 of 3 partitions, 50 records behind, the oldest since 7s",
    "--members": "billing, Stable: 2 members, 2 partitions",
    "--members --member executor-3": "billing, Stable: 1 of 2 members, 0 partitions",
}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--members", "--sort", "lag"],
        ["--state", "--min-lag", "1"],
        ["--state", "--member", "m-2"],
        ["--sort", "size"],
        ["--min-lag", "-1"],
        ["--bootstrap-server", "127.0.0.1:1"],
    ],
)
def test_what_does_not_go_together(home: Path, arguments: list[str]) -> None:
    """One line, exit status 2."""
    said = cohort("describe", *arguments)
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("flags", [["--members"]])
def test_eighty_columns(home: Path, flags: list[str]) -> None:
    """Nothing is folded: columns are left out one by one, and named; who owns what, and the lag, stay."""
    long = "executor-2-e33ee909-4fa7c63382ad-12"
    status = a_status()
    for row in status["partitions"] + status["members"]:
        if row["member_id"] is not None:
            row["member_id"] = long
    with a_run("r1", lambda: status):
        wide = on_a_terminal("describe", *flags)
        narrow = on_a_terminal("describe", *flags, columns=80)
    assert "left out" not in wide
    lines = re.sub(r"\x1b\[[0-9;]*m", "", narrow).splitlines()
    table = [line for line in lines if not line.startswith(("group ", "billing, ", "left out"))]
    assert max(map(len, table)) <= 80, narrow
    assert lines[-1].startswith("left out at this width: ")
    assert len(table) == 1 + len(status["members" if flags else "partitions"]), narrow
    assert "executor-2" in narrow


@contextmanager
def members(broker: Broker, topic: str, *names: str) -> Iterator[list[Consumer]]:
    """Kafka's own consumers of a group of the topic's name, each with a partition."""
    conf = {"bootstrap.servers": broker.bootstrap, "group.id": topic, "enable.auto.commit": False, "log_level": 0}
    found = [Consumer({**conf, "client.id": name}) for name in names]
    try:
        for each in found:
            each.subscribe([topic])

        def assigned() -> bool:
            for each in found:
                each.poll(0.05)
            return all(len(each.assignment()) == 1 for each in found)

        wait_until(assigned, 60, "an assignment")
        yield found
    finally:
        for each in found:
            each.close()


def test_any_group_of_kafkas(broker: Broker, topic: str, home: Path) -> None:
    """From any host: committed offsets, lag and owners, with and without members; unknown is null."""
    broker.admin.create_topic(topic, 2)
    produce(broker.bootstrap, topic, 20, partitions=2)
    broker.admin.commit(topic, topic, {0: 4})
    asked = ("describe", "--group", topic, "--bootstrap-server", broker.bootstrap)
    (alone,) = json.loads(cohort(*asked, "--output", "json").stdout)
    assert (alone["partition"], alone["lag"], alone["consumer_id"]) == (0, 6, None)
    assert cohort(*asked, "--state").stdout.splitlines()[1].split()[-2:] == ["Empty", "0"]
    with members(broker, topic, "alice", "bob"):
        rows = json.loads(cohort(*asked, "--output", "json").stdout)
        state = cohort(*asked, "--state").stdout.splitlines()[1]
        described = json.loads(cohort(*asked, "--members", "--verbose", "--output", "json").stdout)
        only = json.loads(cohort(*asked, "--member", "alice", "--output", "json").stdout)
        listed = json.loads(cohort("groups", "--bootstrap-server", broker.bootstrap, "--output", "json").stdout)
        text = cohort(*asked, "--members", "--verbose")
    assert {row["client_id"] for row in rows} == {"alice", "bob"}
    assert {(row["partition"], row["current_offset"], row["lag"]) for row in rows} == {(0, 4, 6), (1, None, None)}
    assert state.split() == [topic, f"{broker.bootstrap}", "(1)", "range", "Stable", "2"]
    assert [len(row["current_assignment"]) for row in described] == [1, 1]
    assert [row["client_id"] for row in only] == ["alice"]
    (mine,) = (row for row in listed if row["group"] == topic)
    assert (mine["state"], mine["members"], mine["cohort_driver"]) == ("Stable", 2, None)
    assert f"{topic}-0" in text.stdout, text
    assert "@None" not in text.stdout


def test_a_group_that_has_nothing_yet(broker: Broker, topic: str, home: Path) -> None:
    """A query that starts: its group is there, without member and offset.  It is shown so, not called unknown and suggested."""
    broker.admin.create_topic(topic, 1)
    with members(broker, topic, "alice"):
        pass
    asked = ("describe", "--group", topic, "--bootstrap-server", broker.bootstrap)
    wait_until(lambda: "Empty" in cohort(*asked, "--state").stdout, 60, "an empty group")
    ended = cohort(*asked)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert f"{topic}, Empty: 0 partitions" in ended.stdout


def test_groups_that_kafka_does_not_tell(broker: Broker, topic: str, home: Path) -> None:
    """No such group, nobody at that address, a file that isn't there: one line, and the status that the page names."""
    for arguments, status, words in (
        (("describe", "--group", topic, "--bootstrap-server", broker.bootstrap), 1, "knows no consumer group"),
        (("describe", "--group", topic, "--command-config", "/nowhere"), 2, "/nowhere"),
        (("groups", "--command-config", "/nowhere"), 2, "/nowhere"),
    ):
        ended = cohort(*arguments)
        assert (ended.returncode, ended.stdout, len(ended.stderr.splitlines())) == (status, "", 1)
        assert words in ended.stderr
