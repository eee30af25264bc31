"""The command ``cohort simulate``: exit status, one line of error, and what a person and a program read."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sparkcohort import assignors
from sparkcohort.assignors import ASSIGNORS, MemberSubscription
from sparkcohort.cli import main
from sparkcohort.cli.simulate import live_case
from sparkcohort.runtime.shell.options import properties_file
from sparkcohort.runtime.shell.rpc import connection_file
from tests.kit.status import a_member, a_partition, a_status


def a_group(owned: dict[str, list[list[Any]]], partitions: dict[str, int], **more: Any) -> dict[str, Any]:
    """The status of a group: the partitions of each executor, and how many each topic has."""
    rows = [{**a_partition(n, 1, 2, None), "topic": topic} for topic, count in partitions.items() for n in range(count)]
    members = [a_member(f"m-{name}", name, "10.0.0.1", mine, 20) for name, mine in owned.items()]
    return a_status(partitions=rows, members=members, **more)


GROUP = a_group({"0": [["t0", 0], ["t0", 2], ["t1", 1]], "1": [["t0", 1], ["t1", 0], ["t1", 2]]}, {"t0": 3, "t1": 3})


class Said(NamedTuple):
    """What the command printed, and how it ended."""

    status: int
    out: str
    err: str


class Cohort:
    """The command in this process: ``Cohort(monkeypatch, capsys)("--members", "+1", group=GROUP)``."""

    def __init__(self, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> None:
        self._patch, self._capture = patch, capture

    def __call__(self, *arguments: str, group: dict[str, Any] = GROUP) -> Said:
        """Run it with a group of this status."""
        self._patch.setattr(connection_file, "describe", lambda _: group)
        self._patch.setattr(sys, "argv", ["cohort", "simulate", "--group", "billing", *arguments])
        with pytest.raises(SystemExit) as ended:
            main.main()
        return Said(int(str(ended.value.code)), *self._capture.readouterr())

    def json(self, *arguments: str, group: dict[str, Any] = GROUP) -> dict[str, Any]:
        """The object that it prints."""
        said = self(*arguments, "--output", "json", group=group)
        assert (said.status, said.err) == (0, "")
        value: dict[str, Any] = json.loads(said.out)
        return value


@pytest.fixture
def cohort(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cohort:
    """The command."""
    return Cohort(monkeypatch, capsys)


def test_a_table_for_people(cohort: Cohort) -> None:
    """Kafka's example with a third member: before and after, what moves, what pauses."""
    said = cohort("--members", "+1")
    assert (said.status, said.err) == (0, "")
    assert said.out == (
        "cooperative-sticky: 3 members, 6 partitions of 2 topics; 1 member more\n"
        "\n"
        "MEMBER      #BEFORE #AFTER KEPT      +GAINED   -LOST\n"
        "executor-0  3       2      t0-0;t1-1 -         t0-2\n"
        "executor-1  3       2      t0-1;t1-0 -         t1-2\n"
        "new-1 (new) 0       2      -         t0-2;t1-2 -\n"
        "\n"
        "moved            2 of 6; the fewest possible: 2\n"
        "placed           0 that had no owner\n"
        "spread           0 -> 0 (most - fewest)\n"
        "rack mismatches  unknown: no racks of members or of replicas\n"
        "pauses           2 partitions for 1 round: t0-2;t1-2\n"
        "settled          after 2 rounds\n"
    )
    gone = cohort("--members", "-executor-1", "--partitions", "t0=2")
    assert gone.out.startswith("cooperative-sticky: 1 member, 5 partitions of 2 topics; 1 member fewer, t0 3 -> 2\n")
    assert "executor-1 (gone)" in gone.out


def test_an_object_for_programs(cohort: Cohort) -> None:
    """The first round's answer, what it withholds, where it ends; partitions sorted."""
    seen = cohort.json("--members", "+1")
    both = {"executor-0": [["t0", 0], ["t1", 1]], "executor-1": [["t0", 1], ["t1", 0]]}
    assert seen["assignment"] == {**both, "new-1": []}
    assert seen["transferring"] == [["t0", 2], ["t1", 2]]
    assert seen["settled"] == {**both, "new-1": [["t0", 2], ["t1", 2]]}
    assert list(map(len, seen["before"].values())) == [3, 3]
    assert (seen["assignor"], seen["moved"], seen["fewest_moves"], seen["rounds"]) == ("cooperative-sticky", 2, 2, 2)
    assert (seen["pauses"], seen["notes"]) == ({"1": [["t0", 2], ["t1", 2]]}, [])


@pytest.mark.parametrize("name", ASSIGNORS)
def test_every_assignor(cohort: Cohort, name: str) -> None:
    """By its name; those that know no owners move more than the fewest."""
    seen = cohort.json("--members", "+1", "--assignor", name)
    moved = 4 if name in ("range", "roundrobin") else 2
    assert (seen["assignor"], seen["fewest_moves"], seen["moved"]) == (name, 2, moved)


BAD: list[tuple[list[str], dict[str, Any], str]] = [
    ([], a_status(protocol="stikcy"), "assignor 'stikcy': no assignor has this name"),
    ([], a_status(protocol=""), "the group has no assignor yet: give --assignor, one of"),
    (["--assignor", "rang"], GROUP, "did you mean range?"),
    (
        ["--assignor", "org.apache.kafka.clients.consumer.Sticky"],
        GROUP,
        "assignor: Kafka has no org.apache.kafka.clients.consumer.Sticky; did you mean StickyAssignor?",
    ),
    (["--members", "-executor-2"], GROUP, "--members: there is no member 'executor-2'; did you mean executor-"),
    (["--partitions", "t2=4"], GROUP, "--partitions: there is no topic 't2'"),
]


@pytest.mark.parametrize(("arguments", "group", "words"), BAD)
def test_a_mistake_is_one_line_and_exit_status_2(
    cohort: Cohort, arguments: list[str], group: dict[str, Any], words: str
) -> None:
    """On standard error; nothing on standard output."""
    said = cohort(*arguments, group=group)
    assert (said.status, said.out, said.err.count("\n")) == (2, "", 1)
    assert words in said.err


def test_an_assignor_that_raises_is_one_line(cohort: Cohort, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit status 1 and its name: the group was not at fault."""

    class Broken:
        name, cooperative = "broken", False

        def assign(self, *_: Any) -> Any:
            raise ZeroDivisionError("a\x1b[31m by zero")

    monkeypatch.setitem(assignors.ASSIGNORS, "broken", Broken())
    said = cohort("--assignor", "broken")
    assert (said.status, said.out) == (1, "")
    assert said.err == "cohort: assignor broken raised ZeroDivisionError: a?[31m by zero\n"


def test_an_own_assignor_by_its_dotted_name(cohort: Cohort, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Imported from the path."""
    (tmp_path / "mine_whatif.py").write_text(
        "class Last:\n"
        "    name, cooperative = 'last', False\n"
        "    def assign(self, topics, members, racks):\n"
        "        last = max(members)\n"
        "        everything = tuple((t, p) for t in sorted(topics) for p in range(topics[t]))\n"
        "        return {m: everything if m == last else () for m in members}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    seen = cohort.json("--assignor", "mine_whatif.Last")
    assert (seen["assignor"], seen["moved"], seen["spread"]) == ("last", 3, 6)
    wrong = cohort("--assignor", "mine_whatif.Lost")
    assert (wrong.status, wrong.out, wrong.err.count("\n")) == (2, "", 1)
    assert "mine_whatif.Lost" in wrong.err and "ship its file with --py-files" in wrong.err


def test_a_long_list_is_cut(cohort: Cohort) -> None:
    """Each member has its line; partitions that are far apart are cut and counted, and JSON has them all."""
    owned = {str(n): [["orders", p] for p in range(n, 60, 3)] for n in range(3)}
    group = a_group(owned, {"orders": 60})
    said = cohort(group=group)
    assert said.out.splitlines()[3] == "executor-0 20      20     orders-0,3,6,9,12,15,18,21,24,27,30,… (20) -       -"
    assert cohort.json(group=group)["settled"] == {f"executor-{name}": mine for name, mine in owned.items()}


def test_a_live_group_becomes_a_case() -> None:
    """Members by their executors, with what they own since when; topics with their partitions, racks where they are told."""
    first, *others = a_status()["partitions"]
    case = live_case.case_of_status(a_status(partitions=[{**first, "racks": ["a"]}, *others]))
    assert case.racks == {"orders": [("a",), (), ()]}
    m2 = MemberSubscription(("orders",), (("orders", 0), ("orders", 1)), 7, since={("orders", 0): 5, ("orders", 1): 5})
    assert case.members == {"executor-2": m2, "executor-3": MemberSubscription(("orders",), (), 7)}
    assert (case.topics, case.assignor, case.notes) == ({"orders": 3}, "cooperative-sticky", ())


def test_a_topic_that_is_read_in_part_is_numbered_anew() -> None:
    """As assignors see it; a note says which is which, and another that the group is on its way."""
    rows = [a_partition(number, 1, 2, None) for number in (1, 4, 7)]
    status = a_status(partitions=rows, state="PreparingRebalance")
    status["members"][0].update(owned=[["orders", 4]], generations=[5])
    case = live_case.case_of_status(status)
    assert (case.topics, case.members["executor-2"].owned) == ({"orders": 3}, (("orders", 1),))
    assert case.notes == (
        "orders is read in part, and its partitions are renumbered: 0 is orders-1, 1 is orders-4, 2 is orders-7",
        "the group is not settled: PreparingRebalance",
    )


def test_properties_as_java_has_them() -> None:
    """Comments, continuations, escapes, all three separators."""
    text = "! no\n  a = 1\nb:2\nc 3\nd\\=e=f\\\\\n# no\ng=h\\\n   i\\u0041\nk=\n"
    assert properties_file.parse(text) == {"a": "1", "b": "2", "c": "3", "d=e": "f\\", "g": "hiA", "k": ""}
