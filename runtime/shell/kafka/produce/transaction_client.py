"""Kafka's transaction coordinators, asked and waited for: by tasks for their own transaction, by drivers for a sink's."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, TypeVar

from sparkcohort.runtime.kafka.batch_commit import EndResult
from sparkcohort.runtime.kafka.cluster_messages import BrokerQuestion, CoordinatorQuestion, MetadataQuestion
from sparkcohort.runtime.kafka.decision import SinkTransaction
from sparkcohort.runtime.kafka.fetch_messages import Node
from sparkcohort.runtime.kafka.produce_messages import ProducerIdQuestion
from sparkcohort.runtime.kafka.transaction_messages import (
    ONGOING,
    AddPartitionsQuestion,
    EndQuestion,
    ListedTransactions,
    OpenTransactionsQuestion,
    TransactionQuestion,
    TransactionState,
)
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient, result_of
from sparkcohort.runtime.shell.kafka.fetch.backoff import backoff
from sparkcohort.runtime.shell.kafka.produce.failures import (
    error_name,
    refused_transaction,
    silent_coordinator,
    too_old_for_transactions,
)
from sparkcohort.runtime.shell.options.connection_settings import TransportError, UnsupportedBroker

T = TypeVar("T")

ANSWER_S: Final = 5.0
CONCURRENT_S: Final = 0.005
"""After CONCURRENT_TRANSACTIONS: the coordinator is still writing the markers of the transaction before."""

LATE_MS: Final = 60_000
"""A coordinator looks every ten seconds for transactions whose time is over."""

LOADING, NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT, NOT_FOUND = 14, 15, 16, 51, 105
_ASK_AGAIN: Final = frozenset({7, LOADING, NOT_AVAILABLE, NOT_COORDINATOR})
_REFUSED: Final = frozenset({47, 48, 49, 90})
"""INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED: this transaction is no longer open."""


class TransactionClient:
    """For one thread; what it raises is a CohortError that names the transactional id and what to do.

    Answers that may be another in a moment are waited for, ``patience_s`` at most: a coordinator that moves or loads, a transaction
    whose markers are being written.
    """

    def __init__(self, client: ClusterClient, patience_s: float) -> None:
        """``client`` stays the caller's to close."""
        self._client, self._patience_s = client, patience_s
        self._coordinators: dict[str, Node] = {}

    def begin(self, name: str, timeout_ms: int, new_name: Callable[[], str] | None = None) -> SinkTransaction:
        """The next epoch of a transactional id; what was open under it is aborted, and its producer is fenced.

        Without an answer it goes on under an id of ``new_name``, if there is one.
        """
        answers = self._ask_all((name,), lambda each: ProducerIdQuestion(each, timeout_ms), new_name)
        ((name, (error, producer)),) = answers.items()
        if error:
            raise refused_transaction(name, error, timeout_ms)
        return SinkTransaction(name, producer)

    def add(self, transaction: SinkTransaction, partitions: Collection[TopicPartition]) -> None:
        """Make partitions part of it."""
        (error,) = self._ask_all((transaction.name,), lambda _: AddPartitionsQuestion(transaction, partitions)).values()
        if error:
            raise refused_transaction(transaction.name, error)

    def end(self, transactions: Iterable[SinkTransaction], *, commit: bool) -> dict[SinkTransaction, EndResult]:
        """End each with a commit or an abort."""
        by_name = {each.name: each for each in transactions}
        errors = self._ask_all(by_name, lambda name: EndQuestion(by_name[name], commit))
        for name, error in errors.items():
            if error and error not in _REFUSED:
                raise refused_transaction(name, error)
        return {by_name[name]: EndResult.REFUSED if error else EndResult.ENDED for name, error in errors.items()}

    def describe(self, names: Iterable[str]) -> dict[str, TransactionState]:
        """The state of each id that its coordinator knows."""
        answers = self._ask_all(names, TransactionQuestion)
        for name, answer in answers.items():
            if answer.error not in (0, NOT_FOUND):
                raise refused_transaction(name, answer.error)
        return {name: answer for name, answer in answers.items() if not answer.error}

    def is_open(self, transaction: SinkTransaction) -> bool:
        """Whether it is neither ended nor followed by another one of its id."""
        state = self.describe((transaction.name,)).get(transaction.name)
        return state is not None and (state.state, state.transaction) == (ONGOING, transaction)

    def list_open(self, prefix: str) -> list[str]:
        """The ids with this prefix that have an open transaction, of all brokers: each coordinates some."""
        deadline, failures = time.monotonic() + self._patience_s, 0
        while True:
            # Of a broker that has gone others coordinate them, as soon as the metadata have it no more.
            answers, words = self._ask_brokers(OpenTransactionsQuestion())
            if not words:
                return sorted({name for answer in answers for name in answer.names if name.startswith(prefix)})
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise silent_coordinator(prefix, self._patience_s, words)
            failures += 1
            time.sleep(min(backoff(failures), left_s))

    # --- asking ---------------------------------------------------------------------------------

    def _ask_brokers(self, question: OpenTransactionsQuestion) -> tuple[list[ListedTransactions], str]:
        """The answers of all brokers that there are, or why one is missing."""
        try:
            nodes = self._client.metadata(MetadataQuestion(()), ANSWER_S).nodes
            futures = [self._client.ask(question, node, ANSWER_S) for node in nodes.values()]
            answers = [result_of(each, ANSWER_S) for each in futures]
        except UnsupportedBroker as error:
            raise too_old_for_transactions(error) from None
        except TransportError as error:
            return [], str(error)
        late = [each.error for each in answers if each.error in _ASK_AGAIN]
        return answers, error_name(late[0]) if late else ""

    def _ask_all(
        self,
        names: Iterable[str],
        question_of: Callable[[str], BrokerQuestion[T]],
        new_name: Callable[[], str] | None = None,
    ) -> dict[str, T]:
        """The answer to the question about each transactional id, all asked at once.

        ``new_name``: the id to ask about instead, where no answer came.
        """
        answers: dict[str, T] = {}
        deadline = time.monotonic() + self._patience_s
        open_names, failures, words = set(names), 0, ""
        while open_names:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise silent_coordinator(min(open_names), self._patience_s, words)
            round_s = min(left_s, ANSWER_S)
            self._find_coordinators(open_names, round_s)
            futures = {
                name: self._client.ask(question_of(name), self._coordinators[name], round_s)
                for name in open_names & self._coordinators.keys()
            }
            is_concurrent = bool(futures)
            for name, future in futures.items():
                try:
                    answer = result_of(future, round_s)
                except UnsupportedBroker as error:
                    raise too_old_for_transactions(error) from None
                except TransportError as error:
                    words, is_concurrent = str(error), False
                    self._coordinators.pop(name, None)
                    if new_name is not None:
                        # InitProducerId may still be on its way (TCP sends it again after a cut), and aborts whatever is open
                        # under its id when it arrives: also what is decided by then.
                        open_names = open_names - {name} | {new_name()}
                    continue
                error_code = _error_of(answer)
                if error_code in _ASK_AGAIN:
                    words, is_concurrent = error_name(error_code), False
                    self._coordinators.pop(name, None)
                elif error_code == CONCURRENT:
                    words = error_name(error_code)
                else:
                    answers[name] = answer
                    open_names.discard(name)
            if open_names:
                failures += not is_concurrent
                time.sleep(CONCURRENT_S if is_concurrent else min(backoff(failures), left_s))
        return answers

    def _find_coordinators(self, names: Iterable[str], timeout_s: float) -> None:
        """Ask for those that aren't known; who is still unknown then is asked for in the next round."""
        futures = {
            name: self._client.ask(CoordinatorQuestion(name, is_transaction=True), None, timeout_s)
            for name in names
            if name not in self._coordinators
        }
        for name, future in futures.items():
            try:
                answer = result_of(future, timeout_s)
            except UnsupportedBroker as error:
                raise too_old_for_transactions(error) from None
            except TransportError:
                continue
            if not answer.error:
                self._coordinators[name] = answer.node
            elif answer.error not in _ASK_AGAIN:
                raise refused_transaction(name, answer.error)


def _error_of(answer: Any) -> int:
    """Kafka's error of an answer of any of these kinds."""
    if isinstance(answer, TransactionState):
        return answer.error
    return int(answer[0]) if isinstance(answer, tuple) else int(answer)


def open_states(states: Iterable[TransactionState], now_ms: float) -> dict[SinkTransaction, float]:
    """Those that are open, with the seconds that each may stay so.

    An age that can't be, since its coordinator would have ended it long ago, is our clock's fault, and counts as none.
    """
    ages_ms = {each: now_ms - each.started_ms for each in states if each.state == ONGOING}
    return {
        each.transaction: (each.timeout_ms - (age_ms if 0 <= age_ms <= each.timeout_ms + LATE_MS else 0)) / 1000
        for each, age_ms in ages_ms.items()
    }
