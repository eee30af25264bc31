"""What the command prints, from a status."""

from __future__ import annotations

import json

import pytest

from sparkcohort.cli import views
from sparkcohort.runtime.group.summary import ranges
from tests.kit.status import a_cut, a_member, a_partition, a_status


def rows(view: views.View) -> list[list[str]]:
    """The cells of the text, the header first; no cell of these has a blank in it."""
    return [line.split() for line in views.as_text(view).splitlines()]


def test_offsets_in_kafkas_columns() -> None:
    """A row a partition: committed, end, lag, owner; what is unknown is a dash."""
    assert rows(views.offsets(a_status())) == [
        list(views.OFFSETS),
        ["billing", "orders", "0", "100", "150", "50", "m-2", "10.0.0.12", "executor-2"],
        ["billing", "orders", "1", "90", "90", "0", "m-2", "10.0.0.12", "executor-2"],
        ["billing", "orders", "2", "-", "-", "-", "-", "-", "-"],
    ]


def test_verbose_members_tell_what_they_own() -> None:
    """More columns: instance id, state, rack, cores, pid, heartbeat, load, what it owns since when, its target, what it awaits."""
    header, *lines = rows(views.members(a_status(), verbose=True))
    assert header == [*views.MEMBERS, *views.MEMBERS_VERBOSE]
    assert [" ".join(line) for line in lines] == [
        "billing m-2 10.0.0.12 executor-2 2 - settled - 2 4002 1500 - - - - orders-0..1@5 orders-0..1 -",
        "billing m-3 10.0.0.13 executor-3 0 - settled - 2 4003 20 33% 1200 360000 17 - - -",
    ]


def test_a_member_in_the_middle_of_a_move() -> None:
    """What it got when, what it is to have, and what another member has yet to give up."""
    moving = a_member("m-3", "3", "10.0.0.13", [["orders", 0], ["orders", 4]], 20)
    moving |= {"generations": [7, 5], "target": [["orders", 0], ["orders", 4], ["orders", 5], ["orders", 6]]}
    status = a_status(members=[moving | {"instance_id": "agent-3", "rack": "eu-1a", "state": "to-sync"}])
    (row,) = views.members(status, verbose=True).rows
    assert row[5:8] == ("agent-3", "to-sync", "eu-1a")
    assert row[-3:] == ("orders-4@5 orders-0@7", "orders-0,4..6", "orders-5..6")


def test_verbose_state_counts() -> None:
    """Generation, time in this state, rebalances, partitions moved, refused requests, failed rebalances."""
    (row,) = views.state(a_status(), "h:1", verbose=True).rows
    assert row[5:] == (7, "1m1s", 2, 4, 3, None, None, 1, None)


def test_an_assignor_that_fails_is_told_of_with_every_view() -> None:
    """What is wrong, how often, when it is asked again: in the verbose state, in JSON, and beside whatever is shown."""
    failure = {
        "assignor": "mine",
        "error": "assignor mine raised ValueError: no",
        "age_ms": 9_000,
        "in_a_row": 2,
        "retry_in_ms": 7_500,
    }
    status = a_status(failed_rebalances={"mine": 2}, assignor_failure=failure)
    words = "assignor mine raised ValueError: no (2 times in a row); asked again in 7s"
    view = views.state(status, "h:1", verbose=True)
    assert view.rows[0][-2:] == (2, words)
    (told,) = json.loads(views.as_json(view))
    assert (told["failed_rebalances"], told["assignor_failure"]) == ({"mine": 2}, failure)
    assert views.notes(status)[0] == f"group billing: {words}; every member keeps its partitions"
    assert views.notes(a_status(partitions=[])) == ()


def test_who_cannot_fetch_what_others_can_is_named() -> None:
    """A line for each member and reason."""
    status = a_status(partitions=[], cut_off=[a_cut("m-3", "3", number) for number in range(7)])
    who, why = "executor-3 on 10.0.0.13", "its leader does not answer here for 3 s; others own and read them"
    what = "orders-0, orders-1, orders-2, orders-3, orders-4 and 2 more"
    assert views.notes(status) == (f"group billing: {who} can't fetch {what}: {why}",)


def test_partitions_that_do_not_flow_are_told_with_every_view() -> None:
    """A line for each reason, with its partitions, of which not more than a few are named."""
    assert views.notes(a_status()) == (
        "group billing: orders-2 held: broker 3 does not answer",
        "group billing: orders-1 read as far as it is fetched: its leader is slow",
        "group billing: orders-1 held by open transactions: 457 records wait, for 2m3s or longer",
    )
    many = [a_partition(number, 0, 0, None, unreachable="no leader is available") for number in range(7)]
    told = "orders-0, orders-1, orders-2, orders-3, orders-4 and 2 more held: no leader is available"
    assert views.notes(a_status(partitions=many)) == (f"group billing: {told}",)


def test_verbose_state_tells_who_keeps_a_rebalance_waiting() -> None:
    """Why it runs, since when, who is missing, how long it may still take; and one that is put off."""
    running = {"reason": "executor-4 joined", "age_ms": 2_300, "waits_for": "join", "deadline_in_ms": 57_700}
    put_off = {"partitions": [["orders", 1], ["orders", 0]], "due_in_ms": 30_000}
    missing = [{"member_id": "m-3", "client_id": "executor-3"}, {"member_id": "driver-1", "client_id": None}]
    status = a_status(
        state="PreparingRebalance",
        rebalance={**running, "assignor": None, "missing": missing},
        scheduled_rebalance=put_off,
    )
    (row,) = views.state(status, "h:1", verbose=True).rows
    assert row[-4:-2] == (
        "executor-4 joined, 2s ago; waits for executor-3, driver-1 to join, 57s left",
        "orders-0..1 waits for a replacement, 30s left",
    )
    running |= {"waits_for": "sync", "assignor": {"name": "mine", "age_ms": 2_000}}
    (row,) = views.state(a_status(rebalance={**running, "missing": []}), "h:1", verbose=True).rows
    assert row[-4] == "executor-4 joined, 2s ago; waits for nobody to sync, 57s left; assignor mine runs for 2s"
    (told,) = json.loads(views.as_json(views.state(status, "h:1")))
    assert (told["rebalance"]["missing"], told["scheduled_rebalance"]) == (missing, put_off)


def test_partitions_are_ranges_sorted_by_topic_and_number() -> None:
    """Thousands of partitions are read at a glance."""
    assert ranges([("b", 10), ("b", 9), ("b", 12), ("a", 0), *(("c", n) for n in range(300))]) == (
        "a-0;b-9..10,12;c-0..299"
    )
    assert ranges([("b", 10)]) == "b-10", "as one is spelled everywhere"
    assert ranges([]) is None


@pytest.mark.parametrize(
    ("ms", "words"),
    [(0, "0ms"), (999, "999ms"), (61_000, "1m1s"), (3_600_000, "1h"), (90_000_000, "1d1h")],
)
def test_durations_have_two_units_at_most(ms: int, words: str) -> None:
    """As a person says it."""
    assert views.duration(ms) == words


def test_words_of_members_do_not_steer_the_terminal() -> None:
    """A reason may say anything: it stays on its line and moves no cursor."""
    view = views.View(("A", "B"), (("x\x1b[2Jy\nz", 1),))
    assert views.as_text(view).splitlines() == ["A        B", "x?[2Jy?z 1"]


HOST = "ip-10-20-130-140.eu-central-1.compute.internal"


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    "view",
    [
        views.groups([("billing-of-the-shop", "cohort-8e053c91", 314159, HOST, a_status(state="PreparingRebalance"))]),
        views.members(a_status(members=[a_member(f"executor-12-{'0a1b2c3d' * 3}", "12", HOST, [["orders", 1]], 9)])),
        views.members(a_status(), verbose=True),
        views.state(a_status(instance_id="cohort-8e053c91"), f"{HOST}:40123", verbose=True),
    ],
    ids=["groups", "members", "members, verbose", "state"],
)
def test_no_cell_is_broken(view: views.View, width: int) -> None:
    """Whatever doesn't fit is left out by name, or stands in a block; a host and a number stay on one line."""
    fitting = views.for_terminal(view, width)
    lines = views.render(fitting, width).splitlines()
    words = {word for line in lines for word in line.split()}
    assert max(map(len, lines)) <= width
    for cell in (cell for row in fitting.rows for cell in row if cell is not None and " " not in str(cell)):
        assert str(cell).split(",")[0] in {word.strip(",") for word in words}


def test_a_row_that_is_too_wide_becomes_a_block() -> None:
    """A name and a value a line, what is unknown left out; long values go on under themselves, whole."""
    many = [["orders", number] for number in range(0, 302, 2)]
    status = a_status(members=[a_member("m-2", "2", "10.0.0.12", many, 1500)])
    view = views.members(status, verbose=True)
    assert (views.fits(view, 100), views.fits(view, 2_000)) == (False, True)
    lines = views.render(view, 100).splitlines()
    assert max(map(len, lines)) <= 100
    assert "RACK" not in {line.split()[0] for line in lines if line.split()}
    words = " ".join(lines).replace(",", " ").split()
    assert [words.count(str(number)) for number in range(10, 300, 2)] == [2] * 145  # whole, owned and target
