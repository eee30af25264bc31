"""The command ``cohort simulate``: exit status, one line of error, and what a person and a program read."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sparkcohort import assignors
from sparkcohort.assignors import ASSIGNORS, Load
from sparkcohort.cli import main
from sparkcohort.cli.simulate import live_case
from sparkcohort.cli.simulate.case import as_value
from sparkcohort.runtime.shell.options import properties_file
from sparkcohort.runtime.shell.rpc import connection_file
from tests.kit.status import a_partition, a_status

CASE: dict[str, Any] = {
    "assignor": "cooperative-sticky",
    "topics": {"t0": 3, "t1": 3},
    "members": {
        "C0": {"topics": ["t0", "t1"], "owned": [["t0", 0], ["t0", 2], ["t1", 1]], "generation": 1},
        "C1": {"topics": ["t0", "t1"], "owned": [["t0", 1], ["t1", 0], ["t1", 2]], "generation": 1},
    },
}


class Said(NamedTuple):
    """What the command printed, and how it ended."""

    status: int
    out: str
    err: str


class Cohort:
    """The command in this process: ``Cohort(monkeypatch, capsys)("--input", "-", case=CASE)``."""

    def __init__(self, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> None:
        self._patch, self._capture = patch, capture

    def __call__(self, *arguments: str, case: object = CASE) -> Said:
        """Run it with a case (JSON, or the bytes as they are) on standard input."""
        text = case if isinstance(case, bytes) else json.dumps(case).encode()
        self._patch.setattr(sys, "argv", ["cohort", "simulate", *arguments])
        self._patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        with pytest.raises(SystemExit) as ended:
            main.main()
        return Said(int(str(ended.value.code)), *self._capture.readouterr())

    def json(self, *arguments: str, case: object = CASE) -> dict[str, Any]:
        """The object that it prints."""
        said = self(*arguments, "--input", "-", "--output", "json", case=case)
        assert (said.status, said.err) == (0, "")
        value: dict[str, Any] = json.loads(said.out)
        return value


@pytest.fixture
def cohort(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cohort:
    """The command, with no live group on this host."""
    monkeypatch.setenv("COHORT_HOME", str(tmp_path))
    return Cohort(monkeypatch, capsys)


def test_a_table_for_people(cohort: Cohort) -> None:
    """Kafka's example with a third member: before and after, what moves, what pauses."""
    said = cohort("--input", "-", "--members", "+1")
    assert (said.status, said.err) == (0, "")
    assert said.out == (
        "cooperative-sticky: 3 members, 6 partitions of 2 topics; 1 member more\n"
        "\n"
        "MEMBER      #BEFORE #AFTER KEPT      +GAINED   -LOST\n"
        "C0          3       2      t0-0;t1-1 -         t0-2\n"
        "C1          3       2      t0-1;t1-0 -         t1-2\n"
        "new-1 (new) 0       2      -         t0-2;t1-2 -\n"
        "\n"
        "moved                2 of 6; the fewest possible: 2\n"
        "placed               0 that had no owner\n"
        "spread               0 -> 0 (most - fewest)\n"
        "rack mismatches      unknown: no racks of members or of replicas\n"
        "pauses, eager        6 partitions for 1 round: all there are\n"
        "pauses, cooperative  2 partitions for 1 round: t0-2;t1-2\n"
        "flow on              4 partitions; settled after 2 rounds\n"
    )


def test_an_object_for_programs(cohort: Cohort) -> None:
    """One call's answer, what it withholds, where it ends; partitions sorted."""
    seen = cohort.json("--members", "+1")
    assert seen["assignment"] == {"C0": [["t0", 0], ["t1", 1]], "C1": [["t0", 1], ["t1", 0]], "new-1": []}
    assert seen["transferring"] == [["t0", 2], ["t1", 2]]
    assert seen["settled"] == {**seen["assignment"], "new-1": [["t0", 2], ["t1", 2]]}
    assert seen["before"] == {member: said["owned"] for member, said in CASE["members"].items()}
    assert (seen["assignor"], seen["moved"], seen["fewest_moves"], seen["rounds"]) == ("cooperative-sticky", 2, 2, 2)
    assert seen["pauses"]["cooperative"] == {"rounds": 2, "partitions": {"1": [["t0", 2], ["t1", 2]]}}
    assert seen["pauses"]["eager"]["partitions"]["1"] == sorted(map(list, (("t0", n) for n in range(3)))) + [
        ["t1", n] for n in range(3)
    ]
    assert (seen["members_added"], seen["members_removed"], seen["notes"]) == (["new-1"], [], [])


def test_a_case_goes_round(cohort: Cohort, tmp_path: Path) -> None:
    """What --output case prints is read from a file as it was changed."""
    changed = cohort("--input", "-", "--members", "-C1", "--partitions", "t0=5", "--output", "case")
    path = tmp_path / "case.json"
    path.write_text(changed.out)
    again = cohort("--input", str(path), "--output", "case")
    assert again.out == changed.out
    assert json.loads(again.out)["topics"] == {"t0": 5, "t1": 3}
    assert list(json.loads(again.out)["members"]) == ["C0"]


def test_all_assignors_in_one_table(cohort: Cohort) -> None:
    """A row each; as JSON the figures of each, without partitions.  The case needn't name one."""
    case = {key: value for key, value in CASE.items() if key != "assignor"}
    said = cohort("--input", "-", "--members", "+1", "--compare", case=case)
    assert said.status == 0
    rows = [line.split() for line in said.out.splitlines() if line.split()[:1] and line.split()[0] in ASSIGNORS]
    assert [row[0] for row in rows] == sorted(ASSIGNORS)
    assert ["cooperative-sticky", "coop", "2", "0", "-", "2", "6", "2", "-"] in rows
    assert "fewest moves possible: 2" in said.out
    figures = cohort.json("--members", "+1", "--compare", case=case)["assignors"]
    assert list(figures) == sorted(ASSIGNORS)
    assert (figures["range"]["moved"], figures["range"]["fewest_moves"]) == (4, 2)


BAD: list[tuple[list[str], object, str]] = [
    (["--input", "-"], b"", "the case is empty"),
    (["--input", "-"], {**CASE, "topic": {}}, "unknown field `topic`"),
    (["--input", "-"], {**CASE, "assignor": "stikcy"}, "assignor 'stikcy': no assignor has this name"),
    (["--input", "-"], {"topics": {}, "members": {}}, "the case names no assignor: give --assignor, one of"),
    (["--input", "-", "--assignor", "rang"], CASE, "did you mean range?"),
    (
        ["--input", "-", "--assignor", "org.apache.kafka.clients.consumer.Sticky"],
        CASE,
        "assignor: Kafka has no org.apache.kafka.clients.consumer.Sticky; did you mean StickyAssignor?",
    ),
    (["--input", "-", "--members", "-C2"], CASE, '--members: there is no member "C2"; did you mean "C1"?'),
    (["--input", "-", "--partitions", "t2=4"], CASE, '--partitions: there is no topic "t2"'),
    (["--input", "no/such/file"], CASE, "--input no/such/file can't be read: No such file or directory"),
    ([], CASE, "give either --group or --input."),
    (["--input", "-", "--group", "g"], CASE, "give either --group or --input."),
    (["--input", "-", "--bootstrap-server", "b:1"], CASE, "go with --group, not with --input"),
    (
        ["--group", "g", "--bootstrap-server", "b:1", "--command-config", "nofile"],
        CASE,
        "--command-config nofile can't",
    ),
]


@pytest.mark.parametrize(("arguments", "case", "words"), BAD)
def test_a_mistake_is_one_line_and_exit_status_2(
    cohort: Cohort, arguments: list[str], case: object, words: str
) -> None:
    """On standard error; nothing on standard output."""
    said = cohort(*arguments, case=case)
    assert (said.status, said.out, said.err.count("\n")) == (2, "", 1)
    assert words in said.err


def test_a_setting_of_the_client_is_refused_by_name(cohort: Cohort, tmp_path: Path) -> None:
    """As the source's own options are, with the file; never its value."""
    path = tmp_path / "client.properties"
    path.write_text("security.protcol=SASL_SSL\nsasl.password=hunter2\n")
    said = cohort("--group", "g", "--bootstrap-server", "b:1", "--command-config", str(path))
    assert (said.status, said.err.count("\n")) == (2, 1)
    assert f"--command-config {path}: option kafka.security.protcol is unknown" in said.err
    assert "hunter2" not in said.err


def test_an_assignor_that_raises_is_one_line(cohort: Cohort, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit status 1 and its name: the case was not at fault."""

    class Broken:
        name, cooperative = "broken", False

        def assign(self, *_: Any) -> Any:
            raise ZeroDivisionError("a\x1b[31m by zero")

    monkeypatch.setitem(assignors.ASSIGNORS, "broken", Broken())
    said = cohort("--input", "-", "--assignor", "broken")
    assert (said.status, said.out) == (1, "")
    assert said.err == "cohort: assignor broken raised ZeroDivisionError: a?[31m by zero\n"


def test_an_own_assignor_by_its_dotted_name(cohort: Cohort, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Imported from the path, run once, and compared with the built-in ones under its own name."""
    (tmp_path / "mine_whatif.py").write_text(
        "class Last:\n"
        "    name, cooperative = 'last', False\n"
        "    def assign(self, topics, members, racks):\n"
        "        last = max(members)\n"
        "        everything = tuple((t, p) for t in sorted(topics) for p in range(topics[t]))\n"
        "        return {m: everything if m == last else () for m in members}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    case = {"assignor": "mine_whatif.Last", "topics": {}, "members": {}}
    for named in (cohort("--input", "-", case=case), cohort("--input", "-", "--members", "+1", case=case)):
        assert (named.status, named.out) == (2, "")
        assert named.err == (
            "cohort: assignor mine_whatif.Last: code is not run because a case names it; give --assignor mine_whatif.Last\n"
        )
    seen = cohort.json("--assignor", "mine_whatif.Last")
    assert (seen["assignor"], seen["moved"], seen["spread"]) == ("last", 3, 6)
    assert list(cohort.json("--assignor", "mine_whatif.Last", "--compare")["assignors"]) == sorted([*ASSIGNORS, "last"])
    wrong = cohort("--input", "-", "--assignor", "mine_whatif.Lost")
    assert (wrong.status, wrong.out, wrong.err.count("\n")) == (2, "", 1)
    assert "did you mean mine_whatif.Last?" in wrong.err


def test_a_long_list_is_cut(cohort: Cohort) -> None:
    """Each member has its line; partitions that are far apart are cut and counted, and JSON has them all."""
    owned = {f"m{n}": [["orders", p] for p in range(n, 60, 3)] for n in range(3)}
    members = {name: {"topics": ["orders"], "owned": mine, "generation": 1} for name, mine in owned.items()}
    case = {"assignor": "cooperative-sticky", "topics": {"orders": 60}, "members": members}
    said = cohort("--input", "-", case=case)
    assert said.out.splitlines()[3] == "m0     20      20     orders-0,3,6,9,12,15,18,21,24,27,30,… (20) -       -"
    assert cohort.json(case=case)["settled"] == owned


def test_a_live_group_becomes_a_case() -> None:
    """Members with what they own since when; topics with their partitions; names that people know."""
    case = live_case.case_of_status(a_status())
    assert as_value(case) == {
        "assignor": "cooperative-sticky",
        "topics": {"orders": 3},
        "members": {
            "m-2": {
                "topics": ["orders"],
                "owned": [["orders", 0], ["orders", 1]],
                "generation": 7,
                "instance_id": None,
                "rack": None,
                "since": [["orders", 0, 5], ["orders", 1, 5]],
            },
            "m-3": {"topics": ["orders"], "owned": [], "generation": 7, "instance_id": None, "rack": None},
        },
    }
    assert case.names == {"m-2": "executor-2", "m-3": "executor-3"}


def test_racks_and_loads_are_taken_where_they_are_told() -> None:
    """A partition's load is its owner's word, the first member's where nobody owns it."""
    first, second, third = a_status()["partitions"]
    rows = [{**first, "racks": ["a"], "load": [9.5, 70.0, 3]}, second, {**third, "load": [1.0, 2.0, 0]}]
    case = live_case.case_of_status(a_status(partitions=rows))
    assert case.racks == {"orders": [("a",), (), ()]}
    assert case.members["m-2"].loads == {("orders", 0): Load(9.5, 70.0, 3), ("orders", 2): Load(1.0, 2.0, 0)}
    assert case.members["m-3"].loads == {}


def test_a_topic_that_is_read_in_part_is_numbered_anew() -> None:
    """As assignors see it; a note says which is which, and another that the group is on its way."""
    rows = [a_partition(number, 1, 2, None) for number in (1, 4, 7)]
    status = a_status(partitions=rows, state="PreparingRebalance")
    status["members"][0].update(owned=[["orders", 4]], generations=[5])
    case = live_case.case_of_status(status)
    assert (case.topics, case.members["m-2"].owned) == ({"orders": 3}, (("orders", 1),))
    assert case.notes == (
        "orders is read in part, and its partitions are renumbered: 0 is orders-1, 1 is orders-4, 2 is orders-7",
        "the group is not settled: PreparingRebalance",
    )


def test_a_groups_assignor_that_is_not_known_here(cohort: Cohort, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Kafka group may have one of its own: another is shown, and a note says so."""
    monkeypatch.setattr(connection_file, "describe", lambda _: a_status(protocol="com.example.Own"))
    said = cohort("--group", "billing")
    assert said.status == 0
    assert "com.example.Own is not known here" in said.err
    assert said.out.startswith("cooperative-sticky: 2 members")


def test_properties_as_java_has_them() -> None:
    """Comments, continuations, escapes, all three separators."""
    text = "! no\n  a = 1\nb:2\nc 3\nd\\=e=f\\\\\n# no\ng=h\\\n   i\\u0041\nk=\n"
    assert properties_file.parse(text) == {"a": "1", "b": "2", "c": "3", "d=e": "f\\", "g": "hiA", "k": ""}


def test_the_case_in_the_help_is_one(cohort: Cohort) -> None:
    """What the help shows can be given back."""
    shown = cohort("--help").out
    text = shown[shown.index('{"assignor"') : shown.index("owned is what")]
    assert cohort("--input", "-", case=text.encode()).status == 0
