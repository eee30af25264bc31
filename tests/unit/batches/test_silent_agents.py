"""Agents that leave tasks without an answer: who is left alone, for how long, and what makes up for it."""

from __future__ import annotations

from sparkcohort.runtime.batches.silent_agents import (
    FIRST_MS,
    MOST_MS,
    Suspects,
    alive,
    present,
    served,
    silent,
    suspected,
)


def test_a_thawed_agent_is_asked_again_at_its_first_heartbeat() -> None:
    """One that was frozen sends none; after a while it is tried again in any case."""
    known = silent({}, "m", 0)
    assert suspected(known, "m", 0) and suspected(known, "m", FIRST_MS - 1)
    assert not suspected(known, "m", FIRST_MS) and not suspected(known, "n", 0)
    assert not suspected(alive(known, "m"), "m", 1)


def test_tasks_that_waited_together_are_one_time() -> None:
    """Four tasks of one executor give their agent up within a moment: that says no more than one."""
    known: Suspects = {}
    for now in range(4):
        known = silent(known, "m", now)
    assert known["m"].times == 1


def test_a_deaf_agent_costs_ever_fewer_tasks_their_time() -> None:
    """It sends heartbeats all the time: an hour with a task every second sends few of them to it."""
    known: Suspects = {}
    asked = 0
    for now in range(0, 3_600_000, 1_000):
        known = alive(known, "m")
        if not suspected(known, "m", now):
            asked += 1
            known = silent(known, "m", now)
    assert asked <= 20
    assert suspected(known, "m", known["m"].until_ms - 1) and known["m"].until_ms <= 3_600_000 + MOST_MS


def test_service_makes_up_for_all() -> None:
    """Once it has served a task it is like any other; not by a conversation that had begun before."""
    known = silent(alive(silent({}, "m", 0), "m"), "m", 10)
    assert known["m"].times == 2
    assert served(known, "m", 20) == known
    assert served(known, "m", known["m"].until_ms) == {}
    assert served({}, "m", 0) == {}


def test_who_is_gone_is_forgotten() -> None:
    """What is remembered is bounded by the group."""
    known = silent(silent({}, "m", 0), "n", 0)
    assert present(known, {"n": 1}).keys() == {"n"}
    assert present(known, {"m": 1, "n": 1, "o": 1}) is known
