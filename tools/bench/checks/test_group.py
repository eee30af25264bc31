"""What ``make bench-group`` makes of callbacks and runs."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tools.bench.group import report
from tools.bench.group.core import CoreRun, Spent
from tools.bench.group.peers import PeerRun
from tools.bench.group.rpc import RpcRun
from tools.bench.group.timeline import Change, Outcome, outcome
from tools.bench.report import as_json


def change(at: float, member: str, *partitions: int, gained: bool = True) -> Change:
    """One callback."""
    return Change(at, member, gained, frozenset(partitions))


BEFORE = [change(1, "a", 0, 1), change(1, "b", 2, 3)]
CORE = CoreRun(10, 100, {"one joins": Spent(0.1, 0.2, 0.05, 0.3, 7)}, 3000, Spent(0.1, 0.05))
RPC = RpcRun(10, 100, 0.5, 0.2, 2, 2048.0, 12_000, 0, 4.0, 2.0)
OUTCOME = Outcome(0.1, 8, 0, 0.0, 2)


def test_a_join_ends_with_the_last_assignment() -> None:
    """Cooperatively: the newcomer is settled when it has what others gave up, and nothing that is kept ever paused."""
    moves = [change(10.125, "b", 3, gained=False), change(10.25, "a", 1, gained=False), change(10.5, "c", 1, 3)]
    assert outcome([*moves, *BEFORE], 10, "abc", 4) == Outcome(0.5, 2, 0, 0.0, 2)
    assert outcome([*BEFORE, *moves[:2]], 10, "abc", 4) is None


def test_a_stop_of_the_world_is_a_pause_of_what_is_kept() -> None:
    """Eagerly: everybody gives everything up; the longest time between of those that come back is the pause."""
    moves = [
        change(10.125, "a", 0, 1, gained=False),
        change(10.25, "b", 2, 3, gained=False),
        change(10.5, "a", 0),
        change(10.75, "b", 2),
        change(10.875, "c", 1, 3),
    ]
    seen = outcome([*BEFORE, *moves], 10, "abc", 4)
    assert seen == Outcome(0.875, 2, 2, 0.5, 2)


def test_the_dead_own_nothing() -> None:
    """After a kill the group is settled when the others have everything, though the dead never gave it up."""
    assert outcome(BEFORE, 10, "a", 4) is None
    assert outcome([*BEFORE, change(16, "a", 2, 3)], 10, "a", 4) == Outcome(6, 2, 0, 0.0, 0)


def test_two_owners_are_not_settled() -> None:
    """Neither a partition with two owners nor one with none, nor uneven shares, count as settled; a relapse counts anew."""
    double = [*BEFORE, change(10.1, "b", 1)]
    assert outcome(double, 10, "ab", 4) is None
    late = [*double, change(10.2, "b", 1, gained=False), change(11, "a", 0, gained=False), change(12, "a", 0)]
    seen = outcome(late, 10, "ab", 4)
    assert seen is not None
    assert seen.settled_s == 2
    assert outcome([*BEFORE, change(10.1, "b", 2, 3, gained=False), change(10.2, "a", 2, 3)], 10, "ab", 4) is None


def test_the_core_without_its_assignor() -> None:
    """CPU time of a rebalance is everybody's but the assignor's; heartbeats are divided by the group's CPU alone."""
    seen = report.core([CORE, replace(CORE, heartbeats=6000)], {"group": 2048.0, "member": 1024.0})
    assert seen["rebalances"]["one joins"]["without_assignor_cpu_ms"]["median"] == pytest.approx(350)
    assert seen["rebalances"]["one joins"]["assignor_cpu_ms"]["median"] == pytest.approx(300)
    assert seen["heartbeats_per_cpu_s"] == {"median": 45_000, "min": 30_000, "max": 60_000}
    assert seen["heartbeats_per_cpu_s_with_members"]["min"] == pytest.approx(20_000)


def test_bounds_say_what_is_missed() -> None:
    """Too few heartbeats, one refused, a peer that is nearly as fast, and a pause each break their own bound."""
    runs = [PeerRun("cohort", "join", OUTCOME), PeerRun("classic, range", "join", replace(OUTCOME, settled_s=2.0))]
    found = report.peers(runs)
    core, rpc = report.core([CORE], {"group": 1.0, "member": 1.0}), report.rpc([RPC])
    result = {"core": core, "rpc": rpc, "peers": found, "ratios": report.ratios(found)}
    assert set(report.bounds(result).values()) == {True}
    assert len(report.bounds(result)) == 4

    slow = report.core([replace(CORE, heartbeats=1999)], {"group": 1.0, "member": 1.0})
    refused = report.rpc([replace(RPC, refused=1)])
    near = report.peers([runs[0], replace(runs[1], outcome=replace(OUTCOME, settled_s=0.9))])
    paused = report.peers([replace(runs[0], outcome=replace(OUTCOME, paused=1)), runs[1]])
    for worse in ({"core": slow}, {"rpc": refused}, {"ratios": report.ratios(near)}, {"peers": paused}):
        assert list(report.bounds({**result, **worse}).values()).count(False) == 1
    assert report.bounds({}) == {}


def test_the_tables_show_every_peer_and_the_json_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Piped, tables have no escape sequences; a part that was not measured has no table."""
    found = report.peers([PeerRun("cohort", "kill", OUTCOME), PeerRun("classic, range", "kill", OUTCOME)])
    result = {"rpc": report.rpc([RPC]), "peers": found, "ratios": report.ratios(found)}
    result["bounds"] = report.bounds(result)
    report.print_tables(result)
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "6,000 (6,000 to 6,000)" in printed
    assert "classic, range" in printed
    assert "pure core" not in printed
    assert "\n" not in as_json(result)
    assert json.loads(as_json(result))["rpc"]["heartbeats_per_server_cpu_s"]["median"] == 6000
