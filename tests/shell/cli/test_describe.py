"""``cohort describe``: chosen rows, their sums, narrow terminals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkcohort import describe
from tests.kit.command import cohort
from tests.kit.status import IN_FLIGHT, a_status
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


def test_the_page_and_its_document(home: Path) -> None:
    """The address stands below, where there is one; ``--whole`` prints the document as ``describe()`` gives it."""
    with a_run("r1", a_status, "http://127.0.0.1:9404/"):
        said = cohort("describe")
        whole = cohort("describe", "--group", "billing", "--whole")
        assert json.loads(whole.stdout) == [describe("billing")] == [json.loads(json.dumps(a_status()))]
    assert said.stdout.splitlines()[-1] == "billing, live page: http://127.0.0.1:9404/"
    with a_run("r1", a_status):
        assert "live page" not in cohort("describe").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["--whole", "--members"],
        ["--members", "--sort", "lag"],
        ["--state", "--min-lag", "1"],
        ["--state", "--member", "m-2"],
        ["--sort", "size"],
        ["--min-lag", "-1"],
    ],
)
def test_what_does_not_go_together(home: Path, arguments: list[str]) -> None:
    """One line, exit status 2."""
    said = cohort("describe", *arguments)
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("flags", [["--members"]])
def test_eighty_columns(home: Path, flags: list[str]) -> None:
    """Nothing is folded: columns are left out one by one, and named; who owns what, and the lag, stay."""
    long = "executor-2-e33ee909-4fa7c63382ad-1234567"
    status = a_status()
    for row in status["partitions"] + status["members"]:
        if row["member_id"] is not None:
            row["member_id"] = long
    with a_run("r1", lambda: status):
        wide = on_a_terminal("describe", *flags)
        narrow = on_a_terminal("describe", *flags, columns=80)
    assert "left out" not in wide
    lines = narrow.splitlines()
    table = [line for line in lines if not line.startswith(("group ", "billing, ", "left out"))]
    assert max(map(len, table)) <= 80, narrow
    assert lines[-1].startswith("left out at this width: ")
    assert len(table) == 1 + len(status["members" if flags else "partitions"]), narrow
    assert "executor-2" in narrow
