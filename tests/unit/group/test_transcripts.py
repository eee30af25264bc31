"""Rebalances as stories: each transcript is a script with the expected answers in words.

A line that begins with ``>`` is a command, the lines below it are what follows (after ``>>`` they are left out).
To write down what follows now:
``COHORT_REWRITE_TRANSCRIPTS=1 pytest tests/unit/group/test_transcripts.py``, then read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from sparkcohort.runtime import group as g
from sparkcohort.runtime.group.member_state import Member, Resubscribe, RevocationDone, Stop
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.protocol.reasons import requested
from tests.kit.group_world import World, names, static_restart

FOLDER = Path(__file__).parents[2] / "transcripts"


def run(world: World, command: str) -> None:
    """Do what a line of a script says."""
    command, _, until = command.partition(" until ")
    verb, *words = command.split()
    match verb, words:
        case "start" | "replace", [name, *topics] if any(t.startswith("using=") for t in topics):
            if verb == "replace":
                stop(world, name)
            using = next(t for t in topics if t.startswith("using="))
            node = world.start(name, tuple(t for t in topics if t != using))
            config = replace(node.member.config, assignors=tuple(using[6:].split(",")))
            node.member = Member(config)
        case "start", [name, *topics]:
            static = [t for t in topics if t.startswith("as=")]
            wanted = tuple(t for t in topics if t not in static)
            world.start(name, wanted, static[0][3:] if static else None)
        case "restart", [name]:
            static_restart(world, world.node(name))
        case "stop", [name]:
            world.member_step(world.node(name), Stop("stopped"))
        case "subscribe", [name, *topics]:
            world.member_step(world.node(name), Resubscribe(tuple(topics)))
        case "storm", [seconds, topic]:
            storm(world, int(seconds), topic)
        case "kill", [name]:
            world.kill(world.node(name))
        case "hold", [name]:
            world.node(name).holding = True
        case "let-go", [name]:
            world.node(name).holding = False
            world.node(name).inbox.append(RevocationDone())
        case "freeze", [name]:
            world.node(name).frozen = True
        case "thaw", [name]:
            world.node(name).frozen = False
        case "commit", [name, partition, offset]:
            place, _, since = partition.partition("@")
            topic, _, number = place.rpartition("-")
            tp = TopicPartition(topic, int(number))
            world.commit(world.node(name), tp, int(offset), int(since) if since else None)
        case "delay", [seconds]:
            world.max_delay_ms = int(float(seconds) * 1000)
        case "topics", counts:
            world.change_topics({name: int(count) for name, _, count in (word.partition("=") for word in counts)})
        case "trigger", reason:
            world.group_step(p.Trigger(requested(" ".join(reason))))
        case "unload", reason:
            world.group_step(p.Unload(" ".join(reason)))
        case "crash-on", [record]:
            world.crash_on = record
        case "after", [seconds]:
            world.advance(int(float(seconds) * 1000))
        case _:
            raise ValueError(f"not a command: {command}")
    world.drain(until)


def stop(world: World, name: str) -> None:
    """A member gives everything up and leaves."""
    world.member_step(world.node(name), Stop("stopped"))
    world.drain()


def storm(world: World, seconds: int, topic: str) -> None:
    """Every second a member comes, and from the fourth on the oldest goes."""
    for number in range(seconds):
        world.start(f"m{number}", (topic,))
        world.drain()
        if number >= 3:
            stop(world, f"m{number - 3}")
        world.advance(1_000)


def owners(world: World) -> list[str]:
    """Who owns what, each partition with its assignment generation."""
    return [f"{m} owns {names(g.owned(world.group, m))}" for m in world.group.members if g.owned(world.group, m)]


def play(script: str) -> str:
    """The script again, with what follows now below each command."""
    world = World({"orders": 4})
    written: list[str] = []
    for line in script.splitlines():
        if not line.startswith(">"):
            if line.startswith("#") or not line:
                written.append(line)
            continue
        world.log.clear()
        command = line.strip("> ")
        if command == "owners":
            world.log += owners(world)
        elif command == "committed":
            world.log += [f"{tp.topic}-{tp.partition} {at.offset}" for tp, at in sorted(world.group.committed.items())]
        elif command == "settled":
            world.check_settled()
        elif command == "offsets":
            world.log += [f"{tp.topic}-{tp.partition}={at.offset}" for tp, at in sorted(world.group.committed.items())]
        elif command == "group":
            group = world.group
            world.log.append(f"{group.state}, generation {group.generation}, {group.protocol_name or 'no protocol'}")
        else:
            run(world, command)
        written += [line] if line.startswith(">>") else [line, *(f"    {said}" for said in world.log)]
    return "\n".join(written) + "\n"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    """Each story goes as it is written down."""
    expected = path.read_text()
    played = play(expected)
    if os.environ.get("COHORT_REWRITE_TRANSCRIPTS"):
        path.write_text(played)
    assert played == expected or os.environ.get("COHORT_REWRITE_TRANSCRIPTS")
