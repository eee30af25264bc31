"""The groups that are measured, as Kafka's side (KafkaSide.java) makes them too, and our side of the measurement.

As a program: the same commands on standard input as KafkaSide.java, and ``memory``.
"""

from __future__ import annotations

import gc
import sys
import time
import tracemalloc
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# The tree last: the installed wheel is what is measured.
sys.path.append(str(Path(__file__).resolve().parents[3]))

from sparkcohort.assignors import ASSIGNORS, MemberSubscription
from sparkcohort.runtime.leader import assignment
from sparkcohort.runtime.leader.delayed_rebalance import Round

EVERY = {"equal": 1, "unequal": 5}
"""By subscriptions, how many kinds of members there are: the n-th kind leaves out each topic whose number is n modulo so many.

All members of a Cohort group want the same topics: unequal ones are measured in the small group only.
"""
EVENTS = ("fresh", "joins", "leaves")


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement: a group of ``members`` with ``per_member`` partitions each, and what happens to it."""

    assignor: str
    members: int
    per_member: int
    topics: int
    subscriptions: str
    event: str

    @property
    def partitions(self) -> int:
        """How many there are."""
        return self.members * self.per_member

    def __str__(self) -> str:
        shape = f"{self.members}x{self.per_member}"
        return f"{self.assignor}/{self.subscriptions}/{shape}/{self.topics}/{self.event}"

    def words(self) -> str:
        """As a command's arguments."""
        numbers = f"{self.members} {self.per_member} {self.topics}"
        return f"{self.assignor} {numbers} {self.subscriptions} {self.event}"


def cell(words: str) -> Cell:
    """The inverse of ``Cell.words``."""
    assignor, members, per_member, topics, subscriptions, event = words.split()
    return Cell(assignor, int(members), int(per_member), int(topics), subscriptions, event)


def topics_of(asked: Cell) -> dict[str, int]:
    """Partitions of each topic, as evenly as can be."""
    each, more = divmod(asked.partitions, asked.topics)
    return {f"topic-{number:04}": each + (number < more) for number in range(asked.topics)}


def _wishes(asked: Cell) -> list[tuple[str, ...]]:
    """What a member wants, by its number modulo the number of kinds."""
    topics, every = list(topics_of(asked)), EVERY[asked.subscriptions]
    return [tuple(t for at, t in enumerate(topics) if every == 1 or at % every != kind) for kind in range(every)]


def group_of(asked: Cell) -> dict[str, MemberSubscription]:
    """What every member says when it joins.

    After an event: members own what the assignor gave them at first, as each of them and the coordinator know.
    """
    wishes = _wishes(asked)

    def wanted(number: int) -> tuple[str, ...]:
        return (*wishes[number % len(wishes)],)  # a tuple of its own, as from a message of its own

    members = {_name(number): MemberSubscription(wanted(number)) for number in range(asked.members)}
    if asked.event == "fresh":
        return members
    given = ASSIGNORS[asked.assignor].assign(topics_of(asked), members)
    owners = {
        name: MemberSubscription(said.topics, given[name], 1, since=dict.fromkeys(given[name], 1))
        for name, said in members.items()
    }
    if asked.event == "joins":
        return owners | {_name(asked.members): MemberSubscription(wanted(asked.members))}
    gone = _name(asked.members // 2)
    return {name: said for name, said in owners.items() if name != gone}


def _name(number: int) -> str:
    return f"member-{number:05}"


@dataclass(frozen=True, slots=True)
class Took:
    """One run: seconds, and how many partitions were assigned."""

    seconds: float
    partitions: int


def run(asked: Cell, topics: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> Took:
    """What the leader does, from every member's subscription to every member's assignment."""
    gc.collect()
    began = time.perf_counter()
    plan = assignment.plan(Round(asked.assignor, (), topics, {}, {}), members)
    took = time.perf_counter() - began
    return Took(took, sum(len(partitions) for _, partitions in plan.assignments))


def peak(asked: Cell, topics: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> int:
    """The most bytes that a run holds beside what it is given, as Python's allocator counts them."""
    gc.collect()
    tracemalloc.start()
    try:
        assignment.plan(Round(asked.assignor, (), topics, {}, {}), members)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def serve() -> None:
    """Answer commands until there are no more."""
    asked, topics, members = cell("range 1 1 1 equal fresh"), dict[str, int](), dict[str, MemberSubscription]()
    for line in sys.stdin:
        command, _, words = line.strip().partition(" ")
        if command == "prepare":
            members.clear()
            asked = cell(words)
            topics, members = topics_of(asked), group_of(asked)
            gc.collect()
            print("ready", flush=True)
        elif command == "run":
            took = run(asked, topics, members)
            print(f"took {took.seconds * 1e9:.0f} {took.partitions}", flush=True)
        else:
            print(f"peak {peak(asked, topics, members)}", flush=True)


if __name__ == "__main__":
    serve()
