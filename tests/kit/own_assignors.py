"""Users' own assignors that go wrong, one way each, and what is then said of them.

Every one is asked for the topic t of two partitions, which members a and b want; ``clerk`` is there and wants nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sparkcohort.assignors import MemberSubscription, Partition
from sparkcohort.assignors.api import NO_RACKS, Racks

TOPICS: Final = {"t": 2}
WANT: Final = MemberSubscription(("t",))


@dataclass(frozen=True)
class Own:
    """An assignor that does what ``how`` does with the topics and the members."""

    how: Callable[..., Any]
    name: str = "own"
    cooperative: bool = False

    def assign(
        self, topics: Mapping[str, int], members: Mapping[str, MemberSubscription], racks: Racks = NO_RACKS
    ) -> dict[str, tuple[Partition, ...]]:
        """Whatever it is."""
        given: dict[str, tuple[Partition, ...]] = self.how(topics, members)
        return given


class Speechless(Exception):
    """An error that can't say what it is."""

    def __str__(self) -> str:
        raise ValueError("no words")


def raises(error: BaseException) -> Callable[..., Any]:
    """A way of misbehaving: raise this."""

    def how(*_arguments: Any) -> None:
        raise error

    return how


FAILING: Final = Own(raises(ZeroDivisionError("nobody to share with")))
"""One that a query can name: ``tests.kit.own_assignors:FAILING``."""


def answers(answer: Any) -> Callable[..., Any]:
    """A way of misbehaving: answer this."""
    return lambda *_arguments: answer


def everything_to(member: str, members: Mapping[str, MemberSubscription]) -> dict[str, Any]:
    """Both partitions for one, nothing for the others: a good answer."""
    return {name: [("t", 0), ("t", 1)] if name == member else [] for name in members}


def spoils(topics: dict[str, int], members: dict[str, MemberSubscription]) -> dict[str, Any]:
    """A way of misbehaving: empty the arguments, so that whatever is answered could look right."""
    topics.clear()
    members.clear()
    return {}


def falls(topics: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> dict[str, Any]:
    """A way of misbehaving: run out of stack."""
    return falls(topics, members)


def answers_halfway(*_arguments: Any) -> dict[str, Any]:
    """A way of misbehaving: answer with what raises when it is looked at."""

    def partitions() -> Iterator[Partition]:
        yield "t", 0
        raise OSError("no more")

    return {"a": partitions()}


def first(topics: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> dict[str, Any]:
    """Everything to the first who wants it: a good answer."""
    return everything_to(min(name for name, said in members.items() if said.topics), members)


A, B = ("t", 0), ("t", 1)
SHAPE = "not a dict of member ids and lists of (topic, partition)"
MISBEHAVIOURS: Final[dict[str, tuple[Callable[..., Any], str]]] = {
    "raises": (raises(ZeroDivisionError("of its own making")), "own raised ZeroDivisionError: of its own making"),
    "raises what can't speak": (raises(Speechless()), "own raised Speechless"),
    "exits": (raises(SystemExit(3)), "own raised SystemExit: 3"),
    "is interrupted": (raises(KeyboardInterrupt()), "own raised KeyboardInterrupt: "),
    "runs out of stack": (falls, "own raised RecursionError: "),
    "gives one twice": (answers({"a": [A, B], "b": [B]}), "own: t-1 is given to both a and b"),
    "gives one twice to one": (answers({"a": [A, B, B], "b": []}), "own: t-1 is given to a twice"),
    "forgets one": (answers({"a": [A], "b": []}), "own: t-1 is given to nobody, though a subscribes to t"),
    "gives to a non-subscriber": (
        answers({"a": [A], "clerk": [B]}),
        "own: t-1 is given to clerk, who doesn't subscribe to t",
    ),
    "gives to a stranger": (answers({"a": [A], "z": [B]}), "own: t-1 is given to z, who is not in the group"),
    "gives what isn't there": (answers({"a": [A, B, ("t", 2)]}), "own: t-2 is given to a, but doesn't exist"),
    "returns None": (answers(None), f"own: it returned None, {SHAPE}"),
    "returns something long": (answers("x" * 99), f"own: it returned '{'x' * 58}…, {SHAPE}"),
    "names members by number": (answers({1: [A, B]}), "own: it returned 1 for a member id"),
    "gives a word": (answers({"a": "t-0"}), "own: a is given 't-0', not a list of (topic, partition)"),
    "gives None": (answers({"a": None}), "own: a is given None, not a list of (topic, partition)"),
    "counts in truths": (answers({"a": [("t", False)]}), "own: a is given ('t', False), not a (topic, partition)"),
    "spoils its arguments": (spoils, "own: t-0 is given to nobody, though a subscribes to t"),
    "breaks off": (answers_halfway, "own raised OSError: no more"),
}
"""By what it does: how it does it, and what follows "assignor " in the error."""
