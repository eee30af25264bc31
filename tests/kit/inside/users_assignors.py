"""A user's own assignor, as an application of the end-to-end tests finds it; see ``tests.kit.faults``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkcohort.assignors import MemberSubscription, Partition, Racks


class Stairs:
    """Of each topic one share to the first member, two to the second and so on, as no built-in one does.

    It raises while a fault at the place ``assignor`` is armed.
    """

    name = "stairs"
    cooperative = False

    def assign(
        self,
        topics: Mapping[str, int],
        members: Mapping[str, MemberSubscription],
        racks: Racks,
    ) -> dict[str, list[Partition]]:
        """Divide the partitions."""
        if (Path(os.environ["COHORT_FAULTS"]) / "assignor").exists():
            raise RuntimeError("told to fail")
        given: dict[str, list[Partition]] = {member: [] for member in members}
        for topic, count in topics.items():
            takers = sorted(member for member, said in members.items() if topic in said.topics)
            steps = [member for place, member in enumerate(takers) for _ in range(place + 1)]
            for number in range(count if steps else 0):
                given[steps[number % len(steps)]].append((topic, number))
        return given
