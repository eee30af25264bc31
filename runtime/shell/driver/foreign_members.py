"""Other members of the real group: consumers that hold partitions which this query reads, named by client id and host.

A driver's instance id is made of what it reads, so the last run of a query whose subscription has changed is another member.  A
rebalance would wait for it until its session ends.  It is taken out (KIP-345); one that still runs joins again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Final

from confluent_kafka import KafkaError

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.cluster_messages import (
    CoordinatorQuestion,
    DescribedMember,
    GroupDescription,
    LeaveQuestion,
)
from sparkcohort.runtime.kafka.run_epoch import CommitMetadata
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.partitions import TopicPartition, names_of
from sparkcohort.runtime.shell.kafka import clients
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient, result_of
from sparkcohort.runtime.shell.options.connection_settings import TransportError
from sparkcohort.runtime.shell.options.parse import is_default_instance_id
from sparkcohort.runtime.text import printable

DESCRIBE_TIMEOUT_S = 3.0
ASK_GAP_S, MOST_GAP_S = 1.0, 30.0  # partitions may also be missing because they are new
MOST_NAME = 200  # characters; a client id is as long as its owner likes
PART_OF_SESSION = 0.9  # so that the query has ended when one session timeout is over
_NO_MEMBER: Final = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})
"""Kafka's answers to LeaveGroup after which the member is none any more; the last: another has its place."""
_NOT_YET: Final = frozenset(
    {KafkaError.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)
NOT_YET_GAP_S = 0.1
ANY_PARTITION: frozenset[TopicPartition] = frozenset()


class ForeignMembers:
    """Watches for partitions that another member of the group has had for a session timeout.

    Called by the owner of the membership, and by the thread that waits for it to begin.
    """

    def __init__(self, client: ClusterClient, group_id: str, instance_id: str, session_timeout_ms: int) -> None:
        self._client = client
        self._lock = threading.RLock()
        self._group_id = group_id
        self._instance_id = instance_id
        self._limit_s = session_timeout_ms / 1000
        self._missing_since: float | None = None
        self._question: Future[GroupDescription] | None = None
        self._next_ask = 0.0
        self._gap_s = ASK_GAP_S
        self._reported: set[str] = set()
        self.total = self.present = 0  # in all, and as of the last answer
        self._predecessor = ""  # the owners of our instance id, or of our partitions, when ``is_empty`` asked
        self._removed: set[str] = set()  # instance ids of drivers taken out while this one is a member: each once

    def look(self, missing: frozenset[TopicPartition]) -> CohortError | None:
        """The failure, once ``missing`` has been empty at no look for a session timeout and others hold some of it."""
        with self._lock:
            return self._look(missing)

    def _look(self, missing: frozenset[TopicPartition]) -> CohortError | None:
        now = time.monotonic()
        if not missing:
            self._question = self._missing_since = None
            self.present = 0
            self._next_ask, self._gap_s = 0.0, ASK_GAP_S
            self._reported.clear()
            return None
        self._missing_since = now if self._missing_since is None else self._missing_since
        self._hear(missing)
        if self._question is None and now >= self._next_ask:
            self._next_ask, self._gap_s = now + self._gap_s, min(2 * self._gap_s, MOST_GAP_S)
            self._question = self._client.describe_group(self._group_id, DESCRIBE_TIMEOUT_S)
        if now - self._missing_since >= PART_OF_SESSION * self._limit_s:
            self._missing_since = now
            group = self._described_group()
            owners = self._owners(group, missing) if group else []
            # The older one of two drivers ends once it sees the newer one's run, but stays a member until its session ends.
            drivers = [each for each in owners if each.instance_id not in self._removed]
            if self._remove(drivers):
                self._removed |= {each.instance_id for each in drivers}
                return None
            return self._failure(_names(owners), missing) if owners else None
        return None

    def is_empty(self, partitions: frozenset[TopicPartition] = ANY_PARTITION) -> bool:
        """Whether the group is known to have no member: then Kafka takes an OffsetCommit of a client that is none.

        ``partitions``: those that this query reads.
        """
        with self._lock:
            group = self._describe()
            if group is None:
                return False
            namesakes = [each for each in group.members if each.instance_id == self._instance_id]
            former = [each for each in self._drivers(group.members) if each.partitions & partitions]
            self._predecessor = ", ".join(sorted(map(_name, namesakes or former)))
            return group.is_memberless or group.error == KafkaError.GROUP_ID_NOT_FOUND

    def tell_predecessor(self, last: CommitMetadata | None) -> None:
        """Warn of the driver that this one takes over from, if Kafka has it as a member still; ``last``: what that run wrote."""
        if self._predecessor:
            place = f" on {last.host}, run {last.run}," if last and last.host else ""
            clients.log.warning(
                "group %s: %s%s was its driver until now; this query takes over, and ends that one if it still runs",
                *(self._group_id, self._predecessor, place),
            )

    def remove_drivers(self) -> None:
        """Take out all other drivers: those that run had time to rejoin, and can do so again."""
        with self._lock:
            group = self._described_group()
            if group is not None:
                self._remove(group.members)

    def _drivers(self, members: Iterable[DescribedMember]) -> list[DescribedMember]:
        strangers = (each for each in members if each.instance_id != self._instance_id)
        return [each for each in strangers if is_default_instance_id(each.instance_id)]

    def _remove(self, members: Iterable[DescribedMember]) -> bool:
        """Take the drivers among these out of the group; whether there were any, and they are."""
        leaving = self._drivers(members)
        if not leaving:
            return False
        names = ", ".join(_names(leaving))
        try:
            self._leave({each.member_id: each.instance_id for each in leaving})
        except TransportError as error:
            text = "group %s: %s stays in it until its session.timeout.ms is over: it can't be taken out: %s"
            clients.log.warning(text, self._group_id, names, error)
            return False
        text = "group %s: %s was taken out, so that nothing waits for it; if it still runs, it joins again"
        clients.log.info(text, self._group_id, names)
        return True

    def _leave(self, instances: Mapping[str, str]) -> None:
        """Have the group's coordinator take these out: instance ids by member ids.

        One that has been replaced under its instance id stays.  Raises TransportError, UnsupportedBroker where only librdkafka can log in.
        """
        coordinator = result_of(
            self._client.ask(CoordinatorQuestion(self._group_id), None, DESCRIBE_TIMEOUT_S), DESCRIBE_TIMEOUT_S
        )
        question = LeaveQuestion(self._group_id, instances)
        answers = result_of(self._client.ask(question, coordinator.node, DESCRIBE_TIMEOUT_S), DESCRIBE_TIMEOUT_S)
        refusals = {error for error in answers.values() if error not in _NO_MEMBER}
        if refusals:
            raise TransportError(f"Kafka's error {min(refusals)} to LeaveGroup")

    def _hear(self, missing: frozenset[TopicPartition]) -> None:
        """Take the answer, and warn of members that have some of our partitions, of each once."""
        if self._question is None or not self._question.done():
            return
        answer, self._question = self._question, None
        group = self._answer(answer)
        holding = _names(self._owners(group, missing)) if group is not None else []
        self.present = len(holding)
        new = [name for name in holding if name not in self._reported]
        if not new:
            return
        self._reported.update(new)
        self.total += len(new)
        clients.log.warning(
            "%s has joined group %s and holds partitions that this query reads, of %s: nothing is lost, but the query ends "
            "if it is still there after %g s (session.timeout.ms); stop that consumer, or give this query a group.id of its own",
            ", ".join(new),
            self._group_id,
            names_of(missing),
            self._limit_s,
        )

    def other_members(self) -> list[str]:
        """``client id (host)`` of each other member."""
        with self._lock:
            group = self._described_group()
            return _names(self._owners(group, ANY_PARTITION)) if group is not None else []

    def _described_group(self) -> GroupDescription | None:
        """The group as Kafka describes it; None where it can't be described now."""
        group = self._describe()
        return group if group is not None and not group.error else None

    def _describe(self) -> GroupDescription | None:
        """As Kafka answers; waited for while the coordinator comes up, as in a cluster that has had no group yet."""
        deadline = time.monotonic() + DESCRIBE_TIMEOUT_S
        while True:
            answer = self._client.describe_group(self._group_id, DESCRIBE_TIMEOUT_S)
            is_late = time.monotonic() + NOT_YET_GAP_S > deadline
            with suppress(TransportError):
                if not is_late and result_of(answer, DESCRIBE_TIMEOUT_S).error in _NOT_YET:
                    threading.Event().wait(NOT_YET_GAP_S)
                    continue
            return self._answer(answer)

    def _answer(self, answer: Future[GroupDescription]) -> GroupDescription | None:
        try:
            group = result_of(answer, DESCRIBE_TIMEOUT_S)
        except TransportError as error:
            clients.log.warning("group %s cannot be described: %s", self._group_id, error)
            return None
        if group.error and group.error != KafkaError.GROUP_ID_NOT_FOUND:
            text = clients.text_of(KafkaError(group.error))
            clients.log.warning("group %s cannot be described: %s", self._group_id, text)
        return group

    def _owners(self, group: GroupDescription, partitions: frozenset[TopicPartition]) -> list[DescribedMember]:
        """The other members that have some of these partitions (``ANY_PARTITION``: all others)."""
        strangers = [member for member in group.members if member.instance_id != self._instance_id]
        return [member for member in strangers if partitions == ANY_PARTITION or member.partitions & partitions]

    def _failure(self, owners: list[str], missing: frozenset[TopicPartition]) -> CohortError:
        return CohortError(
            f"{', '.join(owners)} in group {self._group_id} held {names_of(missing)}, which this query "
            "reads, for "
            f"{self._limit_s:g} s (session.timeout.ms): stop that consumer, or give this query a group.id of its own"
        )


def _names(members: Iterable[DescribedMember]) -> list[str]:
    """``client id (host)`` of each, in order; drivers of queries are marked as such."""
    return sorted(_name(each, driver=is_default_instance_id(each.instance_id)) for each in members)


def _name(member: DescribedMember, *, driver: bool = False) -> str:
    role = f", driver {member.instance_id}" if driver else ""
    return printable(f"client {member.client_id} ({member.host.lstrip('/')}{role})", MOST_NAME)
