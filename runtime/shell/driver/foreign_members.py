"""Who else is in the real group: consumers that hold partitions which this query reads, named by client id and host.

A driver's instance id is of what it reads, so the last run of a query whose subscription has changed is another member.  A
rebalance would wait for it until its session ends.  It is taken out (KIP-345); one that still runs joins again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.fetch_messages import Node
from sparkcohort.runtime.kafka.run_epoch import CommitMetadata
from sparkcohort.runtime.protocol.partitions import TopicPartition, names_of
from sparkcohort.runtime.shell.kafka import clients, group_requests
from sparkcohort.runtime.shell.kafka.leave_group import remove_members
from sparkcohort.runtime.shell.kafka.renewed_client import RenewedClient
from sparkcohort.runtime.shell.options.connection_settings import TransportError
from sparkcohort.runtime.shell.options.parse import is_default_instance_id
from sparkcohort.runtime.text import printable

DESCRIBE_TIMEOUT_S = 3.0
REACH_S = 1.0
ANYBODY = "__consumer_offsets"  # a topic to ask for, so that not all of a large cluster's are sent
ASK_GAP_S, MOST_GAP_S = 1.0, 30.0  # partitions may also be missing because they are new
MOST_NAME = 200  # characters; a client id is as long as its owner likes
PART_OF_SESSION = 0.9  # so that the query has ended when one session timeout is over
_MEMBERLESS = frozenset({ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD})
EVERYBODY: frozenset[TopicPartition] = frozenset()


class ForeignMembers:
    """Watches for partitions that somebody else in the group has had for a session timeout.

    The owner of the membership looks; whoever waits in vain for it to begin asks, too.  So one question is asked at a time, and who
    lets go of the client waits for its end: seconds, and only where the membership has failed.
    """

    def __init__(self, conf: Mapping[str, str], group_id: str, instance_id: str, session_timeout_ms: int) -> None:
        self._conf = conf
        self._lock = threading.RLock()
        self._group_id = group_id
        self._instance_id = instance_id
        self._limit_s = session_timeout_ms / 1000
        self._since: float | None = None
        self._asked: Future[Any] | None = None
        self._asked_at = 0.0
        self._next_ask = 0.0
        self._gap_s = ASK_GAP_S
        self._named: set[str] = set()
        self.found = self.present = 0  # in all, and as of the last answer
        self._predecessor = ""  # who had our instance id, or our partitions, when ``nobody`` asked
        self._former: frozenset[str] = frozenset()  # member ids of drivers that had partitions of ours then
        self._removed: set[str] = set()  # instance ids of drivers taken out while this one is a member: each once
        self._admin: RenewedClient[AdminClient] = RenewedClient(conf)

    def look(self, missing: frozenset[TopicPartition]) -> CohortError | None:
        """The failure, once ``missing`` has been empty at no look for a session timeout and others hold some of it."""
        with self._lock:
            return self._look(missing)

    def _look(self, missing: frozenset[TopicPartition]) -> CohortError | None:
        now = time.monotonic()
        if not missing:
            if self._asked is not None:
                self.release()  # a future that is dropped ends no request, see group_requests
            self._since = None
            self.present = 0
            self._next_ask, self._gap_s = 0.0, ASK_GAP_S
            self._named.clear()
            return None
        self._since = now if self._since is None else self._since
        self._hear(missing)
        if self._asked is not None and now - self._asked_at >= DESCRIBE_TIMEOUT_S:
            self.release()
        if self._asked is None and now >= self._next_ask:
            self._next_ask, self._gap_s = now + self._gap_s, min(2 * self._gap_s, MOST_GAP_S)
            self._asked, self._asked_at = self._describe(), now
        if now - self._since >= PART_OF_SESSION * self._limit_s:
            self._since = now
            group = self._group()
            owners = self._others(group, missing) if group else []
            # The older one of two drivers ends once it sees the newer one's run, but stays a member until its session ends.
            drivers = [each for each in owners if each.group_instance_id not in self._removed]
            if self._remove(group, drivers):
                self._removed |= {each.group_instance_id for each in drivers}
                return None
            return self._failure(_names(owners), missing) if owners else None
        return None

    def nobody(self, topic: str | None, ours: frozenset[TopicPartition] = EVERYBODY) -> bool:
        """Whether the group is known to have no member at all: then an OffsetCommit needs none either.

        ``topic``: one that there is, of which a leader can be asked first; ``ours``: the partitions that this query reads.
        """
        with self._lock:
            return self._nobody(topic, ours)

    def _nobody(self, topic: str | None, ours: frozenset[TopicPartition]) -> bool:
        asked = self._describe(topic)
        try:
            group = asked.result(DESCRIBE_TIMEOUT_S) if asked is not None else None
            members = group.members if group else []
            same = [each for each in members if each.group_instance_id == self._instance_id]
            former = [each for each in self._drivers(members) if _held(each) & ours]
            self._predecessor = ", ".join(sorted(map(_name, same or former)))
            self._former = frozenset(each.member_id for each in former)
            return group is not None and group.state in _MEMBERLESS
        except KafkaException as error:
            return clients.code_of(error) == KafkaError.GROUP_ID_NOT_FOUND
        except TimeoutError:
            self.release()
            return False

    def tell_predecessor(self, last: CommitMetadata | None) -> None:
        """Warn of the driver that this one takes over from, if Kafka has it as a member still; ``last``: what that run wrote."""
        if self._predecessor:
            where = f" on {last.host}, run {last.run}," if last and last.host else ""
            clients.log.warning(
                "group %s: %s%s was its driver until now; this query takes over, and ends that one if it still runs",
                *(self._group_id, self._predecessor, where),
            )

    def remove_former(self) -> None:
        """Take out the drivers that had partitions of ours when ``nobody`` asked, as joining fences one of our instance id."""
        with self._lock:
            group = self._group() if self._former else None
            if group is not None:
                self._remove(group, [each for each in group.members if each.member_id in self._former])

    def remove_drivers(self) -> None:
        """Take out all other drivers: those that run had time to rejoin, and can do so again."""
        with self._lock:
            group = self._group()
            if group is not None:
                self._remove(group, group.members)

    def _drivers(self, members: Iterable[Any]) -> list[Any]:
        others = (each for each in members if each.group_instance_id != self._instance_id)
        return [each for each in others if is_default_instance_id(each.group_instance_id)]

    def _remove(self, group: Any, members: Iterable[Any]) -> bool:
        """Take the drivers among these out of the group; whether there were any, and they are."""
        leaving = self._drivers(members)
        if not leaving:
            return False
        names, coordinator = ", ".join(_names(leaving)), Node(group.coordinator.host, group.coordinator.port)
        instances = {each.member_id: each.group_instance_id for each in leaving}
        try:
            remove_members(self._conf, coordinator, self._group_id, instances)
        except TransportError as error:
            text = "group %s: %s stays in it until its session.timeout.ms is over: it can't be taken out: %s"
            clients.log.warning(text, self._group_id, names, error)
            return False
        text = "group %s: %s was taken out, so that nothing waits for it; if it still runs, it joins again"
        clients.log.info(text, self._group_id, names)
        return True

    def release(self) -> None:
        """Let go of the client, and of what it was asked."""
        with self._lock:
            self._asked = None
            self._admin.release()

    @property
    def asking(self) -> bool:
        """Whether an answer is on its way."""
        return self._asked is not None

    def _describe(self, topic: str | None = None) -> Future[Any] | None:
        try:
            with self._admin.asking(lambda: self._new_admin(topic)) as admin:
                admin.list_topics(ANYBODY, timeout=REACH_S)
                asked = group_requests.describe_groups(admin, [self._group_id])
        except KafkaException as error:
            clients.log.warning("group %s cannot be described: %s", self._group_id, clients.text_of(error))
            return None
        found: Future[Any] = asked[self._group_id]
        return found

    def _new_admin(self, topic: str | None) -> AdminClient:
        admin = clients.new_admin(self._conf)
        clients.connect(admin, topic)
        return admin

    def _hear(self, missing: frozenset[TopicPartition]) -> None:
        """Warn of those who have some of ours, as soon as it is known, each once."""
        if self._asked is None or not self._asked.done():
            return
        asked, self._asked = self._asked, None
        group = self._answer(asked)
        holding = _names(self._others(group, missing)) if group is not None else []
        self.present = len(holding)
        new = [name for name in holding if name not in self._named]
        if not new:
            return
        self._named.update(new)
        self.found += len(new)
        clients.log.warning(
            "%s has joined group %s and holds partitions that this query reads, of %s: nothing is lost, but the query ends "
            "if it is still there after %g s (session.timeout.ms); stop that consumer, or give this query a group.id of its own",
            ", ".join(new),
            self._group_id,
            names_of(missing),
            self._limit_s,
        )

    def everybody(self) -> list[str]:
        """``client id (host)`` of each other member."""
        with self._lock:
            group = self._group()
            return _names(self._others(group, EVERYBODY)) if group is not None else []

    def _group(self) -> Any:
        """The group as Kafka describes it; None where it can't be described now."""
        asked = self._describe()
        return self._answer(asked) if asked is not None else None

    def _answer(self, asked: Future[Any]) -> Any:
        try:
            return asked.result(DESCRIBE_TIMEOUT_S)
        except (KafkaException, TimeoutError) as error:
            if isinstance(error, TimeoutError):
                self.release()
            clients.log.warning("group %s cannot be described: %s", self._group_id, clients.text_of(error))
            return None

    def _others(self, group: Any, partitions: frozenset[TopicPartition]) -> list[Any]:
        """The other members that have some of these partitions (``EVERYBODY``: all others)."""
        others = [member for member in group.members if member.group_instance_id != self._instance_id]
        return [member for member in others if partitions == EVERYBODY or _held(member) & partitions]

    def _failure(self, owners: list[str], missing: frozenset[TopicPartition]) -> CohortError:
        return CohortError(
            f"{', '.join(owners)} in group {self._group_id} held {names_of(missing)}, which this query "
            "reads, for "
            f"{self._limit_s:g} s (session.timeout.ms): stop that consumer, or give this query a group.id of its own"
        )


def _names(members: Iterable[Any]) -> list[str]:
    """``client id (host)`` of each, in order; drivers of queries are told as such."""
    return sorted(_name(each, driver=is_default_instance_id(each.group_instance_id)) for each in members)


def _name(member: Any, *, driver: bool = False) -> str:
    what = f", driver {member.group_instance_id}" if driver else ""
    return printable(f"client {member.client_id} ({str(member.host).lstrip('/')}{what})", MOST_NAME)


def _held(member: Any) -> set[TopicPartition]:
    assignment = member.assignment
    return {TopicPartition(held.topic, held.partition) for held in assignment.topic_partitions} if assignment else set()
