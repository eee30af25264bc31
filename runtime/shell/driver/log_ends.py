"""Where the logs end, now: asked for by one thread in the background, coalesced, with silent brokers set apart.

Nothing is asked while nobody waits for an answer, except for metadata (new topics and partitions, moved leaders) every
``metadata.max.age.ms``.  With ``isolation.level=read_committed`` the end is the last stable offset, as for Spark's
source; ``log_lookup`` tells what lies beyond it.  How brokers are asked is in ``list_offsets``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from confluent_kafka import KafkaException

from sparkcohort.runtime.batches import hold
from sparkcohort.runtime.batches.snapshot import Snapshot
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.error_codes import UNREACHABLE
from sparkcohort.runtime.protocol.offsets_json import EARLIEST
from sparkcohort.runtime.protocol.partitions import TopicPartition, names_of
from sparkcohort.runtime.shell.driver.discovery import Discovery, Layout
from sparkcohort.runtime.shell.driver.list_offsets import FIRST_S, Answers, Asker, ask_apart
from sparkcohort.runtime.shell.kafka import clients
from sparkcohort.runtime.shell.kafka.epoch_ends import EpochEndLookup
from sparkcohort.runtime.shell.kafka.uncommitted_ends import UncommittedEnds
from sparkcohort.runtime.shell.options.parse import SourceOptions
from sparkcohort.runtime.shell.process.threads import Supervised, look

log = logging.getLogger("sparkcohort.log_ends")

LOOK_UP_S = 5.0
LOST_LOOK_S = 1.0  # metadata age allowed while some partition is unreachable


class LogEnds:
    """Log end offsets of what a query reads; thread-safe."""

    def __init__(self, options: SourceOptions) -> None:
        """Nothing is opened before ``start``."""
        self._max_age_s = options.metadata_max_age_ms / 1000
        self._api_timeout_s = options.api_timeout_ms / 1000
        self._tries = max(options.fetch_retries, 1)
        self._retry_s = options.fetch_retry_interval_ms / 1000
        self.subscription = options.subscription
        self._discovery = Discovery(options)
        self._listener: Callable[[], None] | None = None
        lock = threading.RLock()
        self._changed = threading.Condition(lock)
        self._looking = threading.Condition(lock)  # the metadata thread sleeps apart: answers come often
        self._ended = threading.Event()
        self._asker = Asker(options.kafka, self._wake, self._fail)
        # A client is let go of by the thread that uses it: the garbage collector may run in one of librdkafka's own
        # threads, and a client that is destroyed there ends the process.
        looking, asking = self._discovery.release, self._asker.release
        self._looking_on = Supervised("cohort-metadata", self._wait_for_look, self._look, self._fail, ended=looking)
        self._asking = Supervised("cohort-log-ends", self._wait_for_question, self._answer, self._fail, ended=asking)
        self._looked, self._seen, self._untold, self._doubted = 0.0, 0, False, False
        self._asked = 0  # number of the newest request for answers
        self._layout = Layout({})
        self._served = 0  # and of the newest one answered
        self._looks = 0
        self._doubted = False
        self._began = 0.0
        self._reasons: dict[TopicPartition, str] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._epochs: dict[TopicPartition, int] = {}  # never changed, another one takes its place
        self.epoch_ends = EpochEndLookup(options.kafka, self._fail)
        self._committed_only = options.kafka.get("isolation.level") == "read_committed"
        self._uncommitted = UncommittedEnds(options.kafka)  # for the thread that plans
        self._failure: CohortError | None = None
        self._closed = False

    # --- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Connect, find the partitions, ask every leader once.

        Raises ``CohortError`` within ``kafka.default.api.timeout.ms``: wrong address, missing topic, no permission.
        """
        try:
            self._apply(self._discovery.first())
        except BaseException:
            self._discovery.release()  # the thread that would do it has not begun
            raise
        self._looked = time.monotonic()
        self._looking_on.start()
        self._asking.start()
        self.refresh(min(FIRST_S + 1.0, self._api_timeout_s))

    def close(self) -> None:
        """Stop asking; threads end by themselves and let go of their clients."""
        with self._changed:
            self._closed = True
            self._ended.set()
            self._looking_on.close()
            self._asking.close()
            self._asker.close()
            self.epoch_ends.close()
            self._uncommitted.release()
            self._changed.notify_all()
            self._looking.notify_all()

    # --- answers -----------------------------------------------------------------------------------

    def refresh(self, timeout_s: float) -> Snapshot:
        """Answers younger than this call, waited for at most ``timeout_s``.

        Brokers known to be silent are not waited for.

        Raises ``CohortError`` once the topics may not be read any more.
        """
        look()
        deadline = time.monotonic() + timeout_s
        with self._changed:
            self._asked += 1
            mine = self._asked
            self._changed.notify_all()
            while not self._closed and self._failure is None and self._served < mine:
                if not self._changed.wait(max(deadline - time.monotonic(), 0.0)):
                    break
            if self._failure is not None:
                raise self._failure
            return self._snapshot()

    def snapshot(self) -> Snapshot:
        """What is known without asking anybody."""
        with self._changed:
            return self._snapshot()

    def layout(self) -> Layout:
        """Which partitions there are, and who leads them, as last heard."""
        with self._changed:
            return self._layout

    def selects(self, tp: TopicPartition) -> bool:
        """Whether the options ask for this partition, be it there or not."""
        return self._discovery.selects(tp)

    def topics(self) -> Mapping[str, int]:
        """The topics read, with the number of partitions of each (for ``assign``: up to the highest one named)."""
        with self._changed:
            return self._layout.counts

    def racks(self) -> dict[str, list[frozenset[str]]]:
        """By topic, for each partition the racks of its replicas; empty where no option says that racks count."""
        with self._changed:
            known = self._layout.racks
        if not known:
            return {}
        nowhere = frozenset[str]()
        return {
            topic: [known.get(TopicPartition(topic, number), nowhere) for number in range(count)]
            for topic, count in self.topics().items()
        }

    def doubt(self) -> None:
        """Somebody has heard that what is known of the topics is out of date: the metadata are to be looked at soon."""
        with self._changed:
            self._doubted = True
            self._looking.notify_all()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` (from the metadata thread, outside any lock) whenever the set of partitions has changed."""
        self._listener = listener

    def beginnings(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first available offset of each partition.  Raises ``CohortError`` naming those whose broker is away."""
        return self._look_up(dict.fromkeys(partitions, EARLIEST))

    def at_timestamp(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset at or after each time in milliseconds, None where no record is that young."""
        found = self._look_up(times)
        return {tp: offset if offset >= 0 else None for tp, offset in found.items()}

    def behind_transactions(self, positions: Mapping[TopicPartition, int]) -> frozenset[TopicPartition]:
        """Those of the positions, all behind their log's end, that the log has: a transaction is open before them.

        So it is where an uncommitted reader has come to them.  The end is the last stable offset with ``read_committed``, and
        nothing is lost.  Those of which nobody tells are among them, since nothing speaks for a loss then.  ``LogLookup`` warns.
        """
        if not self._committed_only or not positions:
            return frozenset()
        try:
            ends = self._uncommitted.ask(positions, LOOK_UP_S)
        except (KafkaException, TimeoutError) as error:
            log.info("%s: not known whether a transaction is open: %s", names_of(positions), clients.text_of(error))
            return frozenset(positions)
        return frozenset(tp for tp, at in positions.items() if ends[tp] >= at)

    # --- inside ------------------------------------------------------------------------------------

    def _snapshot(self) -> Snapshot:
        known, now = self._layout.partitions, time.monotonic()
        ends = {tp: end for tp, end in self._ends.items() if tp in known}
        why = f"nobody could be asked yet: {self._asking.trouble}" if self._asking.trouble else hold.UNANSWERED
        unreachable = hold.unreachable(known, ends, self._reasons, self._layout.leaderless, why)
        ids, epochs = self._layout.ids, self._epochs
        return Snapshot(ends, unreachable, known, now, ids, self._served, self._looks, epochs)

    def _apply(self, layout: Layout) -> bool:
        """Take over new metadata; True when partitions came or went."""
        with self._changed:
            changed = layout.leaders.keys() != self._layout.leaders.keys()
            self._layout = layout
            self._looks += 1
            self._ends = {tp: end for tp, end in self._ends.items() if tp in layout.leaders}
            return changed

    def _look(self) -> None:
        """The metadata thread's work."""
        looked, seen, self._doubted = time.monotonic(), self._asked, False
        try:
            layout = self._discovery.again()
        except CohortError as error:  # no permission any more
            self._fail(error)
            return
        if layout is not None and self._apply(layout):
            self._untold = True
        if self._untold and self._listener is not None:
            self._listener()
        self._looked, self._seen, self._untold = looked, seen, False

    def _wait_for_look(self) -> bool:
        """Every maximum age, sooner while something is wrong and somebody asks."""
        with self._changed:
            while not self._closed and self._failure is None:
                urgent = self._asked > self._seen and bool(self._reasons or self._layout.leaderless)
                urgent |= self._discovery.in_doubt or self._doubted
                due = self._looked + (min(LOST_LOOK_S, self._max_age_s) if urgent else self._max_age_s)
                left = due - time.monotonic()
                if left <= 0:
                    return True
                self._looking.wait(left)
            return False

    def _fail(self, error: CohortError) -> None:
        with self._changed:
            self._failure = error
            self._changed.notify_all()

    def _wake(self) -> None:
        """A silent broker answered: what is shown as unreachable is worth asking again."""
        with self._changed:
            self._asked += 1
            self._changed.notify_all()

    def _wait_for_question(self) -> bool:
        with self._changed:
            while not self._closed and self._served >= self._asked:
                self._changed.wait()
            return not self._closed

    def _answer(self) -> None:
        """The asking thread's work: keep the gap, ask everybody once, publish."""
        self._keep_gap()
        with self._changed:
            asked, layout = self._asked, self._layout
        self._began = time.monotonic()
        self._publish(asked, *self._asker.ends(layout))

    def _keep_gap(self) -> None:
        """Wait until the last round is long enough ago: longer where a round is dear (thousands of partitions)."""
        left = self._began + self._asker.gap_s() - time.monotonic()
        if left > 0:
            self._pause(left)

    def _publish(self, asked: int, found: Answers, reasons: Mapping[TopicPartition, str]) -> None:
        with self._changed:
            news = bool(reasons) and not self._reasons
            there = {tp: end for tp, end in found.items() if tp in self._layout.leaders}
            self._ends |= {tp: end.offset for tp, end in there.items()}
            moved = {tp: end.epoch for tp, end in there.items() if end.epoch >= 0 and self._epochs.get(tp) != end.epoch}
            if moved:
                self._epochs = {**self._epochs, **moved}
            self._reasons, self._served = dict(reasons), asked
            self._changed.notify_all()
            if news:
                self._looking.notify_all()

    def _look_up(self, specs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Offsets by timestamp, tried ``fetchOffset.numRetries`` times."""
        left, found = dict(specs), dict[TopicPartition, int]()
        reasons: dict[TopicPartition, str] = {}
        for attempt in range(self._tries):
            if attempt:
                # Asking for ends is what makes the metadata thread look for a leader that has come back.
                began = time.monotonic()
                self.refresh(self._retry_s)
                self._pause(max(began + self._retry_s - time.monotonic(), 0.0))
            with self._changed:
                if self._failure is not None:
                    raise self._failure
                layout, consumer = self._layout, self._discovery.client()
            if self._closed or consumer is None:
                raise CohortError("the query is ending", "COORDINATOR_NOT_AVAILABLE")
            more, reasons = ask_apart(consumer, left, layout, LOOK_UP_S)
            found |= {tp: end.offset for tp, end in more.items()}
            left = {tp: spec for tp, spec in left.items() if tp not in found}
            if not left:
                return found
        why = next(iter(reasons.values()), hold.LEADERLESS)
        raise CohortError(
            f"no offsets of {names_of(left)} after {self._tries} tries (fetchOffset.numRetries): {why}; "
            "their brokers are down or cut off, or the partitions are gone",
            UNREACHABLE,
        )

    def _pause(self, seconds: float) -> None:
        self._ended.wait(seconds)
