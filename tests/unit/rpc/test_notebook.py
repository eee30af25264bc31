"""What a notebook shows of ``describe()``."""

from __future__ import annotations

import json
import re

from sparkcohort.runtime.shell.rpc.notebook import GroupDocument, RebalanceRows
from tests.kit.scripted_group import ScriptedGroup

SCRIPT = "<script>alert(1)</script>"


def test_lanes_and_what_is_wrong() -> None:
    """Each partition in the lane of its executor, an executor without any, what tasks read, and the runbook's words."""
    group = ScriptedGroup(3, 6)
    group.rows = {1: {"unreachable": "broker 3 does not answer"}}
    group.give([0, 3], None, "executor-1 left")
    shown = GroupDocument(group.status())._repr_html_()
    rows = re.findall(r"<tr><td>(.*?)</td><td>(.*?)</td></tr>", shown)
    lanes = {name: re.findall(r">(‖ )?(\d)</span>", cells) for name, cells in rows}
    assert lanes == {
        "executor-1": [],
        "executor-2": [("‖ ", "1"), ("", "4")],
        "executor-3": [("", "2"), ("", "5")],
        "read directly": [("", "0"), ("", "3")],
    }
    assert "orders-1 held: broker 3 does not answer" in shown
    assert "Bring the broker back" in shown


def test_rebalances_are_a_table_and_still_a_list() -> None:
    """The latest first; it goes through JSON as before."""
    group = ScriptedGroup(2, 4)
    group.give([0], "2", "load")
    group.give([0], "1", "executor-1 joined")
    rows = RebalanceRows(group.status()["rebalances"])
    assert re.findall(r"<td>(load|executor-1 joined)</td><td>(\d)</td><td>(\d)</td>", rows._repr_html_()) == [
        ("executor-1 joined", "1", "3"),
        ("load", "1", "3"),
    ]
    assert json.loads(json.dumps(rows)) == json.loads(json.dumps(group.rebalances))


def test_names_of_strangers_are_text() -> None:
    """A topic, a group and a reason that are scripts."""
    group = ScriptedGroup(2, 2, SCRIPT)
    group.changes = {"group": SCRIPT, "malformed": [{"topic": SCRIPT, "reason": "syntax", "count": 1}]}
    group.rows = {1: {"late": SCRIPT}}
    group.give([0], "2", SCRIPT)
    status = group.status()
    assert "<script" not in GroupDocument(status)._repr_html_() + RebalanceRows(status["rebalances"])._repr_html_()
