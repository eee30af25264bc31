"""pytest-xdist's scheduling by groups, with the mends that its release 3.8.0 is without."""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling
from xdist.workermanage import WorkerController


class GroupScheduling(LoadGroupScheduling):  # type: ignore[misc]  # pytest-xdist shows no types
    """Groups whose tests all run, each once, also when a worker dies."""

    def remove_node(self, node: WorkerController) -> str | None:
        """Put what the worker has left back on the queue, without the test that it died of, and return that test."""
        units = self.assigned_work[node]
        crashed = next((test for unit in units.values() for test, done in unit.items() if not done), None)
        for unit in units.values():
            if crashed in unit:
                unit[crashed] = True  # it has its report, and would end the next worker too (pytest-xdist#1371)
        # A unit that is through is an empty command, after which a worker may wait for good (pytest-xdist#1378).
        self.assigned_work[node] = {name: unit for name, unit in units.items() if not all(unit.values())}
        super().remove_node(node)
        return crashed

    def schedule(self) -> None:
        """Give a worker that replaces another two units: it starts a test only when it knows the next (pytest-xdist#1327)."""
        replacing = self.collection is not None
        super().schedule()
        if replacing:
            super().schedule()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GroupScheduling | None:
    """What gives the workers their tests where these come in groups."""
    return GroupScheduling(config, log) if config.getoption("dist") == "loadgroup" else None
