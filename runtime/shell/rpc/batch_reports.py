"""Reports of committed batches to the coordinator runs of this host, from a background thread."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import Final

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.shell.rpc import connection_file
from sparkcohort.runtime.shell.rpc.flight import CoordinatorRefused, CoordinatorUnreachable, Link
from sparkcohort.runtime.shell.rpc.threads import Supervised

log = logging.getLogger("sparkcohort.progress")

LOOK_S: Final = 1.0
"""How often the folder of connection files is read, while there are reports."""
PATIENCE_S: Final = 10.0
"""How long a report is repeated until a run takes it; without it the group follows with the next trigger."""
CALL_S: Final = 5.0
_IDLE_S: Final = 60.0


@dataclass(slots=True)
class _LiveRun:
    """A run that has a connection file: its link, its process, and its query, "" until it has named it."""

    link: Link
    pid: int
    query: str = ""


@dataclass(slots=True)
class _Report:
    """A batch to report; ``deadline`` by time.monotonic(); ``is_ours``: a Cohort source has it, so a run should take it."""

    batch: calls.BatchCommitted
    deadline: float
    is_ours: bool


class BatchReports:
    """Keeps the newest batch of each query until its runs have it; ``add_batch`` never waits."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._pending: dict[str, _Report] = {}
        self._runs: dict[str, _LiveRun] = {}
        self._next_look = 0.0
        self._missed: set[str] = set()
        self._closed = False
        self._thread = Supervised("cohort-batch-reports", self._wait, self._work, self._give_up)
        self._thread.start()

    def add_batch(self, batch: calls.BatchCommitted, *, is_ours: bool) -> None:
        """Queue a batch for the runs of its query, in place of an older batch of this query."""
        with self._changed:
            if not self._closed:
                self._pending[batch.query] = _Report(batch, time.monotonic() + PATIENCE_S, is_ours)
                self._changed.notify_all()

    def forget_query(self, query: str) -> None:
        """The query has ended."""
        with self._changed:
            self._pending.pop(query, None)
        self._missed.discard(query)
        # A successor may run already at the same port: it names its query itself.
        for run in list(self._runs.values()):
            if run.query == query:
                run.query = ""

    def close(self) -> None:
        """End the thread; queued batches are dropped."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.close()

    # --- the thread ------------------------------------------------------------------------------------

    def _wait(self) -> bool:
        with self._changed:
            while not self._pending and not self._closed:
                self._changed.wait(_IDLE_S)
            return not self._closed

    def _work(self) -> None:
        with self._changed:
            pending = dict(self._pending)
        self._find_runs()
        undelivered = [item for item in pending.values() if not self._deliver(item.batch)]
        now = time.monotonic()
        with self._changed:
            for item in pending.values():
                is_kept = item in undelivered and item.is_ours and now < item.deadline
                if not is_kept and self._pending.get(item.batch.query) is item:
                    del self._pending[item.batch.query]
                if item in undelivered and item.is_ours and not is_kept:
                    self._log_miss(item.batch)
            if undelivered and not self._closed:
                self._changed.wait(LOOK_S)  # for a run that is not there yet, or does not answer

    def _deliver(self, batch: calls.BatchCommitted) -> bool:
        """Report to each run that may serve this query; returns whether one does."""
        delivered, body = False, calls.encode(batch)
        for run_id, run in list(self._runs.items()):
            if run.query not in ("", batch.query):
                continue
            try:
                reply = calls.decode(run.link.call("BatchCommitted", body, CALL_S), calls.BatchCommittedReply)
            except (CoordinatorUnreachable, CoordinatorRefused, calls.CallError) as error:
                log.debug("run %s: %s", run_id, error)
                self._drop(run_id)
                continue
            run.query = reply.query
            delivered |= reply.query == batch.query
        return delivered

    def _find_runs(self) -> None:
        """Add new runs, and drop those that have ended."""
        if (now := time.monotonic()) < self._next_look:
            return
        self._next_look = now + LOOK_S
        try:
            live = {connection.run.run_id: connection for connection in connection_file.live()}
        except CohortError as error:  # no home directory, so no connection files
            log.debug("%s", error)
            live = {}
        for run_id, known_run in list(self._runs.items()):
            # After a fail-over the next run has the same id and port, but another process and maybe another query.
            if run_id not in live or live[run_id].pid != known_run.pid:
                self._drop(run_id)
        for run_id in live.keys() - self._runs.keys():
            run = live[run_id].run
            self._runs[run_id] = _LiveRun(Link("127.0.0.1", run.port, run.credentials), live[run_id].pid)

    def _drop(self, run_id: str) -> None:
        self._runs.pop(run_id).link.close()

    def _log_miss(self, batch: calls.BatchCommitted) -> None:
        if batch.query not in self._missed:
            self._missed.add(batch.query)
            log.warning(
                "query %s: its coordinator can't be found from here, so its Kafka group follows with the next trigger, and "
                "cohort_offsets_behind_latest_* has nothing. Let the listener run on the driver's host, as the driver's "
                "user, with the same COHORT_HOME",
                batch.name or batch.query,
            )

    @staticmethod
    def _give_up(error: CohortError) -> None:
        """Queries go on without the reports."""
        log.error("committed batches are not reported any more, the groups follow with the next trigger: %s", error)
