"""One query's side of the driver: the real Kafka group, the log ends, the coordinator and its port, as one thing.

A session is opened by the first call that only PySpark's stream runner gets, begins its coordinator run when
the first start offsets are known, and ends with the query (SIGTERM), or with the driver's JVM.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from sparkcohort.assignors import Assignor
from sparkcohort.runtime.batches import hold
from sparkcohort.runtime.batches.claims import Slot
from sparkcohort.runtime.batches.snapshot import Snapshot
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.leader import reachability
from sparkcohort.runtime.protocol.calls import AgentFigures
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.coordinator.coordinator import Coordinator
from sparkcohort.runtime.shell.coordinator.group_journal import RunIdentity
from sparkcohort.runtime.shell.coordinator.group_settings import GroupSettings
from sparkcohort.runtime.shell.coordinator.plan_registry import PlanRegistry
from sparkcohort.runtime.shell.coordinator.reachability_watch import ReachabilityWatch
from sparkcohort.runtime.shell.coordinator.service import Service
from sparkcohort.runtime.shell.coordinator.slow_partition_watch import SlowPartitionWatch
from sparkcohort.runtime.shell.driver import async_progress, delegation_tokens, stream_process
from sparkcohort.runtime.shell.driver.data_loss import DataLoss, Losses
from sparkcohort.runtime.shell.driver.fail_over import application_goes_on, keep_journal, predecessor
from sparkcohort.runtime.shell.driver.group_commits import GroupCommits
from sparkcohort.runtime.shell.driver.handover import HandoverWatch, check_start, take_over, watch
from sparkcohort.runtime.shell.driver.log_ends import LogEnds
from sparkcohort.runtime.shell.driver.query_progress import QueryProgress
from sparkcohort.runtime.shell.driver.run_status import RunStatus
from sparkcohort.runtime.shell.kafka import epoch_ends
from sparkcohort.runtime.shell.kafka.fetch.leader_probe import probe_leaders
from sparkcohort.runtime.shell.kafka.fetch.range_reader import RangeReader
from sparkcohort.runtime.shell.kafka.fetch.relay import Relay
from sparkcohort.runtime.shell.options.parse import SourceOptions
from sparkcohort.runtime.shell.rpc import connection_file
from sparkcohort.runtime.shell.rpc.endpoint import Run
from sparkcohort.runtime.shell.rpc.flight import GroupServer
from sparkcohort.runtime.shell.rpc.log_lines import log_to_stderr
from sparkcohort.runtime.shell.rpc.shutdown import Ending, Order, ShutdownHook
from sparkcohort.runtime.shell.rpc.tls import new_authority
from sparkcohort.runtime.text import counted

log = logging.getLogger("sparkcohort.session")

Offsets = Mapping[TopicPartition, int]
STOP_S = 1.0
RELAY_PATIENCE_MS = 2_000
"""How long the driver waits for a leader on behalf of a task, which asks again."""
REFRESH_S = 1.0
COMPARE_GAP_S = 0.02
BOUNDED_S = 10.0
"""A query under AvailableNow or Once that has run for so long becomes a member."""


class Session:
    """Everything that runs in PySpark's stream runner process for one query; called from one thread."""

    def __init__(self, options: SourceOptions, assignors: Mapping[str, Assignor]) -> None:
        """``assignors`` are those of the options, by name, in order of preference."""
        self._options = options
        self._assignors = assignors
        self._lock = stream_process.InstanceLock(options.group_id, options.group_instance_id)
        self._log_ends = LogEnds(options)
        self._commits = GroupCommits(options, self._log_ends)
        self._loss = DataLoss(self._log_ends, fail=options.fail_on_data_loss)
        self._plans = plans = PlanRegistry()
        self.sizes, self.end_batch = plans.sizes, plans.end_batch
        self._progress = QueryProgress(self._logged)
        self._late: bool | None = None
        self._isolation = SlowPartitionWatch()
        self._described = RunStatus(
            options, self._log_ends, self._commits, self._plans, self._progress, self._isolation
        )
        self._ending = Ending()
        self._coordinator: Coordinator | None = None
        self._abilities: ReachabilityWatch | None = None
        self._relay = self._ending.open(Order.INSIDE, lambda: Relay(self._reader, self._log_ends.doubt), Relay.close)
        self._silent_agents: Callable[[], frozenset[str]] = frozenset
        self._agents: Callable[[], Mapping[str, AgentFigures]] = dict
        self._run: Run | None = None
        self._announced: Offsets = {}
        self._snapshot: Snapshot | None = None
        self._accepted = Losses()
        self._opened = time.monotonic()
        self._bounded = False  # a query that ends by itself has no next run
        self._handed_over = False  # the driver before has stopped for this one
        self._handover: HandoverWatch | None = None

    # --- life ----------------------------------------------------------------------------------------

    def open(self) -> None:
        """Take the lock of this instance id, find the topics and what the real group has.

        Raises CohortError: lock taken, topic missing, brokers unreachable, no permission.
        """
        log_to_stderr()
        jvm = stream_process.driver_jvm()
        ShutdownHook(self._ending, None if jvm is None else jvm.pid).start()
        for warning in (*self._options.warnings, *delegation_tokens.warnings()):
            log.warning("%s", warning)
        for note in self._options.notes:
            log.info("%s", note)
        closing = self._ending.add
        closing(Order.LOCK, self._lock.release)
        self._lock.take()
        closing(Order.INSIDE, self._log_ends.close)
        self._log_ends.start()
        if self._options.handover == "graceful":  # before anything of this run is in the group: joining fences
            self._handed_over = take_over(self._options, self.pause)
        closing(Order.COMMITS, self._commits.end)
        closing(Order.INSIDE, self._commits.close)
        self._commits.open(handed_over=self._handed_over)

    def initial(self) -> Offsets:
        """Where a query starts that has no batch yet; nothing is changed."""
        return self._commits.initial()

    def replayed(self, end: Offsets, ids: Mapping[str, str]) -> Offsets:
        """Where the first batch starts, which an earlier process planned to ``end``.

        Raises CohortError: this group did not plan it, or (DriverDataLoss) partitions of it are gone.
        """
        start = self._commits.replayed(end, ids)
        self._loss.find_deleted(end, self._log_ends.snapshot())
        return start

    def plan(self, start: Offsets, end: Offsets, ids: Mapping[str, str]) -> None:
        """Have the real group remember, before Spark does, from where to where the first batch goes."""
        new = end.keys() - start.keys()
        self._commits.plan(start, end, ids, self.beginnings_of_new(new) if new else {})

    def join(self, *, bounded: bool) -> None:
        """Have the driver join the real group, in the background: the first batch is planned, and runs meanwhile.

        A query that ends by itself joins only where it takes longer: its last commit would wait for Kafka's
        group.initial.rebalance.delay.ms, and while the group has no member none is needed to commit.
        """
        self._bounded = bounded
        if not bounded or time.monotonic() > self._opened + BOUNDED_S:
            self._commits.join()

    def stands_in(self, ids: Mapping[str, str]) -> None:
        """Of which topics the offsets are that Spark speaks of now, as far as it says."""
        self._commits.stands_in(ids)

    def begin(self, start: Offsets) -> None:
        """Start the coordinator run, once; ``start`` is where the first batch of this run begins."""
        if self._coordinator is not None:
            return
        self._compare(start)
        if self._handed_over:
            check_start(self._options.group_id, start, self._commits.kafka_offsets(start))
        first_generation = self._commits.begin(start)
        self._handover = watch(self._options, self._commits)
        self._ending.add(Order.COMMITS, self._handover.close)
        self._handover.start()
        self._plans.seed(start)
        self._announced = start
        options, former = self._options, predecessor(self._options)
        run_id = former.identity.run_id if former else secrets.token_hex(6)
        settings = GroupSettings(
            group_id=options.group_id,
            run_id=run_id,
            first_generation=first_generation,
            session_timeout_ms=options.session_timeout_ms,
            heartbeat_interval_ms=options.heartbeat_interval_ms,
            rebalance_timeout_ms=options.rebalance_timeout_ms,
            assignors=tuple(self._assignors),
            scheduled_rebalance_max_delay_ms=options.scheduled_rebalance_max_delay_ms,
            load_balance=(
                options.load_balance_threshold,
                options.load_balance_after_ms,
                options.load_balance_max_moves,
            ),
        )
        self._coordinator = Coordinator(
            settings,
            self._log_ends.topics,
            options.subscription.partitions_by_topic(),
            assignors=self._assignors,
            racks=self._log_ends.racks,
        )
        stop = self._coordinator.stop
        self._ending.add(Order.AGENTS, lambda: stop(for_good=not self._may_run_again()))
        self._ending.add(Order.INSIDE, self._described.close)
        self._described.start()
        self._abilities = ReachabilityWatch(
            partial(probe_leaders, options.kafka), self._coordinator.members, self._coordinator.trigger
        )
        self._coordinator.leadership.barred = self._abilities.barred
        self._coordinator.start(former.group if former else None)
        group = self._coordinator
        self._commits.follow(lambda: group.group.generation)
        self._log_ends.on_change(self._coordinator.topics_changed)
        self._coordinator.topics_changed()  # what changed since it started
        self._serve(self._coordinator, run_id, former.identity if former else None)

    def _compare(self, start: Offsets) -> None:
        """Ask whether the logs were cut since an earlier run, before its commits give way to ours.  Raises DriverDataLoss."""
        snapshot = self._log_ends.snapshot()
        current = {tp: offset for tp, offset in start.items() if tp in snapshot.partitions}
        self._loss.remember(current, self._commits.epochs(current, snapshot.ids))
        deadline = time.monotonic() + 2 * epoch_ends.PATIENCE_S
        while self._loss.compare(current, snapshot).unsure and time.monotonic() < deadline:
            self.pause(COMPARE_GAP_S)
        self._commits.record_epochs(self._loss.epochs)

    def _may_run_again(self) -> bool:
        """Whether this query may be started again in this application, and go on with its group."""
        handed_over = self._handover is not None and self._handover.handed_over
        is_kept = self._coordinator is not None and self._coordinator.is_kept
        return is_kept and not self._bounded and self._failure() is None and not handed_over and application_goes_on()

    def _serve(self, coordinator: Coordinator, run_id: str, former: RunIdentity | None) -> None:
        options, authority = self._options, former.authority if former else new_authority()
        service = Service(
            coordinator,
            self._plans,
            failure=self._commits.failure,
            status=self._status,
            isolation=self._isolation,
            ages=self._described.ages,
            on_recreated=self._log_ends.doubt,
            abilities=self._abilities,
            progress=self._progress,
            relay=lambda body: self._relay.answer(body, {*self._announced, *self._log_ends.snapshot().partitions}),
        )
        port = former.port if former else options.coordinator_port
        handlers = service.handlers()
        self._ending.add(Order.JOURNAL, lambda: coordinator.close_journal(keep=self._may_run_again()))
        if former:  # its members know the port: from their first request on this run's journal has to be in use, not the last one's
            keep_journal(options, coordinator, former)
        try:
            server = self._ending.open(
                Order.PORTS,
                lambda: GroupServer(authority, handlers, service.subscribe, service.unsubscribe, port=port),
                lambda opened: opened.stop(STOP_S),
            )
        except OSError as error:
            remedy = "give the option coordinator.port a free port, or leave it out for any free one"
            if former:
                remedy = "the run before had it, and another process was faster: start the query again"
            raise CohortError(f"port {port} cannot be opened for the group coordinator: {error}; {remedy}") from None
        self._silent_agents, self._agents = service.silent, service.agents
        names = coordinator.settings.assignors
        self._run = run = Run(run_id, options.coordinator_host or None, server.port, authority.client, names)
        if not former:
            keep_journal(options, coordinator, RunIdentity(run_id, server.port, authority))
        if options.metrics_port is not None:
            from sparkcohort.runtime.shell.observe.metrics import open_endpoint  # noqa: PLC0415  with Prometheus' client

            open_endpoint(options, options.metrics_port, self._status, self._ending)
        self._ending.open(
            Order.SECRETS,
            lambda: connection_file.write(options.group_id, options.group_instance_id, run),
            _remove,
        )
        log.info(
            "group %s: coordinator run %s%s on port %d, instance id %s, first generation %d",
            options.group_id,
            run_id,
            f", taken over with {counted(len(coordinator.members()), 'member')}," if former else "",
            server.port,
            options.group_instance_id,
            coordinator.settings.first_generation,
        )

    def close(self) -> None:
        """End the run: files are removed, agents told to go, ports closed; the real group keeps its static member."""
        self._ending.run()

    # --- what the reader asks --------------------------------------------------------------------------

    def check(self) -> None:
        """Raise what ended the run for good: fenced, a stranger in the group, no permission any more."""
        if self._handover is not None:
            self._handover.check()
        if (failure := self._failure()) is not None:
            raise failure

    def _failure(self) -> CohortError | None:
        return self._commits.failure() or (self._coordinator.failure if self._coordinator else None)

    def commit(self, start: Offsets, *, final: bool) -> None:
        """Commit ``start``, which Spark's commit log has, to the real group; ``final``, or ``flush_commits``, waits for it."""
        self.check()
        assert self._coordinator is not None  # noqa: S101  begin comes first
        self._commits.commit(start, generation=self._coordinator.group.generation, final=final)

    def may_be_async(self) -> bool:
        """Whether Spark's logs may be written behind the query's back: then only Spark's ``commit`` follows them.

        To be asked when a batch of this run has begun; the answer holds from then on.
        """
        if self._late is None:
            self._late = async_progress.may_be_async()
            if self._late:
                log.info(
                    "group %s: a query of this application tracks its progress asynchronously "
                    "(asyncProgressTrackingEnabled): the group follows when Spark says that its logs have a batch, one "
                    "batch later or more",
                    self._options.group_id,
                )
        return self._late

    def _logged(self, end: Offsets, ids: Mapping[str, str]) -> None:
        """A listener has seen that Spark's commit log has this batch: the group follows at once."""
        self._plans.end_batch(by_listener=True)
        if not self.may_be_async():  # or the event is ahead of the log
            self._commits.stands_in(ids)
            self._commits.offer(end)
            if self._handover is not None:
                self._handover.logged(end)

    # --- handing over (``runtime.kafka.handover``) -------------------------------------------------------

    def is_handover_requested(self) -> bool:
        """Whether a newer driver waits for this query to stop."""
        return self._handover is not None and self._handover.requested

    def reached_clean_point(self, *, late: bool) -> None:
        """All that was planned is in Spark's commit log, and committed or about to be; ``late``: that can't be told.

        Raises CohortError (HANDED_OVER) where a newer driver may start already.
        """
        if self._handover is not None and late:
            self._handover.decline("it tracks its progress asynchronously (asyncProgressTrackingEnabled)")
        elif self._handover is not None:
            self._handover.reach()

    def planning(self, end: Offsets) -> None:
        """Spark is about to get the end of a batch, ``end``.  Raises CohortError (HANDED_OVER) where it may not be."""
        if self._handover is not None:
            self._handover.plan(end)
        self._plans.begin_batch()

    def flush_commits(self) -> None:
        """Wait a moment for the real group to have what was committed."""
        self._commits.flush()

    def refresh(self, timeout_s: float) -> Snapshot:
        """Log ends, asked for now; at most ``timeout_s`` old answers are waited for."""
        self._snapshot = self._log_ends.refresh(timeout_s)
        return self._snapshot

    def isolated_ends(self, start: Offsets, ends: Offsets) -> Offsets:
        """The log ends as far as a batch after ``start`` may go without waiting for a slow leader."""
        barred = self._barred()
        owners = self._coordinator.owners() if self._coordinator and barred else {}
        return self._isolation.limited(ends, start, owners.keys() - reachability.able_owners(barred, owners).keys())

    def losses(self, start: Offsets, ids: Mapping[str, str], snapshot: Snapshot) -> Losses:
        """What has been lost of what comes after ``start``, in the topics of these ids.  Raises DriverDataLoss, or warns."""
        self._accepted = self._loss.find_losses(start, ids, snapshot, time.monotonic())
        self._commits.record_epochs(self._loss.epochs)
        return self._accepted

    def topic_ids(self) -> Mapping[str, str]:
        """The topics' ids now, as far as known."""
        return self._log_ends.snapshot().ids

    def accepted_starts(self, start: Offsets, end: Offsets) -> Offsets:
        """New starts of the partitions whose planned end lies before ``start``: where their logs begin now.

        That is so after a loss which was accepted: in this process by ``losses``, or before a restart by the driver that
        planned the batch, if the log still shows it.  Raises DriverDataLoss, or warns, of a loss that was not reported yet,
        partitions that the plan leaves out included.  A partition without any sign of a loss is left out.
        """
        deleted, reset = self._accepted.deleted, self._accepted.reset
        left_out = start.keys() - end.keys() - deleted
        if left_out:
            self._loss.report_left_out(left_out)
        back = {tp: start[tp] for tp, offset in end.items() if offset < start.get(tp, offset)}
        accepted = {tp: reset[tp] for tp in back if reset.get(tp) == end[tp]}
        unknown = {tp: offset for tp, offset in back.items() if tp not in accepted}
        resolved = self._resolve_loss(unknown) if unknown else {}
        return {**accepted, **{tp: min(offset, end[tp]) for tp, offset in resolved.items()}}

    def _resolve_loss(self, start: Offsets) -> Offsets:
        """Where to go on after a loss; waits while it is in doubt (``hold``).  Raises DriverDataLoss."""
        began = time.monotonic()
        while True:
            losses = self._loss.find_losses(start, {}, self.refresh(REFRESH_S), time.monotonic())
            waited_s = time.monotonic() - began
            if hold.decide_replay(self._options.unreachable, losses.doubted, waited_s) is hold.HoldDecision.PLAN:
                return losses.reset
            self.pause(REFRESH_S)

    def beginnings_of_new(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Where partitions begin that were not there before.  Raises DriverDataLoss when records are gone already."""
        beginnings = self._loss.beginnings(sorted(partitions))
        self._plans.seed(beginnings)
        return beginnings

    def announce(self, end: Offsets) -> None:
        """Remember the end of the batch in flight."""
        self._announced = end

    def in_flight(self, value: object, end: Offsets, ids: Mapping[str, str]) -> None:
        """Spark runs the batch to ``end``, of which it has ``value``: when that is in the commit log a listener may say so."""
        self._progress.plan(value, end, ids)

    def lag_remains(self, end: Offsets) -> bool:
        """Whether there is more to read than this batch will."""
        ends = self._snapshot.ends if self._snapshot else {}
        return any(ends.get(tp, offset) > offset for tp, offset in end.items())

    def owners(self) -> Mapping[TopicPartition, str]:
        """Which agent owns which partition now, and can fetch it."""
        owners = self._coordinator.owners() if self._coordinator else {}
        return reachability.able_owners(barred, owners) if (barred := self._barred()) else owners

    def cores(self) -> Mapping[str, int]:
        """How many tasks each member's executor runs at once; one that is cut off and owns nothing that it can fetch has none."""
        members = self._coordinator.members() if self._coordinator else {}
        idle = self._idle()
        return {name: info.cores for name, info in members.items() if name not in idle}

    def idle_cores(self) -> int:
        """How many tasks run at once where nothing can be read: that many slots had better be empty."""
        members = self._coordinator.members() if self._coordinator else {}
        return sum(members[name].cores for name in self._idle() & members.keys())

    def _barred(self) -> reachability.Barred:
        if self._abilities is None:
            return {}
        self._abilities.lift_expired()
        return self._abilities.barred()

    def _idle(self) -> frozenset[str]:
        """Members that are barred from something and own nothing that they can fetch."""
        barred = self._abilities.barred() if self._abilities else {}
        return frozenset(barred) - frozenset(self.owners().values()) if barred else frozenset()

    def register(self, slots: Sequence[Slot], ids: Mapping[str, str], *, last: bool) -> str:
        """Make the slots claimable, offsets in topics of these ids; returns the plan's id.

        ``last``: the query ends with this batch, so no agent is started for it.
        """
        plan_id = secrets.token_hex(8)
        if barred := self._barred():
            slots = [
                replace(slot, avoid=reachability.avoiding(barred, (item.tp for item in slot.ranges))) for slot in slots
            ]
        self._plans.register(plan_id, slots, ids, last=last)
        return plan_id

    def silent_agents(self) -> frozenset[str]:
        """The addresses of agents that have lately left a task without an answer."""
        return self._silent_agents()

    def _reader(self) -> RangeReader:
        """A reader for what tasks can't read by themselves."""
        options = self._options
        return RangeReader(
            options.kafka,
            columns=options.columns,
            fail_on_data_loss=options.fail_on_data_loss,
            poll_timeout_ms=RELAY_PATIENCE_MS,
            on_data_loss=log.warning,
        )

    def run(self) -> Run:
        """How tasks reach this run."""
        assert self._run is not None  # noqa: S101  begin comes first
        return self._run

    @staticmethod
    def pause(seconds: float) -> None:
        """Wait; a session that ends meanwhile ends its process (``Ender``), this wait included."""
        time.sleep(seconds)

    def _status(self) -> dict[str, Any]:
        if self._coordinator is None or self._ending.has_begun:
            return {}
        take_overs = {"handover": int(self._handed_over), "fencing": self._handover.fencings if self._handover else 0}
        return self._described(self._coordinator, self._announced, self._abilities, self._agents(), take_overs)


def _remove(path: Path | None) -> None:
    if path is not None:
        path.unlink(missing_ok=True)
