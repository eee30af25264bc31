"""The rules for Prometheus, on its own promtool, as the command writes them out of the wheel."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sparkcohort import dashboards
from tests.kit.alert_rules import alerts
from tests.kit.command import cohort
from tests.kit.grafana import interpolated, queries
from tests.kit.jars import ROOT
from tests.kit.prometheus import Prometheus, promtool
from tests.kit.waiting import wait_until
from tools.dashboards.dashboard import dashboard

RULES = ROOT / "dashboards" / "rules"


@pytest.mark.thorough("needs Prometheus and promtool")
def test_promtool_reads_the_rules_and_their_tests_hold() -> None:
    """Each alert fires on its case, the first time too, and none does on a healthy day, nor in a rolling deploy."""
    for words in (("check", "rules", RULES / "cohort.yml"), ("test", "rules", RULES / "cohort_test.yml")):
        done = promtool(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "SUCCESS" in done.stdout


def test_each_alert_has_a_test() -> None:
    """A sample of each that fires is expected somewhere."""
    expected = set(re.findall(r'alertname="(\w+)", alertstate="firing"', (RULES / "cohort_test.yml").read_text()))
    assert expected == {alert.name for alert in alerts()}


def test_each_alert_has_fired_on_a_real_query() -> None:
    """An end-to-end test breaks a query and waits for it."""
    ends = "\n".join(path.read_text() for path in (ROOT / "tests" / "e2e").glob("test_*.py"))
    waited_for = re.findall(r'(?:server\.wait_for_alert\(|flapped\(query, server, )"(\w+)"', ends)
    assert set(waited_for) == {alert.name for alert in alerts()}


def test_the_command_writes_rules_that_pass(tmp_path: Path) -> None:
    """All groups: the files as they stand in the repository."""
    done = cohort("rules", "write", str(tmp_path / "new"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"wrote {tmp_path / 'new' / name}" for name in ("cohort.yml", "cohort_test.yml")
    ]
    for name in ("cohort.yml", "cohort_test.yml"):
        assert (tmp_path / "new" / name).read_text() == (RULES / name).read_text()
    assert "runbook_url" not in (tmp_path / "new" / "cohort.yml").read_text(), "a link that leads nowhere"


@pytest.mark.thorough("needs Prometheus and promtool")
def test_rules_for_some_groups(tmp_path: Path) -> None:
    """Only these groups are selected, their names taken literally; the tests are of the first."""
    done = cohort(
        "rules", "write", str(tmp_path), "--group", "shop.orders", "--group", "a+b", "--runbooks", "https://w/run"
    )
    assert done.returncode == 0, done.stderr
    rules = (tmp_path / "cohort.yml").read_text()
    assert dashboards.EVERY_GROUP not in rules
    assert r'group=~"shop\\.orders|a\\+b"' in rules
    assert "runbook_url: 'https://w/run#cohortdrivergone'" in rules
    assert "runbook:" not in rules
    assert promtool("check", "rules", tmp_path / "cohort.yml").returncode == 0
    tests = (tmp_path / "cohort_test.yml").read_text()
    assert "shop.orders" in tests and dashboards.TESTED_GROUP not in tests


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("--group", 'a"b'), ("--group", "leave --group out")), (("--runbooks", "x' y"), ("--runbooks", "no address"))],
)
def test_what_a_rule_cannot_name(tmp_path: Path, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    """One line, exit status 2, nothing written."""
    done = cohort("rules", "write", str(tmp_path), *arguments)
    assert done.returncode == 2
    assert all(word in done.stderr for word in words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("what", "name"), [("dashboards", "cohort.json"), ("rules", "cohort_test.yml")])
def test_other_content_is_kept(tmp_path: Path, what: str, name: str) -> None:
    """A file of other content stops it before anything is written; the same content, or --force, doesn't."""
    (tmp_path / name).write_text("mine")
    refused = cohort(what, "write", str(tmp_path))
    assert refused.returncode == 1
    assert f"{tmp_path / name} is there with other content: --force overwrites it" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"
    assert cohort(what, "write", str(tmp_path), "--force").returncode == 0
    assert (tmp_path / name).read_text() != "mine"
    assert cohort(what, "write", str(tmp_path)).returncode == 0


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    """One line that names it."""
    (tmp_path / "file").write_text("")
    done = cohort("dashboards", "write", str(tmp_path / "file" / "below"))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "can't write" in done.stderr


@pytest.mark.thorough("needs Prometheus and promtool")
def test_a_server_reads_every_query_of_the_dashboard(tmp_path: Path) -> None:
    """No expression is refused by a real server, nor a rule."""
    with Prometheus(tmp_path, [], rules=[RULES / "cohort.yml"]) as server:
        for _, expression in queries(dashboard()):
            assert server.query(interpolated(expression)) == []
        wait_until(lambda: {rule["health"] for rule in server.rules()} == {"ok"}, 30, "every rule evaluated")
