"""What only metrics want to know of the logs: where they start, and when records were written that no member has fetched.

Members tell of the records that they have fetched (``record_ages_watch``).  Before they come, and on executors without an
agent, nobody has: then the first batches from the committed positions on are read here, a few at a time.  All of it
happens in the background, at most every ``GAP_S``, and only while somebody asks for the status.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final

from confluent_kafka import KafkaException

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.offsets_json import EARLIEST
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver.discovery import Layout
from sparkcohort.runtime.shell.driver.list_offsets import UNKNOWN_S, KeptClient, NoAnswer, ask_apart, ask_in, calls_for
from sparkcohort.runtime.shell.kafka import clients
from sparkcohort.runtime.shell.kafka.consumer.first_records import Found, read_first_records
from sparkcohort.runtime.shell.process.threads import Supervised

ROUND_S: Final = 3.0
"""How long a round waits for records; who has given none by then is asked again when somebody wants to know."""
GAP_S: Final = 10.0
STARTS_S, ALONE_S = 3.0, 1.0  # of all leaders at once, of one leader and topic
MOST: Final = 500
"""Partitions in a round: each gives at least a batch of its producer's, however little of it is wanted."""

Offsets = Mapping[TopicPartition, int]


class LogLookup:
    """Looks starts and times up; every method may be called from any thread."""

    def __init__(self, conf: Mapping[str, str], tell: Callable[[Found], None]) -> None:
        """``conf`` are librdkafka settings; ``tell`` gets the times found, in the thread that looks.  Nothing is opened before."""
        self._conf, self._tell = conf, tell
        self._client = KeptClient(conf)
        self._changed = threading.Condition()
        self._positions: dict[TopicPartition, int] = {}
        self._layout: Layout | None = None
        self._starts: dict[TopicPartition, int] = {}
        self._due = 0.0
        self._started = self._closed = False
        self._thread = Supervised("cohort-log-lookup", self._wait, self._work, _give_up, ended=self._client.release)

    def want(self, layout: Layout, positions: Offsets) -> None:
        """Somebody would like to know where these logs start, and when the first records from ``positions`` on were written."""
        with self._changed:
            if self._closed:
                return
            self._layout, self._positions = layout, dict(positions)
            self._changed.notify_all()
            started, self._started = self._started, True
        if not started:
            self._thread.start()

    def starts(self) -> Offsets:
        """Where the logs start, as last heard."""
        with self._changed:
            return dict(self._starts)

    def close(self) -> None:
        """Look no more; a round under way ends by itself."""
        with self._changed:
            self._closed = True
            self._thread.close()
            self._changed.notify_all()

    def _wait(self) -> bool:
        with self._changed:
            while not self._closed:
                left = self._due - time.monotonic()
                if self._layout is not None and left <= 0:
                    return True
                self._changed.wait(None if self._layout is None else left)
            return False

    def _work(self) -> None:
        with self._changed:
            layout, positions = self._layout, self._positions
            self._layout = None
        try:
            if layout is not None:
                self._ask_starts(layout)
            chosen = dict(islice(positions.items(), MOST))
            read_first_records(self._conf, chosen, ROUND_S, self._tell, lambda: self._closed)
        finally:
            self._due = time.monotonic() + GAP_S

    def _ask_starts(self, layout: Layout) -> None:
        """Kafka's ListOffsets with EARLIEST_TIMESTAMP; a silent broker costs the others nothing but time."""
        specs = {tp: EARLIEST for tp, leader in layout.leaders.items() if leader >= 0}
        consumer = self._client.get()
        try:
            found, _, _ = ask_in(calls_for(len(specs), UNKNOWN_S), consumer, specs, STARTS_S)
        except (NoAnswer, KafkaException):
            found, _ = ask_apart(consumer, specs, layout, ALONE_S)
        if specs:
            self._client.answered(yes=bool(found))
        with self._changed:
            known = self._starts | {tp: start.offset for tp, start in found.items()}
            self._starts = {tp: start for tp, start in known.items() if tp in layout.leaders}


def _give_up(error: CohortError) -> None:
    """A query goes on without these figures."""
    clients.log.error("no more starts of logs, nor ages of records that no member has fetched: %s", error)
