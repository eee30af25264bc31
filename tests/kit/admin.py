"""What a test asks of a real broker: topics, offsets, groups, permissions.

Usage: ``broker.admin.create_topic("orders", 12)``, ``broker.admin.ends("orders")``; see ``tests.kit.broker``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    ElectionType,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ClusterMetadata,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from tests.kit.waiting import wait_until

T = TypeVar("T")
TIMEOUT_S = 60.0
ANSWER_S = 2.0  # of a broker that is there
# What a broker says of a partition that the metadata gives it already, or still.
CATCHING_UP = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError._NOENT,  # librdkafka's own: no leaders found
}
NOBODY = {KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}
LOG_APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
# Compacts within a second once the active segment has rolled, which a write after segment.ms makes it do.
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.001",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "200",
    "delete.retention.ms": "0",
}


class Admin:
    """Blocking administration of one cluster; errors are raised as KafkaException."""

    def __init__(self, bootstrap: str, conf: Mapping[str, str] | None = None) -> None:
        """Connect on first use; ``conf`` are further librdkafka settings."""
        self._servers, self._further = bootstrap.split(","), dict(conf or {})
        self._conf: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,  # brokers come and go in tests
            **self._further,
        }
        self._client = AdminClient(self._conf)

    def brokers(self) -> frozenset[int]:
        """The ids of the brokers in the cluster's metadata; empty when none answers within a second.

        By another client each time, which stays: one that was told of no broker may ask nobody ever again (librdkafka 5301).
        """
        self._client = AdminClient(self._conf)
        try:
            return frozenset(self._client.list_topics(timeout=1).brokers)
        except KafkaException:
            return frozenset()

    def topics(self) -> frozenset[str]:
        """The names of all topics, internal ones included."""
        return frozenset(self._metadata().topics)

    def _metadata(self, topic: str | None = None, within_s: float = TIMEOUT_S) -> ClusterMetadata:
        """Ask until a broker answers: one that is frozen keeps its connections, and the client asks any."""

        def asked() -> ClusterMetadata | None:
            try:
                return self._client.list_topics(topic, timeout=ANSWER_S)
            except KafkaException as error:
                if error.args[0].code() not in NOBODY:
                    raise
                return None

        return wait_until(asked, within_s, "metadata")

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        *,
        configs: Mapping[str, str] | None = None,
        assignment: Sequence[int | Sequence[int]] | None = None,
    ) -> None:
        """Create a topic and wait for its leaders; ``assignment`` gives the broker of each partition, or its replicas."""
        where: dict[str, Any] = {"num_partitions": partitions, "replication_factor": 1}
        if assignment is not None:
            replicas = [[nodes] if isinstance(nodes, int) else list(nodes) for nodes in assignment]
            where = {"num_partitions": len(assignment), "replica_assignment": replicas}
        new = NewTopic(topic, config=dict(configs or {}), **where)
        self._client.create_topics([new], operation_timeout=TIMEOUT_S)[topic].result(TIMEOUT_S)
        count = partitions if assignment is None else len(assignment)
        self._wait_for_leaders(topic, count)

    def add_partitions(self, topic: str, total: int) -> None:
        """Grow a topic to ``total`` partitions and wait for their leaders."""
        self._client.create_partitions([NewPartitions(topic, total)])[topic].result(TIMEOUT_S)
        self._wait_for_leaders(topic, total)

    def _wait_for_leaders(self, topic: str, partitions: int) -> None:
        def led() -> bool:
            leaders = self.leaders(topic)
            return len(leaders) == partitions and all(leader >= 0 for leader in leaders.values())

        wait_until(led, TIMEOUT_S, f"{partitions} led partitions of {topic}")
        self.ends(topic)  # answers only when the leaders know of it too
        for server in self._servers if len(self._servers) > 1 else ():
            # A client asks the broker that it is told of, as long as it knows no other.
            only = Admin(server, self._further)
            wait_until(lambda: only._knows(topic, partitions), TIMEOUT_S, f"{server} to know {topic}")  # noqa: B023

    def _knows(self, topic: str, partitions: int) -> bool:
        """Whether the first broker that answers knows so many partitions; one that is away needn't."""
        try:
            described = self._client.list_topics(topic, timeout=ANSWER_S).topics[topic]
        except KafkaException as error:
            if error.args[0].code() not in NOBODY:
                raise
            return True
        return described.error is None and len(described.partitions) == partitions

    def elect_anyone(self, topic: str) -> None:
        """Let partition 0, whose in-sync replicas are all away, be led by one that may know less (unclean election)."""
        asked = [TopicPartition(topic, 0)]

        def elected() -> bool:  # not as long as the controller counts on the one that is away
            found = self._client.elect_leaders(ElectionType.UNCLEAN, asked).result(TIMEOUT_S)
            done = (None, KafkaError.ELECTION_NOT_NEEDED)  # where the topic allows it, brokers do it by themselves
            return all((error and error.code()) in done for error in found.values())

        wait_until(elected, 60, f"{topic} to be led", every_s=0.5)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic and wait until it is gone from the metadata."""
        self._client.delete_topics([topic], operation_timeout=TIMEOUT_S)[topic].result(TIMEOUT_S)
        wait_until(lambda: topic not in self.topics(), TIMEOUT_S, f"the end of {topic}")

    def leaders(self, topic: str, within_s: float = TIMEOUT_S) -> dict[int, int]:
        """The leading broker of each partition; -1 where there is none."""
        described = self._metadata(topic, within_s).topics[topic]
        return {number: partition.leader for number, partition in described.partitions.items()}

    def in_sync(self, topic: str) -> dict[int, set[int]]:
        """The brokers that have all of each partition."""
        described = self._metadata(topic).topics[topic]
        return {number: set(partition.isrs) for number, partition in described.partitions.items()}

    def beginnings(self, topic: str) -> dict[int, int]:
        """The first available offset of each partition."""
        return self._offsets(topic, OffsetSpec.earliest())

    def ends(self, topic: str, *, committed_only: bool = False) -> dict[int, int]:
        """The log end of each partition; with ``committed_only`` the last stable offset (open transactions)."""
        return self._offsets(topic, OffsetSpec.latest(), committed_only=committed_only)

    def _offsets(self, topic: str, spec: OffsetSpec, *, committed_only: bool = False) -> dict[int, int]:
        level = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED

        def ask() -> dict[int, int] | None:
            asked = {TopicPartition(topic, number): spec for number in self.leaders(topic)}
            answers = self._client.list_offsets(asked, isolation_level=level, request_timeout=TIMEOUT_S)
            try:
                return {at.partition: future.result(TIMEOUT_S).offset for at, future in answers.items()}
            except KafkaException as error:
                if error.args[0].code() in CATCHING_UP:
                    return None  # the metadata is ahead of the broker, or behind it, for a moment
                raise

        return wait_until(ask, TIMEOUT_S, f"the offsets of {topic}") or {}

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Move the beginning of each partition named in ``before`` up to the offset given."""
        asked = [TopicPartition(topic, number, offset) for number, offset in before.items()]
        for future in self._client.delete_records(asked).values():
            future.result(TIMEOUT_S)

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The group's committed offset of each (topic, partition)."""
        return {(found.topic, found.partition): found.offset for found in self._committed(group)}

    def committed_metadata(self, group: str) -> dict[tuple[str, int], str]:
        """The metadata text committed with each (topic, partition)."""
        return {(found.topic, found.partition): found.metadata or "" for found in self._committed(group)}

    def _committed(self, group: str) -> Iterable[TopicPartition]:
        # Not AdminClient.list_consumer_group_offsets: it crashes the process when the coordinator is loading
        # (librdkafka issue 5040).
        client = Consumer(self._conf | {"group.id": group})
        try:
            topics = self._metadata().topics
            asked = [TopicPartition(topic, number) for topic, about in topics.items() for number in about.partitions]
            found = client.committed(asked, timeout=TIMEOUT_S) if asked else []
        finally:
            client.close()
        return [each for each in found if each.offset >= 0]

    def coordinates(self) -> bool:
        """Whether the group coordinator has loaded its offsets and answers."""
        client = Consumer(self._conf | {"group.id": "probe"})
        try:
            client.committed([TopicPartition("__consumer_offsets", 0)], timeout=2)
        except KafkaException:
            return False
        finally:
            client.close()
        return True

    def commit(self, group: str, topic: str, offsets: Mapping[int, int], metadata: str = "") -> None:
        """Set an empty group's committed offsets, as `kafka-consumer-groups --reset-offsets` does."""
        partitions = [TopicPartition(topic, number, offset, metadata) for number, offset in offsets.items()]
        asked = [ConsumerGroupTopicPartitions(group, partitions)]
        answer = self._client.alter_consumer_group_offsets(asked)[group].result(TIMEOUT_S)
        for partition in answer.topic_partitions:
            if partition.error is not None:
                raise KafkaException(partition.error)

    def groups(self) -> dict[str, str]:
        """All groups of the cluster, each with its type: those that have members, and those that have offsets."""
        found = self._client.list_consumer_groups(request_timeout=TIMEOUT_S).result(TIMEOUT_S)
        if found.errors:
            raise found.errors[0]
        return {each.group_id: str(each.type) for each in found.valid}

    def members(self, group: str) -> list[Any]:
        """The members of a group, as confluent_kafka's MemberDescription (client_id, host, assignment, ...)."""
        described = self._client.describe_consumer_groups([group])[group].result(TIMEOUT_S)
        return list(described.members)

    def add_users(self, mechanism: str, users: Mapping[str, str]) -> None:
        """Let users, name to password, log in by SCRAM-SHA-256 or SCRAM-SHA-512; waits until the broker knows them."""
        way = ScramCredentialInfo(getattr(ScramMechanism, mechanism.replace("-", "_")), 4096)
        added: list[UserScramCredentialAlteration] = [
            UserScramCredentialUpsertion(name, way, word.encode()) for name, word in users.items()
        ]
        for done in self._client.alter_user_scram_credentials(added).values():
            done.result(TIMEOUT_S)

        def known() -> bool:
            told: Any = self._client.describe_user_scram_credentials(list(users))
            try:
                described = [answer.result(TIMEOUT_S) for answer in told.values()]
            except KafkaException:  # nothing is known of one of them yet
                return False
            return all(way.mechanism in {each.mechanism for each in one.scram_credential_infos} for one in described)

        wait_until(known, TIMEOUT_S, f"{mechanism} of {', '.join(users)}")

    def allow(self, user: str, resource: str, name: str, *operations: str) -> None:
        """Allow ``user`` the operations (``read``, ...) on a ``topic`` or ``group`` of this name, or on each ``transactional_id`` that begins with it."""
        bindings = [_acl(AclBinding, user, resource, name, AclOperation[each.upper()]) for each in operations]
        for future in self._client.create_acls(bindings).values():
            future.result(TIMEOUT_S)

    def forbid(self, user: str, resource: str, name: str) -> None:
        """Take from ``user`` all that was allowed on a resource."""
        binding = _acl(AclBindingFilter, user, resource, name, AclOperation.ANY)
        for future in self._client.delete_acls([binding]).values():
            assert future.result(TIMEOUT_S)


def _acl(kind: Callable[..., T], user: str, resource: str, name: str, operation: AclOperation) -> T:
    """What allows a user an operation on a resource of this name."""
    pattern, host = ResourcePatternType.PREFIXED if resource == "transactional_id" else ResourcePatternType.LITERAL, "*"
    return kind(ResourceType[resource.upper()], name, pattern, f"User:{user}", host, operation, AclPermissionType.ALLOW)
