"""Negative controls: each breaks one thing in the core, and the simulator has to find it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from sparkcohort.assignors import cooperative_sticky
from sparkcohort.assignors.solver import revocation
from sparkcohort.runtime.group import offsets, partition_ownership
from sparkcohort.runtime.group import records as r
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.partitions import TopicPartition
from tests.simulator.coordinator import Coordinator


@dataclass(frozen=True)
class Break:
    """What is broken, the laws of which one must be found broken, and the patches that break it."""

    what: str
    laws: frozenset[str]
    patches: Callable[[], list[Any]]

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The core, broken."""
        with ExitStack() as stack:
            for broken in self.patches():
                stack.enter_context(broken)
            yield


def _skip_fencing() -> list[Any]:
    """Every partition of every member's commit is accepted."""

    def judge(_group: Any, request: Any) -> Any:
        return tuple(offsets.Judged(TopicPartition(at.topic, at.partition), ErrorCode.NONE) for at in request.offsets)

    return [patch.object(offsets, "judge", judge)]


def _give_early() -> list[Any]:
    """A partition that moves is given to its new owner in the round in which it is revoked."""

    def at_once(target: Any, _ownership: Any) -> Any:
        return target

    def nobody(_group: Any) -> dict[Any, str]:
        return {}

    return [
        patch.object(revocation, "adjust_assignment", at_once),
        patch.object(cooperative_sticky, "adjust_assignment", at_once),
        patch.object(partition_ownership, "owners", nobody),
    ]


def lower_generation(every: int, by: int) -> list[Any]:
    """Every so manieth generation is lower than it was decided to be."""
    begin = r.GenerationStarted._change

    def lowered(record: Any, group: Any) -> Any:
        down = record.generation - by if record.generation % every == 0 else record.generation
        return begin(replace(record, generation=down), group)

    return [patch.object(r.GenerationStarted, "_change", lowered)]


def _lose_commit() -> list[Any]:
    """A commit is answered and not kept in the journal."""
    keep = Coordinator.keep

    def forgetful(self: Coordinator, records: Any) -> None:
        keep(self, tuple(x for x in records if not isinstance(x, r.OffsetsCommitted)))

    return [patch.object(Coordinator, "keep", forgetful)]


BREAKS = {
    "skip-fencing": Break("commits are not fenced", frozenset({"I5", "I6"}), _skip_fencing),
    "give-early": Break("a revoked partition is given away early", frozenset({"I1"}), _give_early),
    "lower-generation": Break("a generation is lowered", frozenset({"I4"}), partial(lower_generation, 7, 2)),
    "lose-commit": Break("a staged commit is lost", frozenset({"I6", "replay"}), _lose_commit),
}
