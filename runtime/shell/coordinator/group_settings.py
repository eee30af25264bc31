"""The settings of a group's coordinator."""

from __future__ import annotations

from dataclasses import dataclass

from sparkcohort.runtime.group.state import GroupConfig
from sparkcohort.runtime.group.validation import MOST_MEMBERS


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The settings of one group, fixed at its start; times in milliseconds."""

    group_id: str
    run_id: str
    first_generation: int
    session_timeout_ms: int
    heartbeat_interval_ms: int
    rebalance_timeout_ms: int
    assignors: tuple[str, ...]
    scheduled_rebalance_max_delay_ms: int = 0
    load_balance: tuple[float, int, int] = (1.2, 60_000, 5)  # threshold, after so long, moves (see ``imbalance``)

    def group_config(self) -> GroupConfig:
        """The configuration of a new group."""
        return GroupConfig(
            group_id=self.group_id,
            first_generation=self.first_generation,
            member_id_salt=self.run_id,
            max_size=MOST_MEMBERS + 1,  # and the driver's own
        )
