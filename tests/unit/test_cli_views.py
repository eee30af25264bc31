"""What the command prints, from a status."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rich.console import Console

from sparkcohort.runtime.shell import cli_views as views
from tests.support.status import a_status


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


def test_members_in_kafkas_columns() -> None:
    """A row a member with how many partitions it owns."""
    assert rows(views.members(a_status())) == [
        list(views.MEMBERS),
        ["billing", "m-2", "10.0.0.12", "executor-2", "2"],
        ["billing", "m-3", "10.0.0.13", "executor-3", "0"],
    ]


def test_verbose_members_tell_what_they_own() -> None:
    """More columns: cores, pid, age of the last heartbeat, current and target assignment."""
    assert rows(views.members(a_status(), verbose=True)) == [
        [*views.MEMBERS, *views.MEMBERS_VERBOSE],
        ["billing", "m-2", "10.0.0.12", "executor-2", "2", "2", "4002", "1500", "orders:0,1", "orders:0,1"],
        ["billing", "m-3", "10.0.0.13", "executor-3", "0", "2", "4003", "20", "-", "-"],
    ]


def test_state_in_kafkas_columns() -> None:
    """One row: where the coordinator is, the assignor, the state, the number of members."""
    view = views.state(a_status(), "127.0.0.1:4711")
    assert view == views.View(
        views.STATE, (("billing", "127.0.0.1:4711 (cohort-0a1b2c3d)", "cooperative-sticky", "Stable", 2),)
    )


def test_verbose_state_counts() -> None:
    """More columns: generation, rebalances, partitions moved, refused requests."""
    (row,) = views.state(a_status(), "h:1", verbose=True).rows
    assert row[-4:] == (7, 2, 4, 3)


def test_groups_that_do_not_answer_are_listed_as_unreachable() -> None:
    """A live process whose coordinator is silent is a row, not an error."""
    view = views.groups([("billing", "i", 10, a_status()), ("other", "j", 11, None)])
    assert view.rows == (
        ("billing", "i", "Stable", 7, 2, 3, 50, 10),
        ("other", "j", "unreachable", None, None, None, None, 11),
    )


def test_assignments_are_sorted_by_topic_and_number() -> None:
    """Partitions of several topics read as in Kafka's command."""
    assert views.assignment([["b", 10], ["b", 9], ["a", 0]]) == "a:0;b:9,10"


def test_json_has_a_key_for_every_column() -> None:
    """Keys are the columns in lower case; numbers are numbers and unknown is null."""
    said: list[dict[str, Any]] = json.loads(views.as_json(views.offsets(a_status())))
    assert said[0]["current_offset"] == 100
    assert said[2]["lag"] is None
    state = json.loads(views.as_json(views.state(a_status(), "h:1", verbose=True)))
    assert list(state[0])[:5] == ["group", "coordinator", "assignment_strategy", "state", "members"]


def test_text_cuts_nothing() -> None:
    """However long the ids are, every column is whole and every row is one line."""
    long = "x" * 300
    text = views.as_text(views.offsets(a_status(group=long)))
    assert [line.startswith(long) for line in text.splitlines()] == [False, True, True, True]
    assert "\x1b" not in text


@pytest.mark.parametrize("width", [60, 200])
def test_a_terminal_cuts_nothing_either(width: int) -> None:
    """In a narrow terminal cells are folded: no letter is lost and no ellipsis stands for one."""
    console = Console(width=width, force_terminal=False)
    with console.capture() as printed:
        console.print(views.as_table(views.offsets(a_status(group="abcdefghijklmnopqrstuvwxyz"))))
    assert "…" not in printed.get()
    assert set("abcdefghijklmnopqrstuvwxyz") <= set(printed.get())
