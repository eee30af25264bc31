"""Batch 0: where it starts, what was planned of it, and whether this group planned it.

Spark asks where batch 0 starts in the same words whether that batch is new or was planned by a process that has ended,
and it hands over neither checkpoint nor query.  What follows tells: ``latestOffset``, or the batch itself with its end.
So an answer alone writes nothing.  The start is pinned in the group's commit metadata, with a name of the end that is
planned from it, before Spark learns of that end; and a batch 0 is replayed only if its end is the one pinned, with the
topics' ids that only our ends tell.  Any other
was planned from a start that is known elsewhere: ``format("kafka")`` keeps it in the checkpoint, where no Python source
can look.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.membership_state import Committed
from sparkcohort.runtime.kafka.run_epoch import decode, plan_of, starts_beside
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver.kafka_membership import GroupMembership
from sparkcohort.runtime.shell.driver.log_ends import LogEnds
from sparkcohort.runtime.shell.driver.starting_offsets import initial_offsets
from sparkcohort.runtime.shell.options.parse import SourceOptions

log = logging.getLogger("sparkcohort.first_batch")

Offsets = Mapping[TopicPartition, int]
Ids = Mapping[str, str]


class FirstBatch:
    """What one run knows of batch 0, until that is committed; called from one thread."""

    def __init__(self, options: SourceOptions, log_ends: LogEnds, membership: GroupMembership) -> None:
        self._options = options
        self._log_ends = log_ends
        self._membership = membership
        self._start: Offsets | None = None
        self._end: tuple[Offsets, Ids] | None = None
        self._pin = options.initial_hash()
        self._plan = ""
        self.pinned = False
        """Whether the group's offsets are the start of batch 0: a commit replaces them."""

    def start(self) -> Offsets:
        """Where a query starts that has no batch yet: as pinned, or as the options say.  Changes nothing."""
        if self._start is None:
            self._start = self._initial_offsets()
        return self._start

    def _initial_offsets(self) -> Offsets:
        commits = self._committed(self._log_ends.snapshot().partitions)
        pinned_start = starts_beside(commits, pin=self._pin)
        # A pin beside real commits is one that a first batch has replaced in part: it no longer speaks for the start.
        if pinned_start and len(pinned_start) == len(commits):
            return pinned_start
        usable = {tp: entry.offset for tp, entry in commits.items() if entry.offset is not None}
        return initial_offsets(self._options, self._log_ends, lambda _: usable)

    def _committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Committed]:
        offsets = self._membership.committed(partitions)
        entries = {tp: committed for tp, committed in offsets.items() if committed.offset is not None}
        ids = self._log_ends.snapshot().ids
        topic_ids = {tp: decode(committed.metadata).topic for tp, committed in entries.items()}
        old = {tp for tp, topic_id in topic_ids.items() if topic_id and ids.get(tp.topic, topic_id) != topic_id}
        for tp in sorted(old):
            log.warning(
                "group %s: the offset committed for %s-%d is of a deleted topic of that name: the query does not start there",
                *(self._options.group_id, *tp),
            )
        return {tp: committed for tp, committed in entries.items() if tp not in old}

    def marks(self, start: Offsets) -> tuple[str, str]:
        """Pin and plan of what a run that goes on from ``start`` reserves: empty unless that is where batch 0 starts."""
        self.pinned = start == self._start
        return self.current()

    def current(self) -> tuple[str, str]:
        """Pin and plan as the group has them."""
        return (self._pin, self._plan) if self.pinned else ("", "")

    def plan(self, start: Offsets, end: Offsets, ids: Ids, entering: Offsets, timeout_s: float) -> Offsets:
        """Have the group remember that batch 0 ends at ``end``, before Spark hears of it; returns what was committed.

        ``ids``: of the topics, as planned with the end; ``entering``: the beginnings of partitions that only ``end`` has.
        Nothing to do when the group has it.  Raises CohortError when Kafka doesn't take it.
        """
        if (end, ids) == self._end:
            return {}
        plan = plan_of(end, ids)
        text = self._membership.run_epoch.metadata(self._pin, plan)
        starts = {tp: (start[tp] if tp in start else entering[tp], text) for tp in end}
        committed = self._membership.commit(starts, timeout_s, reset=True)
        self._plan, self._end = plan, (end, ids)
        return committed

    def replayed(self, end: Offsets, ids: Ids) -> Offsets:
        """Where a batch 0 starts that an earlier process planned to ``end``, if it was one of this group.

        A deleted partition has its end as its start.  Raises CohortError; changes nothing.
        """
        plan = plan_of(end, ids)
        if plan == self._plan and self._start is not None:
            return self._start
        existing = end.keys() & self._log_ends.snapshot().partitions
        deleted = {tp: offset for tp, offset in end.items() if tp not in existing}
        committed = self._committed(existing)
        start = starts_beside(committed, plan=plan)
        if start.keys() != existing or (end and not start):
            raise _unknown(self._options)
        self._pin = decode(next((committed[tp].metadata for tp in start), "")).pin
        self._start, self._end, self._plan = {**start, **deleted}, (end, ids), plan
        return self._start


def _unknown(options: SourceOptions) -> CohortError:
    return CohortError(
        f"the first batch of this checkpoint is planned and not committed, and group.id {options.group_id} does not know "
        'where it starts: it was planned by format("kafka"), under another group.id, by an older version of sparkcohort, or the '
        "group's offsets have been deleted since. Nothing was read and nothing is lost. Run the query once more with the "
        "source and the options that planned this batch until it is committed, then switch; or give the query a new "
        "checkpointLocation, and say by startingOffsets where it is to start"
    )
