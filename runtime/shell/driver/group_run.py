"""The coordinator of one run with its port, and what it knows of the members; ``Session`` begins it and ends it."""

from __future__ import annotations

import logging
import math
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sparkcohort.assignors import Assignor
from sparkcohort.runtime.batches.claims import Slot
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.leader import reachability
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.coordinator import reports
from sparkcohort.runtime.shell.coordinator.coordinator import Coordinator
from sparkcohort.runtime.shell.coordinator.group_journal import Predecessor, RunIdentity
from sparkcohort.runtime.shell.coordinator.group_settings import GroupSettings
from sparkcohort.runtime.shell.coordinator.plan_registry import PlanRegistry
from sparkcohort.runtime.shell.coordinator.reachability_watch import ReachabilityWatch
from sparkcohort.runtime.shell.coordinator.service import Service
from sparkcohort.runtime.shell.driver.fail_over import keep_journal, predecessor
from sparkcohort.runtime.shell.driver.group_commits import GroupCommits
from sparkcohort.runtime.shell.driver.log_ends import LogEnds
from sparkcohort.runtime.shell.driver.query_progress import QueryProgress
from sparkcohort.runtime.shell.driver.run_status import RunStatus
from sparkcohort.runtime.shell.kafka.fetch.first_answers import probe_leaders
from sparkcohort.runtime.shell.kafka.fetch.range_reader import RangeReader
from sparkcohort.runtime.shell.kafka.fetch.relay import Relay
from sparkcohort.runtime.shell.options.parse import SourceOptions
from sparkcohort.runtime.shell.rpc import connection_file
from sparkcohort.runtime.shell.rpc.endpoint import Run
from sparkcohort.runtime.shell.rpc.flight import GroupServer
from sparkcohort.runtime.shell.rpc.shutdown import Ending, Order
from sparkcohort.runtime.text import counted

log = logging.getLogger("sparkcohort.session")

Offsets = Mapping[TopicPartition, int]
STOP_S = 1.0
LOOK_S = 10.0
"""How often a run looks for its connection file, and tries to write it where it can't be written."""
RELAY_PATIENCE_MS = 2_000
"""How long the driver waits for a leader on behalf of a task, which asks again."""


class GroupRun:
    """The executors' group of one query, and how tasks reach it."""

    endpoint: Run  # from the start on

    def __init__(
        self,
        options: SourceOptions,
        assignors: Mapping[str, Assignor],
        log_ends: LogEnds,
        commits: GroupCommits,
        plans: PlanRegistry,
        progress: QueryProgress,
        ending: Ending,
        take_overs: Callable[[], Mapping[str, int]],
    ) -> None:
        """Nothing runs yet; goes on with the group of the former run in this application, if there is one."""
        self._options, self._log_ends, self._plans = options, log_ends, plans
        self._former = former = predecessor(options)
        settings = _settings(options, tuple(assignors), former, commits.membership.run_epoch.first_generation)
        self.coordinator = coordinator = Coordinator(
            settings,
            log_ends.topics,
            options.subscription.partitions_by_topic(),
            assignors=assignors,
            racks=log_ends.racks,
        )
        self._abilities = ReachabilityWatch(
            partial(probe_leaders, options.kafka), coordinator.members, coordinator.trigger
        )
        coordinator.leadership.barred = self._abilities.barred
        self._relay = Relay(partial(_relay_reader, options), log_ends.doubt)
        self._ending, self._take_overs = ending, take_overs
        self._service = Service(
            coordinator,
            plans,
            failure=commits.failure,
            status=self.status,
            on_recreated=log_ends.doubt,
            abilities=self._abilities,
            on_query=progress.serves,
            on_batch=progress.batch_committed,
            relay=lambda body: self._relay.answer(body, {*self.announced, *log_ends.snapshot().partitions}),
        )
        self._status = RunStatus(
            options, coordinator, log_ends, commits, plans, progress, self._service, self._abilities
        )
        self.announced: Offsets = {}
        """The end of the batch in flight."""
        self.page = ""
        """The address of the live page; "" without one."""
        self._file: Path | None = None  # the connection file; None where it can't be written
        self._look_at = 0.0  # when to look for it again; never after the end

    # --- life ----------------------------------------------------------------------------------------

    def start(self, may_run_again: Callable[[], bool]) -> None:
        """Run until ``ending`` closes it.  Raises CohortError: the port is taken, the query is ending.

        ``may_run_again``: whether this query may be started again in this application, and go on with its group.
        """
        coordinator, ending = self.coordinator, self._ending
        ending.add(Order.AGENTS, lambda: coordinator.stop(for_good=not may_run_again()))
        ending.add(Order.INSIDE, self._status.close)
        self._status.start()
        coordinator.start(self._former.group if self._former else None)
        self._log_ends.on_change(coordinator.topics_changed)
        coordinator.topics_changed()  # what changed since it started
        ending.add(Order.JOURNAL, lambda: coordinator.close_journal(keep=may_run_again()))
        self._open_port()
        options = self._options
        if options.metrics_port is not None:
            from sparkcohort.runtime.shell.driver.metrics import MetricsEndpoint  # noqa: PLC0415  with Prometheus' client

            metrics = MetricsEndpoint(
                options.metrics_address,
                options.metrics_port,
                self.status,
                options.metrics_partitions,
                partial(reports.rebalance_details, coordinator.history),
            )
            ending.add(Order.PORTS, metrics.close)
            metrics.start()
            self.page = metrics.page
        ending.open(Order.SECRETS, lambda: self._write_file(is_again=False), lambda _: self._remove_file())
        log.info(
            "group %s: coordinator run %s%s on port %d, instance id %s, first generation %d",
            options.group_id,
            self.endpoint.run_id,
            f", taken over with {counted(len(coordinator.members()), 'member')}," if self._former else "",
            self.endpoint.port,
            options.group_instance_id,
            coordinator.settings.first_generation,
        )

    def keep_connection_file(self) -> None:
        """Write it again where it is missing: its disk was full, or somebody has cleaned the folder."""
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_S
        if self._file is None or not os.access(self._file, os.F_OK):
            self._write_file(is_again=True)

    def _write_file(self, *, is_again: bool) -> None:
        options = self._options
        self._file = connection_file.write(
            options.group_id, options.group_instance_id, self.endpoint, self.page, is_again=is_again
        )

    def _remove_file(self) -> None:
        self._look_at = math.inf
        if self._file is not None:
            self._file.unlink(missing_ok=True)

    def _open_port(self) -> None:
        options, coordinator, service = self._options, self.coordinator, self._service
        former = self._former.identity if self._former else None
        from sparkcohort.runtime.shell.rpc.certificates import new_authority  # noqa: PLC0415  slow to come: only when it is due

        authority = former.authority if former else new_authority()
        port = former.port if former else options.coordinator_port
        if former:  # its members know the port: from their first request on this run's journal has to be in use, not the last one's
            keep_journal(options, coordinator, former)
        try:
            server = self._ending.open(
                Order.PORTS,
                lambda: GroupServer(authority, service.handlers(), service.subscribe, service.unsubscribe, port=port),
                lambda opened: opened.stop(STOP_S),
            )
        except OSError as error:
            remedy = "give the option coordinator.port a free port, or leave it out for any free one"
            if former:
                remedy = "the run before had it, and another process was faster: start the query again"
            raise CohortError(f"port {port} cannot be opened for the group coordinator: {error}; {remedy}") from None
        run_id, names = coordinator.settings.run_id, coordinator.settings.assignors
        self.endpoint = Run(run_id, options.coordinator_host or None, server.port, authority.client, names)
        if not former:
            keep_journal(options, coordinator, RunIdentity(run_id, server.port, authority))

    # --- what the reader asks --------------------------------------------------------------------------

    def owners(self) -> Mapping[TopicPartition, str]:
        """Which agent owns which partition now, and can fetch it."""
        return reachability.able_owners(self._barred(), self.coordinator.owners())

    def cores(self) -> Mapping[str, int]:
        """How many tasks each member's executor runs at once; one that is cut off and owns nothing that it can fetch has none."""
        idle = self._idle()
        return {name: info.cores for name, info in self.coordinator.members().items() if name not in idle}

    def idle_cores(self) -> int:
        """How many tasks run at once where nothing can be read: that many slots had better be empty."""
        members = self.coordinator.members()
        return sum(members[name].cores for name in self._idle() & members.keys())

    def isolated_ends(self, start: Offsets, ends: Offsets) -> Offsets:
        """The log ends as far as a batch after ``start`` may go without waiting for a slow leader."""
        barred = self._barred()
        owners = self.coordinator.owners() if barred else {}
        return self._service.isolation.limited(
            ends, start, owners.keys() - reachability.able_owners(barred, owners).keys()
        )

    def register(self, slots: Sequence[Slot], ids: Mapping[str, str], *, last: bool) -> str:
        """Make the slots claimable, offsets in topics of these ids; returns the plan's id.

        ``last``: the query ends with this batch, so no agent is started for it.
        """
        plan_id = secrets.token_hex(8)
        self._plans.register(plan_id, slots, ids, last=last)
        return plan_id

    def silent_agents(self) -> frozenset[str]:
        """The addresses of agents that have lately left a task without an answer."""
        return self._service.silent()

    def status(self) -> dict[str, Any]:
        """The status of the run in plain values; nothing once it is ending."""
        if self._ending.has_begun:
            return {}
        return self._status(self.announced, self._take_overs())

    def seconds_behind(self) -> float | None:
        """The age of the oldest record that waits; 0 where none does, None while an owner has not told."""
        return self._status.seconds_behind()

    def _barred(self) -> reachability.Barred:
        self._abilities.lift_expired()
        return self._abilities.barred()

    def _idle(self) -> frozenset[str]:
        """Members that are barred from something and own nothing that they can fetch."""
        barred = self._barred()
        return frozenset(barred) - frozenset(self.owners().values()) if barred else frozenset()


def _settings(
    options: SourceOptions, assignors: tuple[str, ...], former: Predecessor | None, first_generation: int
) -> GroupSettings:
    return GroupSettings(
        group_id=options.group_id,
        run_id=former.identity.run_id if former else secrets.token_hex(6),
        first_generation=first_generation,
        session_timeout_ms=options.session_timeout_ms,
        heartbeat_interval_ms=options.heartbeat_interval_ms,
        rebalance_timeout_ms=options.rebalance_timeout_ms,
        assignors=assignors,
        scheduled_rebalance_max_delay_ms=options.scheduled_rebalance_max_delay_ms,
        load_balance=(options.load_balance_threshold, options.load_balance_after_ms, options.load_balance_max_moves),
    )


def _relay_reader(options: SourceOptions) -> RangeReader:
    """A reader for what tasks can't read by themselves."""
    return RangeReader(
        options.kafka,
        columns=options.columns,
        fail_on_data_loss=options.fail_on_data_loss,
        poll_timeout_ms=RELAY_PATIENCE_MS,
        on_data_loss=log.warning,
    )
