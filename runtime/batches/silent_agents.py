"""Agents that have left a task without an answer: for how long no task is sent to them.

A heartbeat shows that an agent which was frozen has thawed, but one that is deaf to its tasks may send heartbeats all the
time: it lifts the first suspicion only.  Who is silent again, having served nobody meanwhile, is left alone for twice as
long each time: a task that waits for it in vain waits for ``agent.timeout.ms``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

FIRST_MS: Final = 5_000
MOST_MS: Final = 300_000
_MOST_TIMES: Final = 16


@dataclass(frozen=True, slots=True)
class Suspicion:
    """How many times in a row a member has left tasks without an answer, and until when it isn't asked."""

    times: int
    until_ms: int


Suspects = Mapping[str, Suspicion]


def suspected(suspects: Suspects, member: str, now_ms: int) -> bool:
    """Whether a member is not to be asked now."""
    found = suspects.get(member)
    return found is not None and now_ms < found.until_ms


def silent(suspects: Suspects, member: str, now_ms: int) -> Suspects:
    """A task tells that the member left it without an answer; those that waited together are one time."""
    if suspected(suspects, member, now_ms):
        return suspects
    times = min(suspects[member].times + 1, _MOST_TIMES) if member in suspects else 1
    return {**suspects, member: Suspicion(times, now_ms + min(FIRST_MS << (times - 1), MOST_MS))}


def alive(suspects: Suspects, member: str) -> Suspects:
    """The member has sent a heartbeat."""
    found = suspects.get(member)
    if found is None or found.times > 1 or not found.until_ms:
        return suspects
    return {**suspects, member: replace(found, until_ms=0)}


def served(suspects: Suspects, member: str, now_ms: int) -> Suspects:
    """A task got records from the member; while it is suspected that is of a conversation begun before."""
    if member not in suspects or suspected(suspects, member, now_ms):
        return suspects
    return {name: suspicion for name, suspicion in suspects.items() if name != member}


def present(suspects: Suspects, members: Mapping[str, object]) -> Suspects:
    """Those that are still in the group."""
    return (
        suspects
        if suspects.keys() <= members.keys()
        else {name: suspects[name] for name in suspects if name in members}
    )
