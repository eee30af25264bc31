"""Who else is in the real group: consumers that hold partitions which this query reads, named by client id and host."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol import TopicPartition
from sparkcohort.runtime.shell import client

DESCRIBE_TIMEOUT_S = 3.0
PART_OF_SESSION = 0.9  # so that the query has ended when one session timeout is over
EVERYBODY: frozenset[TopicPartition] = frozenset()


class Strangers:
    """Watches for partitions that somebody else in the group has had for a session timeout.  Called from one thread."""

    def __init__(self, conf: Mapping[str, str], group_id: str, instance_id: str, session_timeout_ms: int) -> None:
        self._conf = conf
        self._group_id = group_id
        self._instance_id = instance_id
        self._limit_s = session_timeout_ms / 1000
        self._since: float | None = None
        self._admin: AdminClient | None = None

    def look(self, missing: frozenset[TopicPartition]) -> CohortError | None:
        """The failure, once ``missing`` has been empty at no look for a session timeout and others hold some of it."""
        now = time.monotonic()
        if not missing:
            self._since = None
        elif self._since is None:
            self._since = now
        elif now - self._since >= PART_OF_SESSION * self._limit_s:
            self._since = now
            holders = self.holders(missing)
            return self._failure(holders, missing) if holders else None
        return None

    def holders(self, partitions: frozenset[TopicPartition]) -> list[str]:
        """``client id (host)`` of each other member that has some of these partitions (``EVERYBODY``: of each)."""
        try:
            if self._admin is None:
                self._admin = client.new_admin(self._conf)
            asked = self._admin.describe_consumer_groups([self._group_id], request_timeout=DESCRIBE_TIMEOUT_S)
            members = asked[self._group_id].result(DESCRIBE_TIMEOUT_S).members
        except (KafkaException, TimeoutError) as error:
            client.log.warning("group %s cannot be described: %s", self._group_id, error)
            return []
        others = [member for member in members if member.group_instance_id != self._instance_id]
        return sorted(_name(member) for member in others if partitions == EVERYBODY or _held(member) & partitions)

    def everybody(self) -> list[str]:
        """All other members."""
        return self.holders(EVERYBODY)

    def _failure(self, holders: list[str], missing: frozenset[TopicPartition]) -> CohortError:
        return CohortError(
            f"{', '.join(holders)} in group {self._group_id} held {client.names_of(missing)}, which this query "
            "reads, for "
            f"{self._limit_s:g} s (session.timeout.ms): stop that consumer, or give this query a group.id of its own"
        )


def _name(member: Any) -> str:
    return f"client {member.client_id} ({str(member.host).lstrip('/')})"


def _held(member: Any) -> set[TopicPartition]:
    assignment = member.assignment
    return {TopicPartition(held.topic, held.partition) for held in assignment.topic_partitions} if assignment else set()
