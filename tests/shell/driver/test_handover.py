"""Two drivers in processes of their own, handing a group over through a real broker; either may die at any step.

``make handover ROUNDS=50`` plays more of the drawn rounds.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kit.broker import Broker
from tests.kit.handover_rounds import HANDED_OVER, KILLED, NEW, OLD, draw, play_round

ROUNDS = int(os.environ.get("COHORT_HANDOVER_ROUNDS", "4"))


@pytest.mark.timeout(180)
def test_nothing_is_lost_or_doubled(broker: Broker, tmp_path: Path, topic: str) -> None:
    """The old one ends with its sentence; a plain sink has each record once."""
    done = play_round(broker, tmp_path, topic)
    assert (done.doubled, done.old_status) == (0, HANDED_OVER)
    error = (tmp_path / "old" / "error").read_text()
    assert error.startswith("HANDED_OVER: group")
    assert "ended on purpose" in error
    log = (tmp_path / "new" / "log").read_text()
    assert "the driver before has committed its last batch and stopped" in log
    assert "ends that one" not in log, "nobody is fenced"


def test_fifty_rounds_have_every_step_of_both_sides() -> None:
    """What `make handover` plays; within the first rounds, each side is killed."""
    drawn = [(side, point.partition(":")[0]) for side, point in map(draw, range(50))]
    assert set(drawn) == {*(("old", step) for step in OLD), *(("new", step) for step in NEW)}
    assert {side for side, _ in drawn[:4]} == {"old", "new"}


@pytest.mark.thorough("rounds of hand-over")
@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_killed_at_a_drawn_step(broker: Broker, tmp_path: Path, topic: str, seed: int) -> None:
    """Whichever side dies: nothing is lost; doubled is the last batch of an old one that was killed, and no other."""
    side, point = draw(seed)
    done = play_round(broker, tmp_path, topic, side, point)
    print(done)  # noqa: T201  for whoever runs many
    if side == "new" or done.old_status != KILLED:
        assert done.doubled == 0
