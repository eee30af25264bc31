"""The one client that asks a cluster: metadata, offsets, epochs, groups; many questions in flight, each with its own deadline.

Any thread asks and gets a future.  One thread, begun with the first question, owns the connections: one for each broker that
was asked, kept.  It never blocks; connecting does, in threads that end with it.  A failure goes only to the callers of the question
this broker.  A question to any broker goes to the next one where there is no answer.

An answer without brokers, as of one that has just come back, is none: what was known before stays.  Where only librdkafka can
log in, or a broker is too old for our requests, ``librdkafka_questions`` answers instead.
"""

from __future__ import annotations

import logging
import random
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.addresses import joined, servers
from sparkcohort.runtime.kafka.cluster_messages import (
    SPOKEN,
    BrokerQuestion,
    CoordinatorQuestion,
    GroupDescription,
    GroupQuestion,
    MetadataQuestion,
    OffsetsQuestion,
)
from sparkcohort.runtime.kafka.fetch_messages import MalformedResponse, Metadata, Node, framed
from sparkcohort.runtime.shell.kafka.fetch.background import BackgroundWork
from sparkcohort.runtime.shell.kafka.fetch.broker import FIRST_BUFFER, FrameReader
from sparkcohort.runtime.shell.kafka.fetch.connection import Transport, connect_to
from sparkcohort.runtime.shell.kafka.fetch.settings import bootstrap_of, settings_of
from sparkcohort.runtime.shell.kafka.librdkafka_questions import LibrdkafkaQuestions
from sparkcohort.runtime.shell.kafka.question_link import BrokerRequest, QuestionLink
from sparkcohort.runtime.shell.options.connection_settings import (
    ConnectionRefused,
    Settings,
    TransportError,
    UnsupportedBroker,
)
from sparkcohort.runtime.shell.options.kafka_settings import value_of
from sparkcohort.runtime.shell.rpc.threads import Supervised

T = TypeVar("T")
log = logging.getLogger("sparkcohort.cluster")

CONNECT_S: Final = 5.0
SILENT_S: Final = 3.0
"""A broker that has owed an answer for so long, and sent nothing, gets another connection with the next question."""
MOST_REFUSALS: Final = (
    2  # of one question: another broker may know of a new password already, all others needn't be asked
)
_TELLING: Final = (TransportError, UnsupportedBroker, ConnectionRefused)
"""Of several brokers' failures the last of these kinds is the answer."""


class ClusterClient:
    """See the module; methods may be called from any thread."""

    def __init__(
        self,
        conf: Mapping[str, Any],
        give_up: Callable[[CohortError], None] = lambda _: None,
        step: Callable[[float], float] | None = None,
    ) -> None:
        """Nothing is opened before the first question.  ``conf`` is librdkafka's.

        ``step`` is called on the client's thread, after each round of answers, with the monotonic time; it returns when it
        wants to be called at the latest.
        """
        self._conf = conf
        self._step = step
        self._settings: Settings | None = None
        self._largest = 0  # of an answer, in bytes
        self._bootstrap: list[Node] = []
        self._fallback: LibrdkafkaQuestions | None = None
        self._only_fallback = False
        self._nodes: Mapping[int, Node] = {}
        self._links: dict[Node, QuestionLink] = {}
        self._inbox: deque[BrokerRequest] = deque()
        self._requests: set[BrokerRequest] = set()
        self._starting = threading.Lock()
        self._jobs: BackgroundWork  # from the start on
        self._last_id = 0
        self._due = 0.0
        self._closed = self._started = False
        self._thread = Supervised(
            "cohort-cluster", self._wait, self._work, give_up, amend=self._start_over, ended=self._end
        )

    # --- for any thread ---------------------------------------------------------------------------------

    def ask(self, question: BrokerQuestion[T], node: Node | int | None, timeout_s: float) -> Future[T]:
        """The answer of this broker (None: of any), or a TransportError: within the time, at once where it refuses."""
        request = BrokerRequest(question, node, time.monotonic() + timeout_s)
        self._inbox.append(request)
        if not self.wake():
            request.fail(TransportError("the client is closed"))
        return request.future

    def metadata(self, question: MetadataQuestion, timeout_s: float) -> Metadata:
        """The cluster, waited for.  Raises TransportError."""
        return result_of(self.ask(question, None, timeout_s), timeout_s)

    def describe_group(self, group: str, timeout_s: float) -> GroupDescription:
        """State and members of a group, asked of its coordinator and waited for.  Raises TransportError."""
        deadline = time.monotonic() + timeout_s
        coordinator = result_of(self.ask(CoordinatorQuestion(group), None, timeout_s), timeout_s)
        if coordinator.error:
            return GroupDescription(coordinator.error, "", ())
        left_s = deadline - time.monotonic()
        return result_of(self.ask(GroupQuestion(group), coordinator.node, left_s), max(left_s, 0.0))

    def is_connected(self, node_id: int) -> bool:
        """Whether a question to this broker needs no connection first; for the client's own thread."""
        link = self._links.get(self._nodes.get(node_id, Node("", 0)))
        return self._only_fallback or (link is not None and link.transport is not None)

    @property
    def failure_reason(self) -> str:
        """Why nothing is asked now; "" as a rule."""
        return self._thread.trouble

    def wake(self) -> bool:
        """Have the thread go round now; False once the client is closed."""
        with self._starting:
            if self._closed:
                return False
            if not self._started:
                self._jobs = BackgroundWork()
                self._started = True
                self._thread.start()
        self._jobs.wake()
        return True

    def close(self) -> None:
        """Close the connections, in the client's thread; what is open fails."""
        with self._starting:
            self._closed = True
        self._thread.close()
        if self._started:
            self._jobs.wake()

    # --- the thread --------------------------------------------------------------------------------------

    def _wait(self) -> bool:
        """Wait for answers, questions and deadlines."""
        poll = select.poll()
        poll.register(self._jobs.fileno(), select.POLLIN)
        for link in self._links.values():
            if link.transport is not None:
                poll.register(link.transport, select.POLLIN | (0 if link.flushed else select.POLLOUT))
        poll.poll(max(0.0, self._due - time.monotonic()) * 1000)
        return not self._closed

    def _work(self) -> None:
        self._due = 0.0  # an error on the way has it done again
        self._jobs.deliver()
        while self._inbox:
            self._requests.add(self._inbox[0])
            self._dispatch(self._inbox[0])
            self._inbox.popleft()
        for link in list(self._links.values()):
            self._serve(link)
        due = self._step(time.monotonic()) if self._step is not None else float("inf")
        self._due = min(due, self._expire())

    def _expire(self) -> float:
        """Fail questions that are too late, ask another broker where one is silent; returns when to look again."""
        now = time.monotonic()
        for request in [each for each in self._requests if each.future.done() or now >= each.deadline]:
            request.fail(max(request.errors, key=weightiest, default=_no_answer(request)))
            self._requests.discard(request)
        for request in [each for each in self._requests if each.node is None and now >= each.next_try]:
            self._dispatch(request)
        due = now + 60.0
        for request in self._requests:
            due = min(due, request.deadline, request.next_try if request.node is None else due)
        for link in self._links.values():
            if link.in_flight:
                due = min(due, link.heard_at + SILENT_S)
            if link.queue and link.transport is None:  # lost a moment ago, or connecting for too long
                due = min(due, link.connecting_until)
        return due

    # --- questions ---------------------------------------------------------------------------------------

    def _dispatch(self, request: BrokerRequest) -> None:
        """Hand a question to the link of its broker, or of the best one where any may answer."""
        now = time.monotonic()
        try:
            self._prepare()
        except UnsupportedBroker as error:
            self._fall_back(error)
            return
        except (TransportError, ValueError) as error:
            request.fail(error if isinstance(error, TransportError) else TransportError(str(error)))
            return
        if self._only_fallback:
            self._ask_fallback(request)
            return
        if request.node is not None:
            node = self._nodes.get(request.node) if isinstance(request.node, int) else request.node
            if node is None:
                request.fail(TransportError(f"where broker {request.node} is, is not known"))
            else:
                self._hand_over(request, self._link(node))
            return
        request.next_try, request.try_s = now + request.try_s, 2 * request.try_s
        candidates = [node for node in {*self._nodes.values(), *self._bootstrap} if node not in request.asked_nodes]
        refused = sum(isinstance(error, ConnectionRefused) for error in request.errors)
        if not candidates or refused >= MOST_REFUSALS:
            if not request.open:
                request.fail(max(request.errors, key=weightiest, default=TransportError("there is no broker to ask")))
            return
        link = min((self._link(node) for node in candidates), key=lambda link: self._rank(link, now))
        request.asked_nodes.append(link.node)
        self._hand_over(request, link)

    def _rank(self, link: QuestionLink, now: float) -> tuple[bool, bool, bool, float]:
        """A broker's place in the order of asking: connected, then known, then others; at random among equals."""
        left_alone = now < link.not_before or link.is_silent
        return left_alone, link.transport is None, link.node not in self._nodes.values(), random.random()  # noqa: S311

    def _prepare(self) -> None:
        if self._settings is None and not self._only_fallback:
            config = settings_of(self._conf)
            self._bootstrap = servers(bootstrap_of(config))
            self._largest = int(value_of(config, "receive.message.max.bytes"))
            self._settings = Settings.parse(config)

    def _link(self, node: Node) -> QuestionLink:
        return self._links.setdefault(node, QuestionLink(node, FrameReader(self._largest, FIRST_BUFFER)))

    def _hand_over(self, request: BrokerRequest, link: QuestionLink) -> None:
        request.open += 1
        if link.error is not None and time.monotonic() < link.not_before:
            self._refuse(request, link.error)
            return
        link.queue.append(request)
        self._serve(link)

    def _refuse(self, request: BrokerRequest, error: TransportError) -> None:
        """This broker won't answer; one of which any may, goes to the next."""
        request.open -= 1
        request.errors.append(error)
        if request.node is not None:
            request.fail(error)
        elif not request.future.done():
            request.next_try = 0.0  # with the next look at deadlines, so that no two refusals call each other

    def _fall_back(self, reason: TransportError) -> None:
        """Ask by librdkafka from now on."""
        if self._only_fallback:
            return
        log.info("the cluster is asked by librdkafka: %s", reason)
        self._only_fallback = True
        self._drop_links()
        for request in list(self._requests):
            if not request.future.done():
                self._ask_fallback(request)

    def _ask_fallback(self, request: BrokerRequest) -> None:
        fallback = self._fallback = self._fallback or LibrdkafkaQuestions(self._conf)
        request.next_try = float("inf")
        left_s = max(request.deadline - time.monotonic(), 0.01)

        def take(result: Any) -> None:
            if isinstance(result, Exception):
                request.fail(result)
            else:
                request.answer(result)

        self._jobs.start(lambda: fallback.answer(request.question, request.node, left_s), take)

    # --- connections ---------------------------------------------------------------------------------------

    def _serve(self, link: QuestionLink) -> None:
        """Connect where something waits, send it, and take what has come."""
        now = time.monotonic()
        link.queue = [each for each in link.queue if not each.future.done()]
        try:
            if link.transport is not None:
                self._receive(link, link.transport, now)
                if not link.in_flight:
                    link.renew(now)
            if link.queue and link.transport is None and now >= link.connecting_until:
                self._connect(link, now)
            if link.transport is not None:
                self._send(link, link.transport, now)
        except TransportError as error:
            self._lose(link, error)

    def _connect(self, link: QuestionLink, now: float) -> None:
        settings = self._settings
        assert settings is not None  # noqa: S101  see _prepare
        timeout_s = min(settings.setup_timeout_s, CONNECT_S)
        link.connecting_until = now + 2 * timeout_s + 1  # resolving a name takes as long as the system likes

        def take(result: Transport | Exception) -> None:
            if self._links.get(link.node) is not link or link.transport is not None:
                if isinstance(result, Transport):
                    result.close()
                return
            link.connecting_until = 0.0
            self._connected(link, result)

        self._jobs.start(lambda: connect_to(link.node, settings, timeout_s, SPOKEN), take)

    def _connected(self, link: QuestionLink, result: Transport | Exception) -> None:
        if isinstance(result, UnsupportedBroker):
            self._fall_back(result)
        elif isinstance(result, Exception):
            self._lose(link, result if isinstance(result, TransportError) else TransportError(str(result)))
        else:
            link.connected(result, time.monotonic())
            self._serve(link)

    def _send(self, link: QuestionLink, transport: Transport, now: float) -> None:
        for request in link.queue:
            question = request.question.for_broker(transport.versions)
            if question is None and isinstance(request.question, OffsetsQuestion):
                self._ask_fallback(request)
                continue
            if question is None:
                words = f"version {request.question.version} of {request.question.name}"
                self._refuse(request, UnsupportedBroker(f"{joined(*link.node)} doesn't speak {words}"))
                continue
            link.heard_at = link.heard_at if link.in_flight else now
            self._last_id = (self._last_id + 1) & 0x7FFFFFFF
            link.in_flight[self._last_id] = request, question
            client_id = self._settings.client_id if self._settings else ""
            transport.send(framed(question.api, question.version, self._last_id, client_id, question.body()))
        link.queue = []
        link.flushed = transport.flush()

    def _receive(self, link: QuestionLink, transport: Transport, now: float) -> None:
        filled = link.frames.filled
        try:
            while (frame := link.frames.read(transport)) is not None:
                link.heard_at = now
                self._take_answer(link, frame)
        except TransportError:
            if link.in_flight or link.queue:
                raise
            link.disconnect()  # idle for long: with the next question there is another one
            return
        transport.expect(0)  # a part of an answer is a sign of life
        link.heard_at = now if link.frames.filled != filled else link.heard_at
        if link.in_flight and now >= link.heard_at + SILENT_S:
            link.has_answered = False
            raise TransportError(f"{joined(*link.node)} does not answer")

    def _take_answer(self, link: QuestionLink, frame: memoryview) -> None:
        correlation_id = int.from_bytes(frame[:4])
        if correlation_id not in link.in_flight:
            raise TransportError(f"{joined(*link.node)} sent an answer to no request")
        request, question = link.in_flight.pop(correlation_id)
        try:
            result = question.read(frame, correlation_id)
        except MalformedResponse as error:
            text = f"the answer of {joined(*link.node)} to {request.question.name} can't be read: {error}"
            self._refuse(request, TransportError(text))
            raise TransportError(text) from None
        link.has_answered, link.failures, link.error = True, 0, None
        if isinstance(result, Metadata):
            if not result.nodes:  # of a broker that has just come back and isn't let in yet
                reason = "; ".join(result.unusable) or "it knows of no broker"
                self._refuse(request, TransportError(f"{joined(*link.node)} was asked for the cluster: {reason}"))
                return
            self._nodes = result.nodes
        request.answer(result)

    def _lose(self, link: QuestionLink, error: TransportError) -> None:
        """A broker that had answered on this connection may have closed it at a restart: once more by another."""
        requests = [*(request for request, _ in link.in_flight.values()), *link.queue]
        once_more = link.transport is not None and link.has_answered
        link.queue = requests if once_more else []
        if once_more:
            for request in [each for each, question in link.in_flight.values() if not question.may_repeat]:
                self._refuse(request, error)
            link.disconnect()
            return
        link.lose(error, time.monotonic())
        link.error = error
        for request in requests:
            self._refuse(request, error)

    def _drop_links(self) -> None:
        links, self._links = self._links, {}
        for link in links.values():
            link.disconnect()

    def _start_over(self) -> None:
        """After an unexpected error: drop every connection, and fail all open questions."""
        self._drop_links()
        self._fail_all(TransportError("the client has failed, and is tried again"))

    def _fail_all(self, error: TransportError) -> None:
        while self._inbox:
            self._inbox.popleft().fail(error)
        while self._requests:
            self._requests.pop().fail(error)

    def _end(self) -> None:
        self._drop_links()
        self._fail_all(TransportError("the client is closed"))
        self._jobs.close()
        self._fallback = None


def weightiest(error: TransportError) -> int:
    """The more, the more it tells: a key for ``max``."""
    return _TELLING.index(type(error))


def _no_answer(request: BrokerRequest) -> TransportError:
    return TransportError(f"no answer to {request.question.name} in time")


def result_of(future: Future[T], timeout_s: float) -> T:
    """The answer, waited for a little longer than it may take.  Raises TransportError."""
    try:
        return future.result(timeout_s + 1.0)
    except TimeoutError:
        raise TransportError("no answer in time") from None
