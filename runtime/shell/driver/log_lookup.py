"""What only the status wants to know of the logs: where they start, when what waits was written, which transactions are open.

Members tell of the records that they have fetched (``record_ages_watch``).  Before they come, and on executors without an
agent, nobody has: then the first batches from the committed positions on are read here, a few at a time.  All of it
happens in the background, at most every ``GAP_S``, and only while somebody asks for the status; but open transactions
(``open_transactions``) are looked for as long as a query with ``read_committed`` runs, since a warning tells of them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final

from confluent_kafka import KafkaException

from sparkcohort.runtime.batches import open_transactions
from sparkcohort.runtime.batches.open_transactions import BothEnds, OpenTransaction
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.offsets_json import EARLIEST, LATEST
from sparkcohort.runtime.protocol.partitions import TopicPartition, names_of
from sparkcohort.runtime.shell.driver.discovery import Layout
from sparkcohort.runtime.shell.driver.list_offsets import UNKNOWN_S, KeptClient, NoAnswer, ask_apart, ask_in, calls_for
from sparkcohort.runtime.shell.driver.log_ends import LogEnds
from sparkcohort.runtime.shell.kafka.consumer.first_records import Found, read_first_records
from sparkcohort.runtime.shell.process.clock import now_ms
from sparkcohort.runtime.shell.process.threads import Supervised
from sparkcohort.runtime.text import counted

log = logging.getLogger("sparkcohort.log_lookup")

ROUND_S: Final = 3.0
"""How long a round waits for records; who has given none by then is asked again when somebody wants to know."""
GAP_S: Final = 10.0
PATIENCE_S, ALONE_S = 3.0, 1.0  # of all leaders at once, of one leader and topic
MOST: Final = 500
"""Partitions in a round: each gives at least a batch of its producer's, however little of it is wanted."""

Offsets = Mapping[TopicPartition, int]


class LogLookup:
    """Looks starts and times up; every method may be called from any thread."""

    def __init__(self, conf: Mapping[str, str], tell: Callable[[Found], None], log_ends: LogEnds | None = None) -> None:
        """``conf`` are librdkafka settings; ``tell`` gets the times found, in the thread that looks.  Nothing is opened before.

        ``log_ends`` are the stable ends, if they are compared with the uncommitted ones.
        """
        self._conf, self._tell, self._log_ends = conf, tell, log_ends
        self._client = KeptClient({**conf, "isolation.level": "read_uncommitted"})  # for the starts it is all the same
        self._changed = threading.Condition()
        self._positions: dict[TopicPartition, int] = {}
        self._layout: Layout | None = None
        self._starts: dict[TopicPartition, int] = {}
        self._tracks: open_transactions.TransactionTracks = {}
        self._due = 0.0
        self._started = self._closed = False
        self._thread = Supervised("cohort-log-lookup", self._wait, self._work, _give_up, ended=self._client.release)

    def start(self) -> None:
        """Look from now on, without being asked, whether transactions are open; only where stable ends are known."""
        with self._changed:
            started, self._started = self._started, True
        if not started:
            self._thread.start()

    def want(self, layout: Layout, positions: Offsets) -> None:
        """Somebody would like to know where these logs start, and when the first records from ``positions`` on were written."""
        with self._changed:
            if self._closed:
                return
            self._layout, self._positions = layout, dict(positions)
            self._changed.notify_all()
        self.start()

    def starts(self) -> Offsets:
        """Where the logs start, as last heard."""
        with self._changed:
            return dict(self._starts)

    def open_transactions(self) -> dict[TopicPartition, OpenTransaction]:
        """The partitions that an open transaction holds up."""
        with self._changed:
            return open_transactions.standing(self._tracks, now_ms())

    def close(self) -> None:
        """Look no more; a round under way ends by itself."""
        with self._changed:
            self._closed = True
            self._thread.close()
            self._changed.notify_all()

    def _wait(self) -> bool:
        with self._changed:
            while not self._closed:
                wanted, left = self._layout is not None or self._log_ends is not None, self._due - time.monotonic()
                if wanted and left <= 0:
                    return True
                self._changed.wait(left if wanted else None)
            return False

    def _work(self) -> None:
        with self._changed:
            layout, positions = self._layout, self._positions
            self._layout = None
        try:
            if self._log_ends is not None:
                self._compare_ends(self._log_ends)
            if layout is not None:
                self._ask_starts(layout)
                chosen = dict(islice(positions.items(), MOST))
                read_first_records(self._conf, chosen, ROUND_S, self._tell, lambda: self._closed)
        finally:
            self._due = time.monotonic() + GAP_S

    def _ask_starts(self, layout: Layout) -> None:
        found = self._ask(layout, EARLIEST)
        with self._changed:
            known = self._starts | found
            self._starts = {tp: start for tp, start in known.items() if tp in layout.leaders}

    def _compare_ends(self, log_ends: LogEnds) -> None:
        """Look whether transactions are open, and warn of those that stay so."""
        layout, answer = log_ends.layout(), log_ends.snapshot().answer
        # Uncommitted ends come first: a stable end that is younger lies below one only where a transaction is open.
        ends = self._ask(layout, LATEST)
        try:
            snapshot = log_ends.refresh(PATIENCE_S)
        except CohortError:  # the query ends, and says why
            return
        heard = ends.keys() & snapshot.ends.keys() - snapshot.unreachable.keys() if snapshot.answer > answer else ()
        told, now = {tp: BothEnds(snapshot.ends[tp], ends[tp]) for tp in heard}, now_ms()
        with self._changed:
            before = {tp: track for tp, track in self._tracks.items() if tp in layout.leaders}
            self._tracks = open_transactions.after_round(before, told, now)
            late = open_transactions.worth_warning(before, self._tracks, now)
            held = open_transactions.standing(self._tracks, now)
        if late:
            log.warning(
                "%s: open transactions hold %s up, for %.0f s by now, as isolation.level is read_committed; "
                "kafka-transactions find-hanging names their producers",
                names_of(late),
                counted(sum(held[tp].records for tp in late), "record"),
                max(held[tp].seconds for tp in late),
            )

    def _ask(self, layout: Layout, spec: int) -> dict[TopicPartition, int]:
        """Kafka's ListOffsets with EARLIEST or LATEST; a silent broker costs the others nothing but time."""
        specs = {tp: spec for tp, leader in layout.leaders.items() if leader >= 0}
        consumer = self._client.get()
        try:
            found, _, _ = ask_in(calls_for(len(specs), UNKNOWN_S), consumer, specs, PATIENCE_S)
        except (NoAnswer, KafkaException):
            found, _ = ask_apart(consumer, specs, layout, ALONE_S)
        if specs:
            self._client.answered(yes=bool(found))
        return {tp: end.offset for tp, end in found.items()}


def _give_up(error: CohortError) -> None:
    """A query goes on without these figures."""
    log.error("no more starts of logs, ages of records that no member has fetched, nor open transactions: %s", error)
