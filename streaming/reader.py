"""Spark's calls to a stream reader: where to start, where the next batch ends, which task reads what.

The reader lives in PySpark's stream runner process, one per query.  Its constructor also runs in the process that plans
reads.  So nothing is joined, opened or spawned before the first call that only the runner gets.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from sparkcohort.runtime.batches import hold
from sparkcohort.runtime.batches.claims import Slot
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.streaming import planner
from sparkcohort.streaming.installation import unusable_reason
from sparkcohort.streaming.jvm_reader import check_reader, progress_report
from sparkcohort.streaming.limits import UNLIMITED, Limits
from sparkcohort.streaming.pyfiles import find_pyfiles, has_own_provider
from sparkcohort.streaming.slot_reader import SlotPartition, SlotReader, reader_on_executor
from sparkcohort.streaming.source_offsets import Ids, KnownOffsets, Offsets, to_json_value
from sparkcohort.streaming.spark_errors import message_first

if TYPE_CHECKING:
    import pyarrow as pa

    from sparkcohort.runtime.batches.snapshot import Snapshot
    from sparkcohort.runtime.shell.driver.data_loss import Losses
    from sparkcohort.runtime.shell.driver.session import Session
    from sparkcohort.runtime.shell.options.source_options import SourceOptions
    from sparkcohort.runtime.shell.rpc.endpoint import Run

log = logging.getLogger("sparkcohort.reader")

NO_LIMIT = 2**62
"""The default read limit without ``maxOffsetsPerTrigger``.  Not ReadAllAvailable, which Spark uses for Trigger.Once only: so the
reader can recognize Trigger.Once (SPARK-45178)."""
REFRESH_S = 0.2
HELD_POLL_S = 0.5


class CohortStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The stream reader of one query; ``Session`` has what runs on the driver for it."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._session: Session | None = None
        self._first_start: Offsets | None = None  # where batch 0 starts, until its end is planned, too
        self._asked_end = self._replayed = False
        self._ran = False
        self._available_now = self._is_once = False
        self._stops: Offsets | None = None  # where AvailableNow ends, once all ends are known
        self._last_progress: float | None = None
        self._latest: Offsets | None = None  # the ends of the logs
        self._partitions_held = 0  # partitions that the last batch left out
        self._turns: dict[TopicPartition, int] = {}
        self._batches = 0
        self._offsets = KnownOffsets()
        self._first_ids: Ids = {}
        self._ids: Ids = {}  # topic ids of the last start offset

    def __reduce__(self) -> tuple[Callable[[SourceOptions], SlotReader], tuple[SourceOptions]]:
        """Pickle as the reader of a slot with the options: Spark pickles the reader with every read function."""
        return reader_on_executor, (self._options,)

    @property
    def _driver(self) -> Session:
        if self._session is None:
            # Imported here: the process that plans a read imports this module, too, and needs none of it.
            try:
                from sparkcohort.assignors import ASSIGNORS  # noqa: PLC0415
                from sparkcohort.runtime.shell.agent.listener_runner import check_listener  # noqa: PLC0415
                from sparkcohort.runtime.shell.coordinator import custom_assignors  # noqa: PLC0415
                from sparkcohort.runtime.shell.driver.session import Session  # noqa: PLC0415
            except Exception as failed:
                raise CohortError(unusable_reason(failed)) from failed

            options = self._options
            reading = check_reader(options)
            own_assignors = not ASSIGNORS.keys() >= set(options.assignors)
            if options.rebalance_listener or own_assignors or has_own_provider(options.kafka):
                find_pyfiles()
            if options.rebalance_listener:
                check_listener(options.rebalance_listener)
            self._session = Session(options, custom_assignors.load(options.assignors))
            self._session.open()
            log.info("group %s: %s", options.group_id, reading)
        return self._session

    # --- Spark's calls -------------------------------------------------------------------------------

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  PySpark's name
        """The query is bounded: the ends of the first ``latestOffset`` are where it stops (SPARK-36533)."""
        self._available_now = True

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  PySpark's name
        """``maxOffsetsPerTrigger`` as Spark's read limit."""
        return ReadMaxRows(self._options.max_offsets_per_trigger or NO_LIMIT)

    @message_first
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  PySpark's name
        """Where a query without a checkpoint starts: the same answer until the first batch is committed.

        Spark calls this again when it replays batch 0.  Then ``Session.replayed`` decides by the batch whether the answer
        counts.
        """
        session = self._driver
        start = session.commits.first.start()
        if not self._asked_end:
            self._first_start = start
        self._first_ids = self._first_ids or session.log_ends.snapshot().ids
        return to_json_value(start, self._first_ids)

    @message_first
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802  PySpark's name
        """The end of the next batch, or ``start`` itself when there is none."""
        session = self._driver
        self._take_writes(start, session)
        begin, ids = self._offsets.read(start)
        session.plans.end_batch()
        session.commits.set_topic_ids(ids)
        self._ids = ids
        self._asked_end = True
        trigger = self._trigger(limit)
        self._is_once = trigger is hold.QueryTrigger.ONCE
        if self._replayed:
            self._first_start = None
        session.begin(begin)
        session.check()
        self._hand_over_if_asked(session, begin)
        limits = self._limits(limit)
        try:
            end, ids_now = self._next_end(session, begin, ids, limits, trigger)
        finally:  # the commit runs while Spark writes the end into its own log
            self._commit(session, begin, final=self._available_now)
        idle = end == begin and all(ids_now.get(topic) == topic_id for topic, topic_id in ids.items())
        value = start if idle else self._offsets.write(end, ids_now)
        if idle:
            session.handover.reach(late=self._may_be_late())
        else:
            session.handover.plan(end)
            session.plans.begin_batch()
        if begin == self._first_start:
            session.plan(begin, *self._offsets.read(value))
        session.group.announced = end
        session.join(bounded=self._trigger(limit).bounded)
        if idle:
            session.commits.flush()  # so that all is committed when an idle query is stopped
            return start
        self._last_progress = time.monotonic()
        if limits:
            self._batches += 1
            self._turns |= {tp: self._batches for tp, offset in end.items() if offset > begin.get(tp, offset)}
        return value

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802  PySpark's name
        """The ends of the logs, for the progress event; its metrics with them where the reader in the JVM takes them."""
        latest = self._latest
        if latest is None:
            return None
        ends = to_json_value(latest)
        if not self._options.reader_jar:
            return ends
        group = self._driver.group
        lags = [latest[tp] - offset for tp, offset in group.announced.items() if tp in latest]
        page = (self._options.group_id, group.page)
        return progress_report(ends, lags, self._partitions_held, group.seconds_behind(), page)

    @message_first
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[SlotPartition]:
        """Plan the ranges ``[start, end)``: one input partition for each slot.  A second call makes another plan of the same ranges."""
        session = self._driver
        self._take_writes(start, session)
        (first, first_ids), (last, ids) = self._offsets.read(start), self._offsets.read(end)
        if self._first_start is not None and not self._asked_end:
            first = session.replayed(last, ids)  # Spark did not ask for this end in this run: the batch is a replay
            self._replayed = True
        else:
            self._first_start = None
        self._ran = True
        session.commits.set_topic_ids(first_ids)
        session.begin(first)
        session.progress.plan(end, last, ids)
        group, snapshot = session.group, session.log_ends.snapshot()
        slots = planner.make_slots(
            self._ranges(session, first, last, {} if self._first_start is not None else first_ids, ids),
            group.owners(),
            group.cores(),
            sizes=session.plans.sizes(),
            min_partitions=self._options.min_partitions,
            max_records=self._options.max_records_per_partition,
            probe=any(snapshot.ends.get(tp, offset) > offset for tp, offset in last.items()),
        )
        slots += (Slot(None),) * (group.idle_cores() if slots else 0)
        plan_id = group.register(slots, {**snapshot.ids, **ids}, last=self._ends_with(last))
        timeout_s, config = self._options.agent_timeout_ms / 1000, self._agent_config(group.endpoint)
        avoid = group.silent_agents()
        return [
            SlotPartition(group.endpoint, plan_id, index, timeout_s, avoid, "" if index else config)
            for index in range(len(slots))
        ]

    @staticmethod
    def _take_writes(start: dict[str, Any], session: Session) -> None:
        """What the query has written by Cohort, which the jar puts beside an offset (CohortStream.java); no topic has this name."""
        if (writes := start.pop("@writes", None)) is not None:
            session.progress.writes = writes

    def _agent_config(self, run: Run) -> str:
        """What the JVM starts a missing agent with; "" where it doesn't read, or Python has to find the user's own modules."""
        from sparkcohort.runtime.shell.agent.agent_config import encode_config  # noqa: PLC0415  only in the runner
        from sparkcohort.streaming.agent_start import agent_config, has_own_modules  # noqa: PLC0415  likewise

        if not self._options.reader_jar or has_own_modules(self._options):
            return ""
        return encode_config(agent_config(self._options, run, run.host or "")).decode()

    def _ends_with(self, end: Offsets) -> bool:
        """Whether a bounded query has no batch after the one that ends at ``end``."""
        stops = self._stops or {}
        return self._is_once or (bool(stops) and all(end.get(tp, -1) >= offset for tp, offset in stops.items()))

    def _ranges(self, session: Session, start: Offsets, end: Offsets, ids: Ids, ids_now: Ids) -> tuple[Range, ...]:
        new = end.keys() - start.keys()  # their beginnings are asked for
        # A recreated topic: the rest of the old log can't be read, and the new log begins with the next batch.
        recreated = {topic for topic, topic_id in ids_now.items() if ids.get(topic, topic_id) != topic_id}
        if recreated:
            start = {tp: offset for tp, offset in start.items() if tp.topic not in recreated}
            end = {tp: offset for tp, offset in end.items() if tp in new or tp.topic not in recreated}
        beginnings = session.beginnings_of_new(new) if new else {}
        # Records may have aged out since the batch was planned; the session has reported their loss.
        entering = {tp: min(offset, end[tp]) for tp, offset in beginnings.items()}
        return planner.ranges_between(
            start, end, entering, session.loss.accepted_starts(start, end, self._options.unreachable)
        )

    def read(self, partition: SlotPartition) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """The rows of one slot, on an executor."""
        return SlotReader(self._options).read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark's logs have the batch that ended at ``end``.  Spark calls this with the batch after it, in every mode."""
        offsets, ids = self._offsets.read(end)
        # If the topic was recreated since, Kafka has no log any more to which these offsets belong.
        if self._may_be_late() and all(self._ids.get(topic, topic_id) == topic_id for topic, topic_id in ids.items()):
            self._driver.commit(offsets, final=False)

    def stop(self) -> None:
        """End the run: agents go, ports close."""
        if self._session is not None:
            self._session.close()

    # --- the end of the next batch -----------------------------------------------------------------

    def _trigger(self, limit: ReadLimit) -> hold.QueryTrigger:
        if self._available_now:
            return hold.QueryTrigger.AVAILABLE_NOW
        return hold.QueryTrigger.ONCE if isinstance(limit, ReadAllAvailable) else hold.QueryTrigger.PROCESSING_TIME

    def _limits(self, limit: ReadLimit) -> Limits:
        """The limits of the next batch; none under Trigger.Once, which reads all there is."""
        if not isinstance(limit, ReadMaxRows):
            return UNLIMITED
        offsets = limit.max_rows if limit.max_rows < NO_LIMIT else None
        return Limits(offsets, self._options.max_bytes_per_trigger, self._options.max_offsets_by_topic)

    def _next_end(
        self, session: Session, start: Offsets, ids: Ids, limits: Limits, trigger: hold.QueryTrigger
    ) -> tuple[Offsets, Ids]:
        """Carry out what ``hold`` decides: plan the batch, wait for brokers, or fail."""
        policy, began = self._options.unreachable, time.monotonic()
        session.group.keep_connection_file()
        while True:
            snapshot = session.log_ends.refresh(REFRESH_S)
            losses = session.loss.find_losses(start, ids, snapshot, time.monotonic())
            held_partitions = hold.held_partitions(snapshot.unreachable, start, self._stops)
            situation = hold.Situation(
                held_partitions, losses.doubted, self._stops is not None, waited_s=time.monotonic() - began
            )
            decision = hold.decide(policy, trigger, situation)
            if decision is hold.HoldDecision.PLAN and self._available_now and self._stops is None:
                self._stops = dict(snapshot.ends)
            if decision in (hold.HoldDecision.PLAN, hold.HoldDecision.PLAN_OTHERS):
                end = self._advance(session, start, snapshot, held_partitions, losses, limits, bounded=trigger.bounded)
                if end != start or decision is hold.HoldDecision.PLAN:
                    return end, losses.ids
                situation = situation._replace(nothing_else=True, waited_s=time.monotonic() - began)
                decision = hold.decide(policy, trigger, situation)
            if decision is hold.HoldDecision.FAIL:
                raise hold.failure(policy, situation, snapshot.unreachable)
            self._commit(session, start, final=False)
            self._hand_over_if_asked(session, start)
            time.sleep(HELD_POLL_S)

    def _hand_over_if_asked(self, session: Session, start: Offsets) -> None:
        """Give the group up if another driver asks for it.  Raises CohortError (HANDED_OVER).

        Called only where every earlier batch is in Spark's commit log and none is planned.
        """
        if session.handover.requested:
            self._commit(session, start, final=False)
            session.handover.reach(late=self._may_be_late())

    def _commit(self, session: Session, start: Offsets, *, final: bool) -> None:
        """Commit ``start`` if it is certainly in Spark's commit log; otherwise ``commit`` does it later."""
        if start != self._first_start and not self._may_be_late():
            session.commit(start, final=final)

    def _may_be_late(self) -> bool:
        """Whether Spark's commit log may lag behind its calls (asynchronous progress tracking).

        Not before the first batch of a run, nor in a bounded query.
        """
        return self._ran and not self._available_now and self._driver.is_async

    def _advance(
        self,
        session: Session,
        start: Offsets,
        snapshot: Snapshot,
        held_partitions: frozenset[TopicPartition],
        losses: Losses,
        limits: Limits,
        *,
        bounded: bool,
    ) -> Offsets:
        left_out = held_partitions | losses.doubted
        self._latest, self._partitions_held = snapshot.ends, len(left_out)
        ends = snapshot.ends if bounded else session.group.isolated_ends(start, snapshot.ends)
        ends = hold.up_to(ends, self._stops)
        beginnings = _where_reachable(session, hold.may_enter(ends, start, snapshot.unreachable, losses.doubted))
        settled = not losses.reset and not losses.deleted  # a loss changes the offset at once: don't wait for records
        if not bounded and settled and self._holds_back({**start, **beginnings}, ends):
            return start
        return planner.next_end(
            start,
            ends,
            left_out,
            limits,
            sizes=session.plans.sizes() if limits.nbytes is not None else None,
            turns=self._turns,
            beginnings=beginnings,
            reset=losses.reset,
            deleted=losses.deleted,
        )

    def _holds_back(self, start: Offsets, ends: Offsets) -> bool:
        """Whether ``minOffsetsPerTrigger`` waits for more records; the first batch never waits."""
        backlog = sum(max(end - start.get(tp, end), 0) for tp, end in ends.items())
        elapsed_ms = None if self._last_progress is None else int((time.monotonic() - self._last_progress) * 1000)
        least, delay_ms = self._options.min_offsets_per_trigger, self._options.max_trigger_delay_ms
        return planner.hold_back(backlog, least, elapsed_ms, delay_ms)


def _where_reachable(session: Session, new: list[TopicPartition]) -> Offsets:
    """Where new partitions begin; one whose broker is unreachable enters with a later batch."""
    try:
        return session.beginnings_of_new(new) if new else {}
    except CohortError as error:
        if not hold.is_unreachable(error):
            raise
        return {}
