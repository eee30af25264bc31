"""Where the logs end, now: asked for on the thread of the one client, coalesced, with silent brokers set apart.

Nothing is asked while no call waits for an answer, except for metadata (new topics and partitions, moved leaders) every
``metadata.max.age.ms``.  With ``isolation.level=read_committed`` the end is the last stable offset, as for Spark's
source; ``log_lookup`` tells what lies beyond it.  How brokers are asked is in ``list_offsets``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future

from sparkcohort.runtime.batches import hold
from sparkcohort.runtime.batches.snapshot import Snapshot
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.fetch_messages import Metadata
from sparkcohort.runtime.protocol.error_codes import UNREACHABLE
from sparkcohort.runtime.protocol.offsets_json import EARLIEST, LATEST
from sparkcohort.runtime.protocol.partitions import TopicPartition, names_of
from sparkcohort.runtime.shell.driver.discovery import LOOK_TIMEOUT_S, Discovery, Layout
from sparkcohort.runtime.shell.driver.list_offsets import FIRST_S, EndRounds, ask_leaders
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient
from sparkcohort.runtime.shell.kafka.epoch_ends import EpochEndLookup
from sparkcohort.runtime.shell.options.connection_settings import TransportError
from sparkcohort.runtime.shell.options.parse import SourceOptions

log = logging.getLogger("sparkcohort.log_ends")

LOOK_UP_S = 5.0
LOST_LOOK_S = 1.0  # metadata age allowed while some partition is unreachable
TICK_S = 1.0
MOVED_LOOK_S = 0.25  # the same while a broker says that it doesn't lead what it was asked for


class LogEnds:
    """Log end offsets of what a query reads; thread-safe."""

    def __init__(self, options: SourceOptions) -> None:
        """Nothing is opened before ``start``."""
        self._max_age_s = options.metadata_max_age_ms / 1000
        self._api_timeout_s = options.api_timeout_ms / 1000
        self._tries = max(options.fetch_retries, 1)
        self._retry_s = options.fetch_retry_interval_ms / 1000
        self.subscription = options.subscription
        self._committed_only = options.kafka.get("isolation.level") == "read_committed"
        self._discovery = Discovery(options)
        self.client = ClusterClient(options.kafka, self._fail, self._step)
        self.epoch_ends = EpochEndLookup(self.client, lambda: self.layout().leaders, self.doubt)
        self._listener: Callable[[], None] | None = None
        self._on_tick: Callable[[], None] | None = None
        self._changed = threading.Condition(threading.RLock())
        # What only the client's thread knows of.
        self._rounds = EndRounds(self.client, committed=self._committed_only)
        self._round: int | None = None  # up to which request for answers the round under way serves
        self._look: Future[Metadata] | None = None
        self._looked_at = 0.0
        self._served_by_look = 0  # the newest request for answers when metadata were looked at last
        # What the lock guards.
        self._doubted = self._started = self._closed = False
        self._requests = 0  # number of the newest request for answers
        self._served = 0  # and of the newest one answered
        self._looks = 0
        self._layout = Layout({})
        self._reasons: dict[TopicPartition, str] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._epochs: dict[TopicPartition, int] = {}  # never changed, another one takes its place
        self._failure: CohortError | None = None

    # --- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Connect, find the partitions, ask every leader once.

        Raises ``CohortError`` within ``kafka.default.api.timeout.ms``: wrong address, missing topic, no permission.
        """
        self._apply(self._discovery.first(self.client))
        self._looked_at = time.monotonic()
        self._started = True
        self.refresh(min(FIRST_S + 1.0, self._api_timeout_s))

    def close(self) -> None:
        """Stop asking; the client's thread ends by itself and closes its connections."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self.client.close()

    # --- answers -----------------------------------------------------------------------------------

    def refresh(self, timeout_s: float) -> Snapshot:
        """Answers younger than this call, waited for at most ``timeout_s``.

        Brokers known to be silent are not waited for.

        Raises ``CohortError`` once the topics may not be read any more.
        """
        deadline = time.monotonic() + timeout_s
        with self._changed:
            self._requests += 1
            request = self._requests
            self.client.wake()
            while not self._closed and self._failure is None and self._served < request:
                if not self._changed.wait(max(deadline - time.monotonic(), 0.0)):
                    break
            if self._failure is not None:
                raise self._failure
            return self._snapshot()

    def snapshot(self) -> Snapshot:
        """What is known now; asks no broker."""
        with self._changed:
            return self._snapshot()

    def layout(self) -> Layout:
        """The partitions and their leaders by the last metadata."""
        with self._changed:
            return self._layout

    def topics(self) -> Mapping[str, int]:
        """The topics read, with the number of partitions of each (for ``assign``: up to the highest one named)."""
        with self._changed:
            return self._layout.counts

    def racks(self) -> dict[str, list[frozenset[str]]]:
        """By topic, for each partition the racks of its replicas; empty where no option says that racks count."""
        with self._changed:
            racks = self._layout.racks
        if not racks:
            return {}
        nowhere = frozenset[str]()
        return {
            topic: [racks.get(TopicPartition(topic, number), nowhere) for number in range(count)]
            for topic, count in self.topics().items()
        }

    def doubt(self) -> None:
        """Have the metadata read soon: an answer contradicts them."""
        with self._changed:
            self._doubted = True
            self.client.wake()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` (from the client's thread, outside any lock) whenever the set of partitions has changed."""
        self._listener = listener

    def on_tick(self, call: Callable[[], None]) -> None:
        """Call this every ``TICK_S`` or sooner, from the client's thread: it must not wait."""
        self._on_tick = call
        self.client.wake()

    def beginnings(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first available offset of each partition.  Raises ``CohortError`` naming those whose broker is away."""
        return self._look_up(dict.fromkeys(partitions, EARLIEST))

    def at_timestamp(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset at or after each time in milliseconds, None where no record is that young."""
        offsets = self._look_up(times)
        return {tp: offset if offset >= 0 else None for tp, offset in offsets.items()}

    def behind_transactions(self, positions: Mapping[TopicPartition, int]) -> frozenset[TopicPartition]:
        """Those of the positions, all behind their log's end, that the log has: a transaction is open before them.

        So it is where an uncommitted reader has come to them.  The end is the last stable offset with ``read_committed``, and
        nothing is lost.  Those without an answer are among them, since nothing speaks for a loss then.  ``LogLookup`` warns.
        """
        if not self._committed_only or not positions:
            return frozenset()
        specs = dict.fromkeys(positions, LATEST)
        ends, reasons = ask_leaders(self.client, self.layout(), specs, LOOK_UP_S, committed=False)
        for tp, reason in reasons.items():
            log.info("%s: not known whether a transaction is open: %s", names_of([tp]), reason)
        return frozenset(tp for tp, offset in positions.items() if tp in reasons or ends[tp].offset >= offset)

    # --- inside ------------------------------------------------------------------------------------

    def _snapshot(self) -> Snapshot:
        partitions = self._layout.partitions
        ends = {tp: end for tp, end in self._ends.items() if tp in partitions}
        reason = (
            f"no broker could be asked yet: {self.client.failure_reason}"
            if self.client.failure_reason
            else hold.UNANSWERED
        )
        unreachable = hold.unreachable(partitions, ends, self._reasons, self._layout.leaderless, reason)
        ids, epochs = self._layout.ids, self._epochs
        return Snapshot(ends, unreachable, partitions, ids, self._served, self._looks, epochs)

    def _apply(self, layout: Layout) -> bool:
        """Take over new metadata; True when partitions came or went."""
        with self._changed:
            changed = layout.leaders.keys() != self._layout.leaders.keys()
            self._layout = layout
            self._looks += 1
            self._ends = {tp: end for tp, end in self._ends.items() if tp in layout.leaders}
            return changed

    def _fail(self, error: CohortError) -> None:
        with self._changed:
            self._failure = error
            self._changed.notify_all()

    # --- the client's thread -----------------------------------------------------------------------------

    def _step(self, now: float) -> float:
        """Take what has come, ask what is due; returns when there is more to do."""
        if not self._started or self._closed or self._failure is not None:
            return float("inf")
        due = self._step_look(now)
        if self._on_tick is not None:
            self._on_tick()
            due = min(due, now + TICK_S)
        if self._rounds.step(self._layout):
            with self._changed:
                self._requests += 1  # a silent broker has answered: what is shown as unreachable is worth asking again
        if self._round is not None and self._rounds.is_over():
            self._publish(self._round)
            self._round = None
        if self._round is None and self._served < self._requests:
            if now < self._rounds.next_begin():
                due = min(due, self._rounds.next_begin())
            else:
                serves = self._requests
                self._rounds.begin(self._layout)
                self._round = serves
                due = now if self._rounds.is_over() else due
        return min(due, self._rounds.due())

    def _step_look(self, now: float) -> float:
        """Look at the metadata every maximum age, sooner while something is wrong and answers are asked for."""
        if self._look is not None and self._look.done():
            answer, self._look = self._look, None
            self._take_metadata(answer)
        if self._look is not None:
            return float("inf")
        wrong = self._requests > self._served_by_look and bool(self._reasons or self._layout.leaderless)
        age_s = LOST_LOOK_S if wrong or self._discovery.in_doubt or self._doubted else self._max_age_s
        if wrong and self._rounds.has_refusals():
            age_s = MOVED_LOOK_S
        due = self._looked_at + min(age_s, self._max_age_s)
        if now < due:
            return due
        self._looked_at, self._served_by_look, self._doubted = now, self._requests, False
        self._look = self.client.ask(self._discovery.question(), None, LOOK_TIMEOUT_S)
        return float("inf")

    def _take_metadata(self, answer: Future[Metadata]) -> None:
        try:
            if self._apply(self._discovery.next_layout(answer.result())) and self._listener is not None:
                self._listener()
        except TransportError as error:
            log.debug("no metadata: %s", error)
        except CohortError as error:  # no permission any more
            self._fail(error)

    def _publish(self, served: int) -> None:
        with self._changed:
            ends = {tp: end for tp, end in self._rounds.answers.items() if tp in self._layout.leaders}
            self._ends |= {tp: end.offset for tp, end in ends.items()}
            newer = {tp: end.epoch for tp, end in ends.items() if end.epoch >= 0 and self._epochs.get(tp) != end.epoch}
            if newer:
                self._epochs = {**self._epochs, **newer}
            self._rounds.answers = {}
            self._reasons, self._served = self._rounds.reasons(self._layout), served
            self._changed.notify_all()

    # --- the caller's thread -----------------------------------------------------------------------------

    def _look_up(self, specs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Offsets by timestamp, tried ``fetchOffset.numRetries`` times."""
        pending, offsets = dict(specs), dict[TopicPartition, int]()
        reasons: dict[TopicPartition, str] = {}
        for attempt in range(self._tries):
            if attempt:
                # Asking for ends is what makes the metadata thread look for a leader that has come back.
                began = time.monotonic()
                self.refresh(self._retry_s)
                with self._changed:
                    self._changed.wait_for(lambda: self._closed, began + self._retry_s - time.monotonic())
            with self._changed:
                if self._failure is not None:
                    raise self._failure
                layout = self._layout
            if self._closed:
                raise CohortError("the query is ending", "COORDINATOR_NOT_AVAILABLE")
            more, reasons = ask_leaders(self.client, layout, pending, LOOK_UP_S, committed=self._committed_only)
            offsets |= {tp: end.offset for tp, end in more.items()}
            pending = {tp: spec for tp, spec in pending.items() if tp not in offsets}
            if not pending:
                return offsets
        reason = next(iter(reasons.values()), hold.LEADERLESS)
        raise CohortError(
            f"no offsets of {names_of(pending)} after {self._tries} tries (fetchOffset.numRetries): {reason}; "
            "their brokers are down or cut off, or the partitions are gone",
            UNREACHABLE,
        )
