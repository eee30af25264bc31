"""Waiting for a condition with a deadline, the only kind of waiting in these tests.

Usage::

    value = wait_until(lambda: group.members, 10, "a member in the group")
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def wait_until(predicate: Callable[[], T | None], timeout_s: float, what: str, *, every_s: float = 0.05) -> T:
    """Poll ``predicate`` until it is true and return its value.

    The predicate is asked at least once, and once more at the deadline.  Raises AssertionError naming ``what`` and the
    last value seen when ``timeout_s`` seconds have passed.  An exception of the predicate goes through.
    """
    nobody = threading.Event()
    deadline = time.monotonic() + timeout_s
    while True:
        value = predicate()
        if value:
            return value
        left = deadline - time.monotonic()
        if left <= 0:
            raise AssertionError(f"waited {timeout_s} s for {what}; last seen: {value!r}")
        nobody.wait(min(every_s, left))


def wait_for_none(left: Callable[[], Sequence[object]], timeout_s: float, what: str, *, every_s: float = 0.05) -> None:
    """Poll ``left`` until it returns nothing; raises AssertionError naming ``what`` and what is left."""
    seen: Sequence[object] = ()

    def none() -> bool:
        nonlocal seen
        seen = left()
        return not seen

    try:
        wait_until(none, timeout_s, what, every_s=every_s)
    except AssertionError:
        raise AssertionError(f"waited {timeout_s} s for {what}; left: {seen!r}") from None


def hold_for(predicate: Callable[[], object], duration_s: float, what: str, *, every_s: float = 0.05) -> None:
    """Check that ``predicate`` stays true for ``duration_s`` seconds; raises AssertionError naming ``what``."""
    nobody = threading.Event()
    deadline = time.monotonic() + duration_s
    while True:
        value = predicate()
        if not value:
            raise AssertionError(f"did not hold for {duration_s} s: {what}; seen: {value!r}")
        left = deadline - time.monotonic()
        if left <= 0:
            return
        nobody.wait(min(every_s, left))
