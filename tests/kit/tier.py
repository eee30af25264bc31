"""The two tiers of the suite: ``make test`` proves a change, ``make test-all`` the rest.

A test of the second tier has ``@pytest.mark.thorough("reason")`` at its head, or at the head of its file as ``pytestmark``.
A test of the first that can do more takes the numbers of its tier: ``examples = of_tier(quick=50, thorough=500)``.
"""

from __future__ import annotations

import os
from typing import TypeVar

TIER = "COHORT_TIER"
"""The environment variable that says which: ``test`` (the default) or ``all``; pytest's ``--tier`` sets it."""

T = TypeVar("T")


def is_thorough() -> bool:
    """Whether this is a run of ``make test-all``."""
    return os.environ.get(TIER, "test") == "all"


def of_tier(*, quick: T, thorough: T) -> T:
    """The value for the tier that runs."""
    return thorough if is_thorough() else quick
