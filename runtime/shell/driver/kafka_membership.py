"""The driver as a member of the real Kafka group: what carries out the machine of ``runtime.kafka.membership``.

One thread owns the client, since confluent-kafka lets one thread at a time into it.  Whatever happens is fed to the machine:
requests of other threads, callbacks of the client.  The owner carries out its actions between polls, never inside a callback.
"""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Position

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka import membership as machine
from sparkcohort.runtime.kafka import membership_state as s
from sparkcohort.runtime.kafka.membership_state import Committed, MembershipConfig, MembershipState
from sparkcohort.runtime.kafka.run_epoch import MOST_TEXT, CommitMetadata, RunEpoch
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver.foreign_members import ForeignMembers
from sparkcohort.runtime.shell.driver.log_ends import LogEnds
from sparkcohort.runtime.shell.kafka import clients, errors
from sparkcohort.runtime.shell.options.certificate_files import ChangedFiles
from sparkcohort.runtime.shell.options.parse import SourceOptions
from sparkcohort.runtime.shell.rpc.clock import now_ms
from sparkcohort.runtime.shell.rpc.threads import Supervised

log = clients.log

POLL_S = 0.03
READ_TIMEOUT_S = 5.0  # of a call that reads what is committed
RETRY_S = 0.1
WAIT_S = 1.0
CLOSE_S = 3.0
HEARTBEATS = 2  # in which a member that runs rejoins

_FENCED = frozenset({KafkaError.FENCED_INSTANCE_ID, KafkaError._FENCED, KafkaError._FATAL})
_NO_PARTITION = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC})


class CommitDelayed(CohortError):
    """The group could not be asked in time: rebalancing, its coordinator away, or membership being settled.

    Nothing is wrong yet: the same request can be made again.
    """


class GroupMembership:
    """One static membership; methods may be called from any thread."""

    def __init__(
        self,
        options: SourceOptions,
        log_ends: LogEnds,
        epochs: Callable[[], Mapping[TopicPartition, int]] = dict,
    ) -> None:
        """``epochs``: of the leaders whose logs had the offsets to commit last, as far as known."""
        self._options, self._log_ends, self._epochs = options, log_ends, epochs
        self._conf = {**options.kafka, "group.id": options.group_id}
        # Short against the limit of ``start``: librdkafka reports why no broker answers (no permission, say) between two tries.
        self._read_timeout_s = min(READ_TIMEOUT_S, options.api_timeout_ms / 4000)
        self._rejoin_s = HEARTBEATS * options.heartbeat_interval_ms / 1000
        self._foreign_members = ForeignMembers(
            log_ends.client, options.group_id, options.group_instance_id, options.session_timeout_ms
        )
        self.ids: Mapping[str, str] = {}  # of the topics that the offsets to commit are of, as far as known
        self._changed = threading.Condition()
        config = MembershipConfig(
            options.group_id,
            options.group_instance_id,
            str(options.subscription),
            # And a call more: what librdkafka has heard of a refusal comes when it is polled, after the call's timeout.
            options.session_timeout_ms + int(READ_TIMEOUT_S * 1000),
            socket.gethostname()[:MOST_TEXT],
        )
        self._membership = machine.new_membership(config, secrets.token_hex(4), now_ms())
        self._actions: tuple[s.MembershipAction, ...] = ()  # not carried out yet
        self._result: s.MembershipEvent | None = None  # of a call, until the machine has taken it
        self._asking = threading.Lock()  # the machine has one request at a time
        self._requests = 0
        self._answer: s.MembershipAnswer | None = None  # to the last request
        self._failure: CohortError | None = None
        self._closing = False
        self._files = ChangedFiles(options.kafka)  # another client, where they have changed and this one
        self._troubled = False  # has met an error, maybe for their sake
        self._consumer: Consumer | None = None
        self._client_number = 0  # the machine's number of the client
        self._thread = Supervised(
            "cohort-kafka-group",
            self._goes_on,
            self._run_once,
            self._fail,
            amend=self._start_over,
            ended=self._on_end,
        )

    # --- for any thread -------------------------------------------------------------------------------

    def start(self, timeout_s: float, *, handed_over: bool = False) -> None:
        """Find out what earlier runs have left; where the group has a member, join first.

        An older driver is fenced before its last offsets are read, and logged unless it has ``handed_over``.  Raises ``CohortError``: no permission on group or topic,
        another protocol in the way, no answer in time.
        """
        self._tell_topics()
        if not self._foreign_members.is_empty(self._membership.partitions):
            self.join()
        self._consumer, self._client_number = self._new_client(), self._membership.client
        self._thread.start()
        if not self._await_place(timeout_s):
            raise errors.join_failure(self._options, timeout_s, self._foreign_members.other_members())
        if not handed_over:
            self._foreign_members.tell_predecessor(self._membership.reservation.predecessor)

    def _await_place(self, timeout_s: float) -> bool:
        """Wait until this run is ready, taking out drivers that do not rejoin; returns whether it is."""
        # A driver that runs hears of the rebalance by its next heartbeat, and rejoins: it is not taken out.
        if self._await(self._is_ready, min(self._rejoin_s, timeout_s)):
            return True
        if self.state is MembershipState.JOINING:
            self._foreign_members.remove_drivers()
        return self._await(self._is_ready, timeout_s - self._rejoin_s)

    def join(self) -> None:
        """Become the group's static member, in the background; nothing happens where that has begun."""
        self._feed(s.Join())

    def _is_ready(self) -> bool:
        membership = self._membership
        standalone = membership.state is MembershipState.STANDALONE and membership.informed
        return standalone or membership.state is MembershipState.MEMBER

    def _await(self, reached: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until it is so; whether it is.  Raises what ended the membership."""
        deadline, done = time.monotonic() + timeout_s, False
        while not done and (left_s := deadline - time.monotonic()) > 0:
            with self._changed:
                done = self._changed.wait_for(
                    lambda: reached() or self.state is MembershipState.ENDED, min(left_s, WAIT_S)
                )
        self._check()
        return done

    def failure(self) -> CohortError | None:
        """What ended the membership for good, or None."""
        return self._failure

    @property
    def successor(self) -> CommitMetadata | None:
        """The later run that ended this one, if one did."""
        return self._membership.successor

    def foreign_members(self) -> dict[str, int]:
        """How many consumers of others have been found with partitions that this query reads, and have some now."""
        return {"found": self._foreign_members.total, "present": self._foreign_members.present}

    @property
    def state(self) -> MembershipState:
        """Where the membership stands."""
        return self._membership.state

    @property
    def run_epoch(self) -> RunEpoch:
        """This run's number and generations, as Kafka has them."""
        return self._membership.reservation

    def committed(
        self, partitions: Iterable[TopicPartition], timeout_s: float = 30.0
    ) -> dict[TopicPartition, Committed]:
        """What is committed for each partition.  Raises ``CohortError``: an error is never "no offset"."""
        partitions = tuple(partitions)
        result: dict[TopicPartition, Committed] = self._ask(
            lambda number: s.FetchRequested(number, partitions), timeout_s, "committed offsets of"
        )
        return result

    def commit(
        self, offsets: Mapping[TopicPartition, tuple[int, str]], timeout_s: float = 30.0, *, reset: bool = False
    ) -> dict[TopicPartition, int]:
        """Commit offset and metadata of each partition and wait; returns the offsets that Kafka has now.

        An offset below the committed one is replaced by that one (law I6), unless ``reset``.  Partitions that no longer
        exist are left out.  Raises ``CommitDelayed`` after ``timeout_s`` of retrying, ``CohortError`` for what
        ended the membership.
        """
        result: dict[TopicPartition, int] = self._ask(
            lambda number: s.CommitRequested(number, offsets, reset, self.ids, self._epochs()), timeout_s, "commit to"
        )
        return result

    def reserve(
        self, starts: Mapping[TopicPartition, int], timeout_s: float = 30.0, *, pin: str = "", plan: str = ""
    ) -> RunEpoch:
        """Commit this run's number and a (further) block of generations, with all of ``starts``: a reset.

        ``pin`` and ``plan`` mark them as the start of batch 0.  Call it as soon as start offsets are known, and when
        ``reservation.last_generation`` is near.
        """
        result: RunEpoch = self._ask(
            lambda number: s.ReserveRequested(number, starts, pin, plan, self.ids, self._epochs()),
            timeout_s,
            "reservation in",
        )
        return result

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

    def _ask(self, request: Callable[[int], s.MembershipRequest], timeout_s: float, name: str) -> Any:
        """Have a request answered; it is made again while it can't be done now.

        Raises CommitDelayed with ``name`` when the time is over, and what ended the membership.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            answer = self._try(request, max(deadline - time.monotonic(), RETRY_S))
            if answer is not None and answer.error is not None:
                raise answer.error
            if answer is not None and not answer.later:
                return answer.result
            reason = "the brokers do not answer" if answer is None else answer.later
            if time.monotonic() >= deadline:
                raise CommitDelayed(f"{name} group {self._options.group_id}: not within {timeout_s:g} s: {reason}")
            state = self.state
            self._await(lambda: self.state is not state, RETRY_S)  # noqa: B023  called in this round only

    def _try(self, request: Callable[[int], s.MembershipRequest], timeout_s: float) -> s.MembershipAnswer | None:
        """The machine's answer to a request; None where it has none in time."""
        self._check()
        if not self._asking.acquire(timeout=timeout_s):
            return None
        try:
            self._tell_topics()
            with self._changed:
                self._requests, self._answer = self._requests + 1, None
                self._feed(request(self._requests))
            self._await(lambda: self._answer is not None, timeout_s)
            return self._answer
        finally:
            self._asking.release()

    # --- the owning thread -----------------------------------------------------------------------------

    def _goes_on(self) -> bool:
        return not self._closing and self._failure is None

    def _run_once(self) -> None:
        # Another client joins where this one is in trouble, and the files that it was made with have changed since: a commit
        # through the old one would wait out the session (librdkafka).
        if self._troubled and self._files.have_changed():
            self._start_over()
        self._client()  # not kept in a variable: an error's traceback would keep a client that is replaced
        try:
            message = self._client().poll(0)
            if message is not None:
                self._on_message(message)
            due_ms = machine.deadline(self._membership)
            if due_ms is not None and now_ms() >= due_ms:
                self._tell_topics()
                self._feed(s.TimePassed())
            self._carry_out()
        except CohortError as error:
            self._fail(error)
        with self._changed:
            self._changed.wait_for(lambda: self._actions or self._closing, POLL_S)

    def _start_over(self) -> None:
        """After an unexpected error, which leaves the client in an unknown state: another one joins."""
        with self._changed:
            self._actions, self._result = (), None  # they were for the old client
            self._feed(s.ClientFailed())
        self._troubled = False

    def _on_end(self) -> None:
        self._feed(s.Close())  # first: destroying a client may wait for a name that does not resolve
        self._drop_client()

    def _fail(self, error: CohortError) -> None:
        self._feed(s.StepFailed(error))

    def _feed(self, event: s.MembershipEvent) -> None:
        """Have the machine take an event; what it wants done is carried out between polls."""
        with self._changed:
            old = self._membership
            new, actions = machine.step(old, event, now_ms())
            answers = [each for each in actions if isinstance(each, s.MembershipAnswer)]
            answer = next((each for each in answers if each.request == self._requests), self._answer)
            pending_actions = (*self._actions, *(each for each in actions if each not in answers))
            # In one go: an error in between would lose an action that the machine waits for.
            self._membership, self._actions, self._answer, self._failure = new, pending_actions, answer, new.failure
            if actions or (new.state, new.informed) != (old.state, old.informed):
                self._changed.notify_all()
        if new.state is not old.state:
            log.debug("group %s: membership %s -> %s", self._options.group_id, old.state.value, new.state.value)
        if new.failure is not old.failure:
            log.error("%s", new.failure)

    def _tell_topics(self) -> None:
        """The topics that are there, and the partitions of them that this query reads."""
        layout = self._log_ends.layout()
        self._feed(s.TopicsChanged(tuple(sorted(layout.counts)), layout.partitions))

    # --- actions ---------------------------------------------------------------------------------------

    def _carry_out(self) -> None:
        """All that the machine wants done, and what follows from it; nothing is lost to an error in the machine itself."""
        while self._result is not None or self._actions:
            if self._result is not None:
                self._feed(self._result)
                self._result = None
                continue
            with self._changed:
                action, self._actions = self._actions[0], self._actions[1:]
            if not machine.is_void(self._membership, action):
                self._do(action)
            elif isinstance(action, s.FetchOffsets | s.CommitOffsets):
                self._result = s.CallFailed(action.call, f"the membership is {self.state.value}")

    def _do(self, action: s.MembershipAction) -> None:
        match action:
            case s.Subscribe(_, topics):
                self._subscribe(topics)
            case s.FetchOffsets(call, partitions):
                self._result = self._called(call, lambda: self._fetch(call, partitions))
            case s.CommitOffsets(call, offsets):
                self._result = self._called(call, lambda: self._commit(call, offsets))
            case s.LookForForeignMembers(missing):
                if (failure := self._foreign_members.look(missing)) is not None:
                    self._fail(failure)
            case s.DoubtMetadata():
                self._log_ends.doubt()
            case s.ClientReplaced(silent_ms):
                text = "group %s: no broker has answered for %.0f s, once more by a new client"
                log.warning(text, self._options.group_id, silent_ms / 1000)
            case s.Warn(text):
                log.warning("%s", text)

    def _subscribe(self, topics: tuple[str, ...]) -> None:
        consumer = self._client()
        if topics:
            consumer.subscribe(list(topics), on_assign=self._on_assign, on_revoke=self._on_gone, on_lost=self._on_gone)
        else:
            consumer.unsubscribe()

    def _called(self, call: int, request: Callable[[], s.MembershipEvent]) -> s.MembershipEvent:
        """The result of a request to the brokers, whatever became of it."""
        try:
            return request()
        except KafkaException as error:
            return self._unsuccessful(call, error)
        except RuntimeError as error:
            return s.CallFailed(call, str(error))

    def _fetch(self, call: int, partitions: tuple[TopicPartition, ...]) -> s.MembershipEvent:
        answers = self._client().committed([Position(*tp) for tp in partitions], timeout=self._read_timeout_s)
        wrong = next((answer.error for answer in answers if answer.error is not None), None)
        if wrong is not None:
            return self._unsuccessful(call, KafkaException(wrong), clients.topics_with(wrong, answers))
        return s.OffsetsFetched(
            call, {TopicPartition(answer.topic, answer.partition): clients.committed_of(answer) for answer in answers}
        )

    def _commit(self, call: int, offsets: tuple[s.OffsetToCommit, ...]) -> s.MembershipEvent:
        positions = [Position(*each.partition, each.offset, each.metadata, each.epoch) for each in offsets]
        try:
            answers = self._client().commit(offsets=positions, asynchronous=False) or []
        except KafkaException as error:
            if clients.code_of(error) in _NO_PARTITION:
                return s.CommitAnswered(call, {}, tuple(each.partition for each in offsets))
            raise
        accepted = {TopicPartition(each.topic, each.partition): each.offset for each in answers if each.error is None}
        refused = [
            (TopicPartition(each.topic, each.partition), each.error) for each in answers if each.error is not None
        ]
        unknown = tuple(tp for tp, error in refused if error.code() in _NO_PARTITION)
        wrong = next((error for _, error in refused if error.code() not in _NO_PARTITION), None)
        reason = ""
        if wrong is not None:
            reason = self._unsuccessful(call, KafkaException(wrong), clients.topics_with(wrong, answers)).error
        return s.CommitAnswered(call, accepted, unknown, reason)

    def _unsuccessful(self, call: int, error: KafkaException, topics: Collection[str] = ()) -> s.CallFailed:
        """Sorts an error of a request about ``topics``: one that ends the membership is fed at once, others are tried again."""
        inner = clients.error_of(error)
        if inner is not None:
            self._on_error(inner, topics)
        return s.CallFailed(call, clients.text_of(error), silent=clients.code_of(error) < 0)

    # --- the client ------------------------------------------------------------------------------------

    def _client(self) -> Consumer:
        """The client, or, where there is none any more, another one.  Raises RuntimeError where none can be made now."""
        if self._consumer is None or self._client_number != self._membership.client:
            self._drop_client()
            number = self._membership.client
            try:
                self._consumer = self._new_client()
            except CohortError as error:  # for want of threads, say: with these options one was made before
                raise RuntimeError(str(error)) from None
            self._client_number = number
        return self._consumer

    def _new_client(self) -> Consumer:
        options = self._options
        member = {
            "group.instance.id": options.group_instance_id,
            "session.timeout.ms": options.session_timeout_ms,
            "heartbeat.interval.ms": options.heartbeat_interval_ms,
            "max.poll.interval.ms": max(300_000, options.session_timeout_ms),
            "partition.assignment.strategy": "range",
            "topic.metadata.refresh.interval.ms": options.metadata_max_age_ms,
        }
        standalone = self.state is MembershipState.STANDALONE
        consumer = clients.new_consumer(self._conf, self._on_error, **({} if standalone else member))
        clients.connect(consumer, next(iter(self._log_ends.layout().counts), None))
        return consumer

    def _drop_client(self) -> None:
        """Without ``close``, which would send nothing for a static member, and at times never ends.

        When a rebalance is under way it calls our ``on_revoke``, asks librdkafka's main thread for the protocol after it,
        and waits, with the interpreter's lock, for an answer that a group which has just ended never gives (2.16): the
        driver would stand still.  A client that nobody knows is destroyed without that.
        """
        self._consumer = None

    # --- callbacks of poll, on the owning thread -------------------------------------------------------

    def _on_assign(self, consumer: Consumer, partitions: list[Position]) -> None:
        consumer.assign([])  # a member by name only: nothing is ever fetched
        assigned = frozenset(TopicPartition(each.topic, each.partition) for each in partitions)
        self._feed(s.AssignmentReceived(assigned))

    def _on_gone(self, _consumer: Consumer, _partitions: list[Position]) -> None:
        self._feed(s.RevocationReceived())

    def _on_message(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            self._on_error(error, [topic] if (topic := message.topic()) else ())

    def _on_error(self, error: KafkaError, topics: Collection[str] = ()) -> None:
        code, self._troubled = error.code(), True
        if code in _FENCED or error.fatal():
            self._feed(s.Fenced(error.name()))
            return
        failure = errors.permanent(error, self._options, self._foreign_members.other_members, topics)
        if failure is not None:
            self._feed(s.LoginFailed(failure) if code in errors.AUTHENTICATION else s.StepFailed(failure))
        elif code not in _NO_PARTITION:
            log.debug("group %s: %s", self._options.group_id, clients.text_of(error))
