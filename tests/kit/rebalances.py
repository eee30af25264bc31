"""What a coordinator has done, for tests."""

from __future__ import annotations

from sparkcohort.runtime.protocol.messages import Rebalanced
from sparkcohort.runtime.shell.coordinator.coordinator import Coordinator


def rebalances_of(coordinator: Coordinator) -> tuple[Rebalanced, ...]:
    """The last rebalances that came into force, newest last; ``history`` has all, and how they ended."""
    return tuple(entry.done for entry in coordinator.history.entries())
