"""A row of the table of scenarios (``scenarios``)."""

from __future__ import annotations

from typing import NamedTuple


class Scenario(NamedTuple):
    """One row: ``words`` say what is the same, better or other here; without a ``test`` it is nothing that a user sees."""

    suite: str
    name: str
    words: str
    test: str = ""
    beside: bool = True
