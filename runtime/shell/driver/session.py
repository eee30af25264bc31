"""One query's side of the driver as one thing: the real Kafka group, the log ends, the group of executors.

A session is opened by the first call that only PySpark's stream runner gets, begins its run when the first start offsets
are known, and ends with the query (SIGTERM), or with the driver's JVM.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from functools import cached_property

from sparkcohort.assignors import Assignor
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.coordinator.plan_registry import PlanRegistry
from sparkcohort.runtime.shell.driver import async_progress, spark_settings, stream_process
from sparkcohort.runtime.shell.driver.data_loss import DataLoss
from sparkcohort.runtime.shell.driver.fail_over import application_goes_on
from sparkcohort.runtime.shell.driver.group_commits import GroupCommits
from sparkcohort.runtime.shell.driver.group_run import GroupRun
from sparkcohort.runtime.shell.driver.handover import HandoverWatch, check_start, take_over, watch
from sparkcohort.runtime.shell.driver.log_ends import LogEnds
from sparkcohort.runtime.shell.driver.query_progress import QueryProgress
from sparkcohort.runtime.shell.kafka import epoch_ends
from sparkcohort.runtime.shell.options.parse import SourceOptions
from sparkcohort.runtime.shell.rpc.log_lines import log_to_stderr
from sparkcohort.runtime.shell.rpc.shutdown import Ending, Order, ShutdownHook

log = logging.getLogger("sparkcohort.session")

Offsets = Mapping[TopicPartition, int]
COMPARE_GAP_S = 0.02
BOUNDED_S = 10.0
"""A query under AvailableNow or Once that has run for so long becomes a member."""


class Session:
    """The life of what runs in PySpark's stream runner process for one query; called from one thread."""

    group: GroupRun  # from ``begin`` on
    handover: HandoverWatch

    def __init__(self, options: SourceOptions, assignors: Mapping[str, Assignor]) -> None:
        """``assignors`` are those of the options, by name, in order of preference."""
        self._options, self._assignors = options, assignors
        self.log_ends = LogEnds(options)
        self.loss = DataLoss(self.log_ends, fail=options.fail_on_data_loss)
        self.commits = GroupCommits(options, self.log_ends, lambda: self.loss.epochs)
        self.plans = PlanRegistry()
        self.progress = QueryProgress(self._logged)
        self._ending = Ending()
        self._opened = time.monotonic()
        self._begun = False
        self._bounded = False  # a query that ends by itself has no next run
        self._handed_over = False  # the driver before has stopped for this one

    def open(self) -> None:
        """Take the lock of this instance id, find the topics and what the real group has.

        Raises CohortError: lock taken, topic missing, brokers unreachable, no permission.
        """
        options = self._options
        log_to_stderr()
        jvm = stream_process.driver_jvm()
        ShutdownHook(self._ending, None if jvm is None else jvm.pid).start()
        for warning in (*options.warnings, *spark_settings.token_warnings(spark_settings.of_application())):
            log.warning("%s", warning)
        for note in options.notes:
            log.info("%s", note)
        closing = self._ending.add
        closing(Order.LOCK, stream_process.instance_lock(options.group_id, options.group_instance_id).close)
        closing(Order.INSIDE, self.log_ends.close)
        self.log_ends.start()
        if options.handover == "graceful":  # before anything of this run is in the group: joining fences
            self._handed_over = take_over(options)
        closing(Order.COMMITS, self.commits.end)
        closing(Order.INSIDE, self.commits.close)
        self.commits.open(handed_over=self._handed_over)

    def replayed(self, end: Offsets, ids: Mapping[str, str]) -> Offsets:
        """Where the first batch starts, which an earlier process planned to ``end``.

        Raises CohortError: this group did not plan it, or (DriverDataLoss) partitions of it are gone.
        """
        start = self.commits.first.replayed(end, ids)
        self.loss.find_deleted(end, self.log_ends.snapshot())
        return start

    def plan(self, start: Offsets, end: Offsets, ids: Mapping[str, str]) -> None:
        """Have the real group remember, before Spark does, from where to where the first batch goes."""
        new = end.keys() - start.keys()
        self.commits.plan(start, end, ids, self.beginnings_of_new(new) if new else {})

    def begin(self, start: Offsets) -> None:
        """Start the run, once; ``start`` is where its first batch begins."""
        if self._begun:
            return
        options = self._options
        self._compare(start)
        if self._handed_over:
            check_start(options.group_id, start, self.commits.kafka_offsets(start))
        self.commits.begin(start)
        self.handover = watch(options, self.commits)
        self._ending.add(Order.COMMITS, self.handover.close)
        self.handover.start()
        self.plans.seed(start)
        self.group = group = GroupRun(
            options,
            self._assignors,
            self.log_ends,
            self.commits,
            self.plans,
            self.progress,
            self._ending,
            self._take_overs,
        )
        group.announced, self._begun = start, True
        self.commits.follow(lambda: group.coordinator.group.generation)
        group.start(self._may_run_again)

    def _compare(self, start: Offsets) -> None:
        """Ask whether the logs were cut since an earlier run, before its commits give way to ours.  Raises DriverDataLoss."""
        snapshot = self.log_ends.snapshot()
        current = {tp: offset for tp, offset in start.items() if tp in snapshot.partitions}
        self.loss.remember(current, self.commits.epochs(current, snapshot.ids))
        deadline = time.monotonic() + 2 * epoch_ends.PATIENCE_S
        while self.loss.compare(current, snapshot).unsure and time.monotonic() < deadline:
            time.sleep(COMPARE_GAP_S)

    def join(self, *, bounded: bool) -> None:
        """Have the driver join the real group, in the background: the first batch is planned, and runs meanwhile.

        A query that ends by itself joins only where it takes longer: its last commit would wait for Kafka's
        group.initial.rebalance.delay.ms, and while the group has no member none is needed to commit.
        """
        self._bounded = bounded
        if not bounded or time.monotonic() > self._opened + BOUNDED_S:
            self.commits.membership.join()

    def check(self) -> None:
        """Raise what ended the run for good: fenced, a stranger in the group, no permission any more."""
        self.handover.check()
        if (failure := self._failure()) is not None:
            raise failure

    def close(self) -> None:
        """End the run: files are removed, agents told to go, ports closed; the real group keeps its static member."""
        self._ending.run()

    def _failure(self) -> CohortError | None:
        return self.commits.failure() or self.group.coordinator.failure

    def _may_run_again(self) -> bool:
        """Whether this query may be started again in this application, and go on with its group."""
        is_kept = self.group.coordinator.is_kept and not self._bounded and not self.handover.handed_over
        return is_kept and self._failure() is None and application_goes_on()

    def _take_overs(self) -> Mapping[str, int]:
        """The drivers that gave way to this one, by how they did."""
        return {"handover": int(self._handed_over), "fencing": self.handover.fencings}

    # --- batches -------------------------------------------------------------------------------------

    def commit(self, start: Offsets, *, final: bool) -> None:
        """Commit ``start``, which Spark's commit log has, to the real group; ``final``: wait until it has it."""
        self.check()
        self.commits.commit(start, final=final)

    @cached_property
    def is_async(self) -> bool:
        """Whether Spark's logs may be written behind the query's back: then only Spark's ``commit`` follows them.

        To be asked when a batch of this run has begun; the answer holds from then on.
        """
        is_async = async_progress.may_be_async()
        if is_async:
            log.info(
                "group %s: a query of this application tracks its progress asynchronously (asyncProgressTrackingEnabled): the "
                "group follows when Spark says that its logs have a batch, one batch later or more",
                self._options.group_id,
            )
        return is_async

    def _logged(self, end: Offsets, ids: Mapping[str, str]) -> None:
        """A listener has seen that Spark's commit log has this batch: the group follows at once."""
        self.plans.end_batch(by_listener=True)
        if not self.is_async:  # or the event is ahead of the log
            self.commits.set_topic_ids(ids)
            self.commits.offer(end)
            self.handover.logged(end)

    def beginnings_of_new(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Where partitions begin that were not there before.  Raises DriverDataLoss when records are gone already."""
        beginnings = self.loss.beginnings(sorted(partitions))
        self.plans.seed(beginnings)
        return beginnings
