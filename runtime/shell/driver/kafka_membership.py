"""The driver as a member of the real Kafka group: static, never fetching, the one place where offsets are committed.

One thread owns the client: it polls, and between polls runs what others ask for (confluent-kafka lets one thread at a
time into a client, and a polling thread would starve the rest).  That ownership is also what makes fencing tight:
librdkafka cannot rejoin while the thread is busy, since a rejoin waits for our revocation callback.  Hence a commit
always goes out under a membership that was *verified* after its own join: no run number above ours in the group.

Take-over, as Kafka's broker does it (KIP-345): the newest joiner of an instance id gets the membership, the one before
gets a fatal FENCED_INSTANCE_ID.  Newest joiner is not newest driver: one that was frozen past its session rejoins when
it thaws.  So a fenced member first *watches* the commit metadata.  A later run's number there ends it for good; when
none appears, it joins again with a new client.  The thawed one finds the higher number right after its join and ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Position

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.run_epoch import Reservation, encode, of_topic
from sparkcohort.runtime.protocol.partitions import TopicPartition, names_of
from sparkcohort.runtime.shell.driver.client_thread import Again, CommitDelayed, Jobs
from sparkcohort.runtime.shell.driver.foreign_members import Strangers
from sparkcohort.runtime.shell.driver.membership_state import Committed, State, committed, committed_or, settings
from sparkcohort.runtime.shell.kafka import clients, errors
from sparkcohort.runtime.shell.options.parse import SourceOptions
from sparkcohort.runtime.shell.process.threads import Supervised, look

log = clients.log

POLL_S = 0.03
READ_TIMEOUT_S = 5.0
WATCH_S = 3.0  # a newer run reserves its number within milliseconds of its join; doubled at each further fencing
WATCH_GAP_S = 0.25
LOOK_GAP_S = 1.0
HEAR_GAP_S = 0.1  # while the group is being described
CLOSE_S = 3.0
STUCK_S = 20.0  # and two sessions: joining takes no longer unless nobody answers, and then a new client does no harm

_FENCED = frozenset({KafkaError.FENCED_INSTANCE_ID, KafkaError._FENCED, KafkaError._FATAL})
_GONE = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC})


class GroupMembership:
    """One static membership; methods may be called from any thread."""

    def __init__(
        self,
        options: SourceOptions,
        topics: Callable[[], Mapping[str, int]],
        doubted: Callable[[], None] | None = None,
    ) -> None:
        """``topics`` tells the topics read and their partition counts, now and whenever asked (``LogEnds.topics``).

        ``doubted`` is called when the brokers say otherwise (``LogEnds.doubt``).
        """
        self._options = options
        self._topics = topics
        self._doubted = doubted
        self._subscribed: tuple[str, ...] = ()
        self._conf = {**options.kafka, "group.id": options.group_id}
        # Short against the limit of ``start``: why nobody answers (no permission, say) is told between two tries.
        self._read_timeout_s = min(READ_TIMEOUT_S, options.api_timeout_ms / 4000)
        self._strangers = Strangers(
            options.kafka, options.group_id, options.group_instance_id, options.session_timeout_ms
        )
        self.reservation = Reservation()
        self.ids: Mapping[str, str] = {}  # of the topics that the offsets to commit are of, as far as known
        self.epochs: Mapping[TopicPartition, int] = {}  # of the leaders whose logs had them last, as far as known
        self._changed = threading.Condition()
        self._jobs = Jobs(self._check, self._changed)
        self._state = State.JOINING
        self._failure: CohortError | None = None
        self._assigned: frozenset[TopicPartition] | None = None
        self._closing = self._known = self._joined_once = self._replace = False
        self._last: dict[TopicPartition, int] = {}  # committed offsets known under this membership
        self._fencings, self._refusals = 0, errors.Refusals()
        self._watch_until = self._next_watch = self._next_look = 0.0
        self._stuck_s = STUCK_S + 2 * options.session_timeout_ms / 1000
        self._joining_since = time.monotonic()
        self._consumer: Consumer | None = None
        self._thread = Supervised(
            "cohort-kafka-group", self._goes_on, self._turn, self._fail, amend=self._amend, ended=self._on_end
        )

    # --- for everybody -------------------------------------------------------------------------------

    def start(self, timeout_s: float) -> None:
        """Join, and find out what earlier runs have left.

        Raises ``CohortError``: no permission on group or topic, another protocol in the way, no answer in time.
        """
        self._consumer = self._new_client()
        self._thread.start()
        deadline, joined = time.monotonic() + timeout_s, False
        while not joined and time.monotonic() < deadline:
            look()
            with self._changed:
                joined = self._changed.wait_for(lambda: self._state in (State.MEMBER, State.ENDED), LOOK_GAP_S)
        self._check()
        if not joined:
            raise errors.not_joined(self._options, timeout_s, self._strangers.everybody())

    def failure(self) -> CohortError | None:
        """What ended the membership for good, or None."""
        return self._failure

    def strangers(self) -> int:
        """How many consumers of others have been found with partitions that this query reads."""
        return self._strangers.found

    @property
    def state(self) -> State:
        """Where the membership stands."""
        return self._state

    def assigned(self) -> frozenset[TopicPartition]:
        """What the real group has assigned to this member now."""
        return self._assigned or frozenset()

    def committed(
        self, partitions: Iterable[TopicPartition], timeout_s: float = 30.0
    ) -> dict[TopicPartition, Committed]:
        """What is committed for each partition.  Raises ``CohortError``: an error is never "no offset"."""
        wanted = tuple(partitions)
        return self._jobs.insist(
            lambda: self._read(wanted), timeout_s, f"committed offsets of group {self._options.group_id}"
        )

    def commit(
        self, offsets: Mapping[TopicPartition, tuple[int, str]], timeout_s: float = 30.0, *, reset: bool = False
    ) -> dict[TopicPartition, int]:
        """Commit offset and metadata of each partition and wait; returns the offsets that Kafka has now.

        An offset below the committed one is replaced by that one (law I6), unless ``reset``.  Partitions that no longer
        exist are left out.  Raises ``CommitDelayed`` after ``timeout_s`` of retrying, ``CohortError`` for what
        ended the membership.
        """
        return self._jobs.insist(
            lambda: self._commit(offsets, reset=reset), timeout_s, f"commit to group {self._options.group_id}"
        )

    def reserve(
        self,
        starts: Mapping[TopicPartition, int],
        timeout_s: float = 30.0,
        *,
        pin: str = "",
        plan: str = "",
        reset: bool = False,
    ) -> Reservation:
        """Commit this run's number and a (further) block of generations, with all of ``starts``.

        ``starts`` are offsets for what has none committed yet (or, with ``reset``, for all); ``pin`` and ``plan`` mark them
        as the start of batch 0.  Call it as soon as start offsets are known, and when ``reservation.last_generation`` is near.
        """
        return self._jobs.insist(
            lambda: self._reserve(starts, pin, plan, reset=reset),
            timeout_s,
            f"reservation in group {self._options.group_id}",
        )

    def close(self) -> None:
        """Stop without leaving: the static membership is there for the next run until its session ends."""
        self.end()
        self._thread.join(CLOSE_S)

    def end(self) -> None:
        """As ``close``, without waiting for the thread's end."""
        self._closing = True
        self._thread.close()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closing:
            raise CommitDelayed(f"the membership of group {self._options.group_id} is closed")

    # --- the owning thread -----------------------------------------------------------------------------

    def _goes_on(self) -> bool:
        return not self._closing and self._failure is None

    def _turn(self) -> None:
        consumer = self._client()
        try:
            self._jobs.serve(POLL_S)  # waits for one, so that a commit need not wait for a poll
            message = consumer.poll(0)
            if message is not None:
                self._on_message(message)
            self._advance()
        except CohortError as error:
            self._fail(error)

    def _amend(self) -> None:
        """After an error that nobody thought of it is not known how the client stands: another one joins."""
        self._jobs.amend()
        self._drop_client()
        self._assigned = None
        self._last.clear()
        if self._state is State.MEMBER:
            self._to(State.JOINING)

    def _on_end(self) -> None:
        self._to(State.ENDED)
        self._drop_client()
        self._jobs.refuse()

    def _advance(self) -> None:
        """What is due in this state."""
        now = time.monotonic()
        if self._known and self._state in (State.MEMBER, State.JOINING) and now >= self._next_look:
            self._look(now)
        elif self._state is not State.MEMBER and now >= self._next_watch:
            self._next_watch = now + WATCH_GAP_S
            if not self._known:
                self._get_to_know()
            elif self._state is State.WATCHING:
                self._watch(now)
            elif self._assigned is not None or not self._subscribed:
                self._verify()
            if self._state is State.JOINING and now >= self._joining_since + self._stuck_s:
                self._begin_anew(now)

    def _get_to_know(self) -> None:
        """Before the first join: what earlier runs have left."""
        try:
            self.reservation.observe(self._texts())
        except Again as error:
            log.debug("group %s: no metadata: %s", self._options.group_id, error)
            return
        self._known = True
        self._subscribe()

    def _begin_anew(self, now: float) -> None:
        """Join by another client.

        A broker that was frozen may tell, in the moment before it is let in again, that the cluster has no brokers.
        librdkafka (2.16) then forgets those that it knew, and asks nobody for minutes.
        """
        log.warning("group %s: not joined for %.0f s, once more by a new client", self._options.group_id, self._stuck_s)
        self._drop_client()
        self._assigned, self._joining_since = None, now

    def _look(self, now: float) -> None:
        """Once a second: topics of a pattern come and go, strangers too.

        Topics also while joining: a client that is subscribed to nothing that there is joins no group, ever.
        """
        if tuple(sorted(self._topics())) != self._subscribed:
            self._subscribe()
        failure = None
        if self._state is State.MEMBER:
            failure = self._strangers.look(self._expected() - self.assigned())
        if failure is not None:
            self._fail(failure)
        self._next_look = now + (HEAR_GAP_S if self._strangers.asking else LOOK_GAP_S)

    def _expected(self) -> frozenset[TopicPartition]:
        """The partitions that this query reads and that are there."""
        topics, fixed = self._topics(), frozenset(self._options.subscription.partitions)
        there = frozenset(TopicPartition(topic, number) for topic, count in topics.items() for number in range(count))
        return there & fixed if fixed else there

    def _subscribe(self) -> None:
        """To the topics that are there now; where there is none, this is a member of nothing, and commits nothing."""
        consumer, topics = self._client(), tuple(sorted(self._topics()))
        if topics:
            consumer.subscribe(list(topics), on_assign=self._on_assign, on_revoke=self._on_gone, on_lost=self._on_gone)
        elif self._subscribed:
            consumer.unsubscribe()
            self._assigned = None
        self._subscribed = topics

    def _client(self) -> Consumer:
        """The client, or, where there is none any more, another one.  Raises Again where none can be made now."""
        if self._replace:
            self._replace = False
            self._drop_client()
        if self._consumer is None:
            try:
                self._consumer, self._subscribed = self._new_client(), ()
            except CohortError as error:  # for want of threads, say: with these options one was made before
                raise Again(str(error)) from None
            if self._known and self._state is State.JOINING:
                self._subscribe()
        return self._consumer

    def _new_client(self) -> Consumer:
        return clients.new_consumer(self._conf, self._on_error, **settings(self._options))

    def _drop_client(self) -> None:
        """Without ``close``, which would send nothing for a static member, and at times never ends.

        When a rebalance is under way it calls our ``on_revoke``, asks librdkafka's main thread for the protocol after it,
        and waits, with the interpreter's lock, for an answer that a group which has just ended never gives (2.16): the
        driver would stand still.  A client that nobody knows is destroyed without that.
        """
        self._consumer = None

    def _to(self, state: State) -> None:
        with self._changed:
            if self._state is not state:
                self._joining_since = time.monotonic()
                log.debug("group %s: membership %s -> %s", self._options.group_id, self._state.value, state.value)
            self._state = state
            self._changed.notify_all()

    def _fail(self, error: CohortError) -> None:
        if self._failure is None:
            self._failure = error
            log.error("%s", error)
        self._to(State.ENDED)

    # --- callbacks of poll, on the owning thread -------------------------------------------------------

    def _on_assign(self, consumer: Consumer, partitions: list[Position]) -> None:
        consumer.assign([])  # a member by name only: nothing is ever fetched
        self._assigned = frozenset(TopicPartition(given.topic, given.partition) for given in partitions)
        self._next_watch = self._next_look = 0.0

    def _on_gone(self, _consumer: Consumer, _partitions: list[Position]) -> None:
        """A rebalance, or the membership is lost: whatever we knew has to be verified again."""
        self._assigned = None
        self._last.clear()
        if self._state is State.MEMBER:
            self._to(State.JOINING)

    def _on_message(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            self._on_error(error)

    def _on_error(self, error: KafkaError) -> None:
        code = error.code()
        if code in _FENCED or error.fatal():
            self._on_fenced(error)
            return
        failure = errors.permanent(error, self._options, self._strangers.everybody)
        if failure is not None and code in errors.AUTHENTICATION and self._joined_once:
            if self._refusals.believed(time.monotonic()):
                self._fail(failure)
            else:
                log.warning("group %s: login refused, tried again for a minute: %s", self._options.group_id, failure)
        elif failure is not None:
            self._fail(failure)
        elif code not in _GONE:
            log.debug("group %s: %s", self._options.group_id, clients.text_of(error))

    # --- fencing -----------------------------------------------------------------------------------------

    def _on_fenced(self, error: KafkaError) -> None:
        """Another member took the instance id: watch, with a client of no membership, whether it is a later run."""
        if self._state in (State.WATCHING, State.ENDED):
            return
        log.warning(
            "group %s: fenced as %s (%s); is the other one newer?",
            self._options.group_id,
            self._options.group_instance_id,
            error.name(),
        )
        self._to(State.WATCHING)
        self._replace = True
        self._assigned = None
        self._last.clear()
        self._watch_until = time.monotonic() + WATCH_S * 2**self._fencings
        self._next_watch = 0.0
        self._fencings = min(self._fencings + 1, 4)

    def _watch(self, now: float) -> None:
        """Read the group's metadata, by another client than the fenced one, until a later run shows or the time is over."""
        if self._is_superseded() is False and now >= self._watch_until:
            self._to(State.JOINING)
            self._subscribe()

    def _verify(self) -> None:
        """After a join: a later run ends this one for good, else we are a member.

        Whoever reserved before our *first* join is older than we are; before any later join, it may be newer.
        """
        if not self._joined_once:
            try:
                self.reservation.observe(self._texts())
            except Again:
                return
            self._joined_once = True
        if self._is_superseded() is False:
            self._to(State.MEMBER)

    def _texts(self) -> list[str]:
        return [committed.metadata for committed in self._read(tuple(self._expected())).values()]

    def _is_superseded(self) -> bool | None:
        """Whether a later run has reserved; None when the group's metadata could not be read."""
        try:
            later = self.reservation.superseded(self._texts())
        except Again as error:
            log.debug("group %s: no metadata: %s", self._options.group_id, error)
            return None
        if later is not None:
            self._fail(errors.fenced(self._options, later, self.reservation.own))
        return later is not None

    # --- offsets, on the owning thread -------------------------------------------------------------------

    def _read(self, partitions: tuple[TopicPartition, ...]) -> dict[TopicPartition, Committed]:
        if not partitions:
            return {}
        try:
            answers = self._client().committed([Position(*tp) for tp in partitions], timeout=self._read_timeout_s)
        except KafkaException as error:
            raise self._retry_or_fail(error) from None
        wrong = next((answer.error for answer in answers if answer.error is not None), None)
        if wrong is not None:
            raise self._retry_or_fail(KafkaException(wrong))
        return {TopicPartition(answer.topic, answer.partition): committed(answer) for answer in answers}

    def _commit(self, offsets: Mapping[TopicPartition, tuple[int, str]], *, reset: bool) -> dict[TopicPartition, int]:
        gone = offsets.keys() - self._expected()
        if gone:
            log.warning("group %s: nothing is committed for %s: deleted", self._options.group_id, names_of(gone))
            offsets = {tp: offsets[tp] for tp in offsets.keys() - gone}
        if not offsets:
            return {}
        if self._state is not State.MEMBER:
            raise Again(f"the membership is {self._state.value}")
        unknown = tuple(tp for tp in offsets if tp not in self._last)
        self._last |= {tp: -1 if known.offset is None else known.offset for tp, known in self._read(unknown).items()}
        targets = {
            tp: (offset if reset else max(offset, self._last.get(tp, -1)), text)
            for tp, (offset, text) in offsets.items()
        }
        ids, epochs = self.ids, self.epochs
        pairs = {(ids.get(tp.topic, ""), text) for tp, (_, text) in targets.items()}
        named = {each: of_topic(each[1], each[0]) for each in pairs}
        known = {tp: epochs.get(tp, -1) if at == offsets[tp][0] else -1 for tp, (at, _) in targets.items()}
        sent = [Position(*tp, at, named[ids.get(tp.topic, ""), text], known[tp]) for tp, (at, text) in targets.items()]
        try:
            answers = self._client().commit(offsets=sent, asynchronous=False)
        except KafkaException as error:
            if clients.code_of(error) in _GONE:
                return self._taken_of({tp: offset for tp, (offset, _) in targets.items()})
            raise self._retry_or_fail(error) from None
        return self._taken(answers or [])

    def _taken_of(self, sent: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """After "unknown topic or partition": which partitions Kafka took all the same, as the client does not tell."""
        now = self._read(tuple(sent))
        taken = {tp: offset for tp, offset in sent.items() if now[tp].offset == offset}
        left_out = sent.keys() - taken.keys()
        if left_out & self._expected():
            if self._doubted is not None:
                self._doubted()
            raise Again(f"{names_of(left_out)} not known to the group coordinator")
        log.warning("%s: gone, nothing is committed", names_of(left_out))
        self._last |= taken
        return taken

    def _taken(self, answers: Iterable[Position]) -> dict[TopicPartition, int]:
        taken: dict[TopicPartition, int] = {}
        for answer in answers:
            tp = TopicPartition(answer.topic, answer.partition)
            if answer.error is None:
                taken[tp] = self._last[tp] = answer.offset
            elif answer.error.code() in _GONE:
                log.warning("%s-%d is gone: nothing is committed for it", *tp)
            else:
                raise self._retry_or_fail(KafkaException(answer.error))
        return taken

    def _reserve(self, starts: Mapping[TopicPartition, int], pin: str, plan: str, *, reset: bool) -> Reservation:
        if self._state is not State.MEMBER:
            raise Again(f"the membership is {self._state.value}")
        known = self._read(tuple({*starts, *self._expected()}))
        record = self.reservation.next([committed.metadata for committed in known.values()], pin, plan)
        text = encode(record)
        self._commit(
            {tp: (start if reset else committed_or(known.get(tp), start), text) for tp, start in starts.items()},
            reset=reset,
        )
        self.reservation.confirm(record)
        return self.reservation

    def _retry_or_fail(self, error: KafkaException) -> Exception:
        """Sorts an error of a request: what ends the membership is recorded, the rest is for another try."""
        inner = clients.error_of(error)
        if inner is not None:
            code = inner.code()
            if code == KafkaError.OFFSET_METADATA_TOO_LARGE:
                return CohortError(
                    "commit metadata is larger than the broker's offset.metadata.max.bytes", "OFFSET_METADATA_TOO_LARGE"
                )
            self._on_error(inner)
        return self._failure or Again(clients.text_of(error))
