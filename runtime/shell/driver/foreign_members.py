"""Other members of the real group: consumers that hold partitions which this query reads, named by client id and host.

A driver's instance id is made of what it reads, so the last run of a query whose subscription has changed is another member.  A
rebalance would wait for it until its session ends.  It is taken out (KIP-345); one that still runs joins again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
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

    Called by the owner of the membership, and by the thread that waits for it to begin.  A call waits for Kafka's answer.
    """

    def __init__(self, client: ClusterClient, group_id: str, instance_id: str, session_timeout_ms: int) -> None:
        self._client = client
        self._lock = threading.RLock()
        self._group_id = group_id
        self._instance_id = instance_id
        self._limit_s = session_timeout_ms / 1000
        self._held_since: float | None = None  # others have some of our partitions
        self._trouble = ""  # why the group can't be described now
        self._reported: set[str] = set()
        self.total = self.present = 0  # in all, and as of the last answer
        self._predecessor = ""  # the owners of our instance id, or of our partitions, when ``is_empty`` asked
        self._removed: set[str] = set()  # instance ids of drivers taken out while this one is a member: each once

    def look(self, missing: frozenset[TopicPartition]) -> CohortError | None:
        """The failure, once others have held some of the ``missing`` partitions at every look for a session timeout."""
        with self._lock:
            if not missing:
                self._held_since, self.present = None, 0
                self._reported.clear()
            elif (group := self._described_group()) is not None:
                return self._judge(self._owners(group, missing), missing)
            return None

    def _judge(self, owners: list[DescribedMember], missing: frozenset[TopicPartition]) -> CohortError | None:
        self._report(_names(owners), missing)
        now = time.monotonic()
        self._held_since = (self._held_since or now) if owners else None
        if self._held_since is None or now - self._held_since < PART_OF_SESSION * self._limit_s:
            return None
        # The older one of two drivers ends once it sees the newer one's run, but stays a member until its session ends.
        drivers = [each for each in owners if each.instance_id not in self._removed]
        if not self._remove(drivers):
            return self._failure(_names(owners), missing)
        self._removed |= {each.instance_id for each in drivers}
        self._held_since = None
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

    def _report(self, holding: list[str], missing: frozenset[TopicPartition]) -> None:
        """Warn of members that have some of our partitions, of each once."""
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
        deadline, trouble = time.monotonic() + DESCRIBE_TIMEOUT_S, ""
        while True:
            group: GroupDescription | None = None
            try:
                group = self._client.describe_group(self._group_id, DESCRIBE_TIMEOUT_S)
            except TransportError as error:
                trouble = str(error)
            if group is None or group.error not in _NOT_YET or time.monotonic() + NOT_YET_GAP_S > deadline:
                break
            threading.Event().wait(NOT_YET_GAP_S)
        if group is not None and group.error and group.error != KafkaError.GROUP_ID_NOT_FOUND:
            trouble = clients.text_of(KafkaError(group.error))
        if trouble and trouble != self._trouble:
            clients.log.warning("group %s cannot be described: %s", self._group_id, trouble)
        self._trouble = trouble
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
