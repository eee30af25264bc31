"""The status of a run, put together from what the driver's parts know; for the command, the metrics and ``describe``."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Any, Final

from sparkcohort.runtime.batches.snapshot import Snapshot
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.calls import AgentFigures
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.coordinator.coordinator import Coordinator
from sparkcohort.runtime.shell.coordinator.plan_registry import PlanRegistry
from sparkcohort.runtime.shell.coordinator.reachability_watch import ReachabilityWatch
from sparkcohort.runtime.shell.coordinator.service import Service
from sparkcohort.runtime.shell.driver import status
from sparkcohort.runtime.shell.driver.flow_meter import FlowMeter
from sparkcohort.runtime.shell.driver.group_commits import GroupCommits
from sparkcohort.runtime.shell.driver.log_ends import LogEnds
from sparkcohort.runtime.shell.driver.log_lookup import LogLookup
from sparkcohort.runtime.shell.driver.problems import ProblemWatch
from sparkcohort.runtime.shell.driver.query_progress import QueryProgress
from sparkcohort.runtime.shell.options.source_options import SourceOptions
from sparkcohort.runtime.shell.rpc.resources import ProcessFigures, process_figures
from sparkcohort.runtime.values.formats import reasons

REFRESH_S: Final = 0.2


class RunStatus:
    """Builds the status when it is called, from any thread."""

    def __init__(
        self,
        options: SourceOptions,
        coordinator: Coordinator,
        log_ends: LogEnds,
        commits: GroupCommits,
        plans: PlanRegistry,
        progress: QueryProgress,
        service: Service,
        abilities: ReachabilityWatch,
    ) -> None:
        """Nothing is looked up before ``start``."""
        self._coordinator, self._abilities = coordinator, abilities
        self._log_ends, self._commits, self._plans, self._progress = log_ends, commits, plans, progress
        self._instance_id, self._service = options.group_instance_id, service
        self._reasons = {reason for each in options.columns for reason in reasons(each.decoding.format)}
        self._flow, self._problems = FlowMeter(), ProblemWatch()
        committed_only = options.kafka.get("isolation.level") == "read_committed"
        self._lookup = LogLookup(log_ends, committed_only=committed_only)

    def start(self) -> None:
        """Look for open transactions, where these hold the query up."""
        self._lookup.start()

    def close(self) -> None:
        """Look nothing up any more."""
        self._lookup.close()

    def __call__(
        self,
        announced: Mapping[TopicPartition, int],
        take_overs: Mapping[str, int],
    ) -> dict[str, Any]:
        """The status; ``announced`` is the end of the batch in flight.

        ``take_overs`` counts the drivers that gave way to this one, by how they did.
        """
        agents = self._service.agents()
        committed, snapshot = self._commits.committed(), self._ends_now()
        self._lookup.want()
        ages_ms = self._service.ages.ages_ms(committed, snapshot.ends, snapshot.ids)
        starts, transactions = self._lookup.starts(), self._lookup.open_transactions()
        membership = self._commits.membership
        document = status.build(
            self._coordinator,
            self._plans,
            status.LogView(committed, announced, snapshot, starts, ages_ms, transactions),
            instance_id=self._instance_id,
            driver=status.DriverFigures(
                self._commits.totals(),
                membership.foreign_members(),
                self._commits.fenced(),
                take_overs,
                _processes(self._coordinator, agents),
                self._progress.as_value(),
                _throttled(self._coordinator, agents),
                self._progress.writes,
            ),
            late=self._service.isolation.reasons(),
            cut_off=self._abilities.described(),
            reasons=self._reasons,
        )
        return status.with_problems(document, self._flow, self._problems, time.time())

    def seconds_behind(self) -> float | None:
        """The age of the oldest record that is not committed, by the logs' ends as last heard; None where an owner has not told."""
        snapshot = self._log_ends.snapshot()
        committed = self._commits.committed()
        ages_ms = self._service.ages.ages_ms(committed, snapshot.ends, snapshot.ids)
        is_known = bool(ages_ms) and ages_ms.keys() >= committed.keys() & snapshot.ends.keys()
        return max(ages_ms.values()) / 1000 if is_known else None

    def _ends_now(self) -> Snapshot:
        """Log ends as of now, or as last heard: a long batch must not make the lag look old."""
        try:
            return self._log_ends.refresh(REFRESH_S)
        except CohortError:
            return self._log_ends.snapshot()


def _throttled(coordinator: Coordinator, agents: Mapping[str, AgentFigures]) -> dict[str, float | None]:
    """For how long brokers have throttled each executor's agent; None where its client doesn't tell, or hasn't yet."""
    executors = {member: info.executor_id for member, info in coordinator.members().items()}
    times = {executors[member]: figures.throttled_s for member, figures in agents.items() if member in executors}
    return {**dict.fromkeys(executors.values()), **times}


def _processes(coordinator: Coordinator, agents: Mapping[str, AgentFigures]) -> dict[str, dict[str, float]]:
    """The figures of this process, and of the members' as far as they have reported theirs."""
    infos = coordinator.members()
    processes = {
        infos[member].client_id: {name: getattr(figures, name) for name in ProcessFigures._fields}
        for member, figures in agents.items()
        if member in infos
    }
    with contextlib.suppress(OSError):  # no descriptor to look with
        processes["driver"] = process_figures()._asdict()
    return processes
