"""The driver's membership as stories: each transcript is a script with the expected actions in words.

A line that begins with ``>`` is what happens, the lines below it are what follows (after ``>>`` they are left out).
To write down what follows now:
``COHORT_REWRITE_TRANSCRIPTS=1 pytest tests/unit/kafka/test_membership_transcripts.py``, then read the difference.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from sparkcohort.runtime.kafka import membership_state as s
from tests.kit.membership_world import DENIED, REFUSED, MembershipWorld, in_state, parts

FOLDER = Path(__file__).parents[2] / "transcripts" / "membership"


def run(world: MembershipWorld, command: str) -> None:
    """Do what a line of a script says."""
    verb, *words = command.split()
    match verb, words:
        case "topics", counts:
            world.set_topics(**{name: int(count) for name, _, count in (word.partition("=") for word in counts)})
        case "after", [seconds]:
            world.after(int(float(seconds) * 1000))
        case "assigned", names:
            world.feed(s.AssignmentReceived(parts(*names)))
        case "revoked", []:
            world.feed(s.RevocationReceived())
        case "fenced", []:
            world.feed(s.Fenced("FENCED_INSTANCE_ID"))
        case "run", [number, "reserves"]:
            world.other_run(int(number))
        case "reserve", []:
            world.reserve()
        case "commit" | "reset", [partition, offset]:
            world.commit({tp: int(offset) for tp in parts(partition)}, reset=verb == "reset")
        case "fetch", names:
            world.fetch(parts(*names))
        case "away" | "back", []:
            world.away = verb == "away"
        case "hold", []:
            world.holding = True
        case "let-go", []:
            world.let_go()
        case "deleted", names:
            world.deleted = parts(*names)
        case "denied", []:
            world.feed(s.StepFailed(DENIED))
        case "login-refused", []:
            world.feed(s.LoginFailed(REFUSED))
        case "client-fails", []:
            world.feed(s.ClientFailed())
        case "join", []:
            world.feed(s.Join())
        case "others", []:
            world.others = True
        case "close", []:
            world.feed(s.Close())
        case "state", []:
            world.log.append(in_state(world.membership))
        case _:
            raise ValueError(f"not a command: {command}")


def play(script: str) -> str:
    """The script again, with what follows now below each command; what is repeated stands there once, with a number."""
    world = MembershipWorld(standalone=script.startswith("# Standalone"))
    written: list[str] = []
    for line in script.splitlines():
        if not line.startswith(">"):
            if line.startswith("#") or not line:
                written.append(line)
            continue
        world.log.clear()
        run(world, line.strip("> "))
        shown = [(text, len(list(same))) for text, same in itertools.groupby(world.log)]
        log = [f"    {text}" + (f" ({count} times)" if count > 1 else "") for text, count in shown]
        written += [line] if line.startswith(">>") else [line, *log]
    return "\n".join(written) + "\n"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    """Each story goes as it is written down."""
    expected = path.read_text()
    played = play(expected)
    if os.environ.get("COHORT_REWRITE_TRANSCRIPTS"):
        path.write_text(played)
    assert played == expected or os.environ.get("COHORT_REWRITE_TRANSCRIPTS")
