"""Which ends a fault excuses: of whom, for which reason, and how often.  No clock.

A query that ends is a fault of ours unless something was done to it that ends it.  So each blow excuses one end, of the one it
was for, with the reason that it gives: a second end, another's, or one for another reason is a finding, however soon it comes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

QUERY, DRIVER = "query", "driver"
STOPPED: Final = "stopped as it was told"
"""The reason of a query that ended without an error."""
EXCUSED_S: Final = 180.0
"""So long after a fault its end may come: a batch that waits for a broker first, a driver that does not know yet."""


@dataclass(frozen=True)
class Ending:
    """The ends that a kind of fault excuses: whose, with these words in the reason, one or (of what lasts) each."""

    whose: str
    words: str = ""
    once: bool = True


class Excuses:
    """The ends that are excused now."""

    def __init__(self) -> None:
        self._open: list[tuple[Ending, float]] = []

    def allow(self, ending: Ending, over_s: float) -> None:
        """From now on; the fault is over at ``over_s``."""
        self._open.append((ending, over_s + EXCUSED_S))

    def take(self, whose: str, why: str, now_s: float) -> bool:
        """Whether this end is excused; if so, it has used its excuse up."""
        self._open = [(ending, until_s) for ending, until_s in self._open if now_s < until_s]
        fitting = [each for each in self._open if whose == each[0].whose and each[0].words in why]
        if not fitting:
            return False
        # The reason that is named says more than one that may be any.
        used = max(fitting, key=lambda each: len(each[0].words))
        if used[0].once:
            self._open.remove(used)
        if whose == DRIVER:  # its query ended with it: what was to end that has nothing left to end
            self._open = [each for each in self._open if each[0].words]
        return True
