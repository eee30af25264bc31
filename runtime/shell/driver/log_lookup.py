"""What only the status wants to know of the logs: where they start, and which transactions are open.

It is asked in the background, at most every ``GAP_S``: where logs start while the status is read, open transactions
(``open_transactions``) as long as a query with ``read_committed`` runs, since one answer alone shows none.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Final

from sparkcohort.runtime.batches import open_transactions
from sparkcohort.runtime.batches.open_transactions import BothEnds, OpenTransaction
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.offsets_json import EARLIEST, LATEST
from sparkcohort.runtime.protocol.partitions import TopicPartition, names_of
from sparkcohort.runtime.shell.driver.discovery import Layout
from sparkcohort.runtime.shell.driver.list_offsets import ask_leaders
from sparkcohort.runtime.shell.driver.log_ends import LogEnds
from sparkcohort.runtime.shell.rpc.clock import now_ms
from sparkcohort.runtime.shell.rpc.threads import in_context
from sparkcohort.runtime.text import counted

log = logging.getLogger("sparkcohort.log_lookup")

GAP_S: Final = 10.0
PATIENCE_S: Final = 3.0

Offsets = Mapping[TopicPartition, int]


class LogLookup:
    """Looks starts and transactions up; every method may be called from any thread."""

    def __init__(self, log_ends: LogEnds, *, committed_only: bool) -> None:
        """``committed_only``: the ends are stable offsets, to be compared with the uncommitted ones."""
        self._log_ends, self._committed_only = log_ends, committed_only
        self._lock = threading.Lock()
        self._are_starts_due = False
        self._starts: Offsets = {}
        self._tracks: open_transactions.TransactionTracks = {}
        self._warned: set[TopicPartition] = set()  # of an open transaction, once a run each
        self._due = 0.0
        self._is_looking = self._closed = False

    def start(self) -> None:
        """Look from now on, without being asked, whether transactions are open; only where stable ends are known."""
        if self._committed_only:
            self._log_ends.on_tick(self._begin)

    def want(self) -> None:
        """The status shows where logs start: look soon."""
        self._are_starts_due = True
        self._begin()

    def starts(self) -> Offsets:
        """Where the logs start, as last heard."""
        return self._starts

    def open_transactions(self) -> dict[TopicPartition, OpenTransaction]:
        """The partitions that an open transaction holds up."""
        return open_transactions.standing(self._tracks, now_ms())

    def close(self) -> None:
        """Look no more; a round under way ends by itself."""
        self._closed = True

    def _begin(self) -> None:
        """Start a round in a thread that ends with it, once the last one is long enough ago."""
        with self._lock:
            if self._closed or self._is_looking or time.monotonic() < self._due:
                return
            self._is_looking = True
        try:
            threading.Thread(target=in_context(self._work), name="cohort-log-lookup", daemon=True).start()
        except RuntimeError as error:  # no thread to be had now: later
            log.debug("no look at the logs: %s", error)
            self._end_round()

    def _end_round(self) -> None:
        with self._lock:
            self._due, self._is_looking = time.monotonic() + GAP_S, False

    def _work(self) -> None:
        try:
            if self._committed_only:
                self._compare_ends()
            if self._are_starts_due:
                self._are_starts_due, layout = False, self._log_ends.layout()
                starts = {**self._starts, **self._ask(layout, EARLIEST)}
                self._starts = {tp: start for tp, start in starts.items() if tp in layout.leaders}
        except Exception:  # the query goes on without these figures
            log.exception("starts of logs and open transactions are not known now")
        finally:
            self._end_round()

    def _compare_ends(self) -> None:
        """Look whether transactions are open, and warn of those that stay so."""
        layout, answer = self._log_ends.layout(), self._log_ends.snapshot().answer
        # Uncommitted ends come first: a stable end that is younger lies below one only where a transaction is open.
        ends = self._ask(layout, LATEST)
        try:
            snapshot = self._log_ends.refresh(PATIENCE_S)
        except CohortError:  # the query ends, and says why
            return
        fresh = ends.keys() & snapshot.ends.keys() - snapshot.unreachable.keys() if snapshot.answer > answer else ()
        both_ends = {tp: BothEnds(snapshot.ends[tp], ends[tp]) for tp in fresh}
        tracks = {tp: track for tp, track in self._tracks.items() if tp in layout.leaders}
        self._tracks = open_transactions.after_round(tracks, both_ends, now_ms())
        standing = self.open_transactions()
        if late := sorted(standing.keys() - self._warned):
            self._warned |= standing.keys()
            log.warning(
                "%s: open transactions hold %s up, for %.0f s by now, as isolation.level is read_committed; "
                "kafka-transactions find-hanging names their producers",
                names_of(late),
                counted(sum(standing[tp].records for tp in late), "record"),
                max(standing[tp].seconds for tp in late),
            )

    def _ask(self, layout: Layout, spec: int) -> dict[TopicPartition, int]:
        """Kafka's ListOffsets with EARLIEST or LATEST; a silent broker costs the others nothing but time."""
        specs = {tp: spec for tp, leader in layout.leaders.items() if leader >= 0}
        answers, _ = ask_leaders(self._log_ends.client, layout, specs, PATIENCE_S, committed=False)
        return {tp: end.offset for tp, end in answers.items()}
