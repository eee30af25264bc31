"""One consumer group in Kafka and the cluster's topics, read and changed: for all commands with ``--bootstrap-server``."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from typing import Final, TypeVar

import click
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import MemberDescription
from msgspec.structs import replace

from sparkcohort.cli.client_config import client_config
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.cluster_messages import MetadataQuestion, topic_ids
from sparkcohort.runtime.kafka.fetch_messages import Metadata
from sparkcohort.runtime.kafka.run_epoch import NO_RECORD, encode, latest
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver.discovery import Layout
from sparkcohort.runtime.shell.driver.list_offsets import ask_leaders
from sparkcohort.runtime.shell.kafka import clients, group_requests
from sparkcohort.runtime.shell.kafka import errors as kafka_errors
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient
from sparkcohort.runtime.shell.kafka.group_offsets import GroupOffsets
from sparkcohort.runtime.shell.options.connection_settings import ConnectionRefused, TransportError
from sparkcohort.runtime.shell.options.security_settings import redact_text

T = TypeVar("T")
Offsets = dict[TopicPartition, int]
TIMEOUT_S: Final = 15.0


def open_group(group_id: str, servers: str | None, config: str | None) -> KafkaGroup:
    """The group for the command that runs, closed when it ends.  Raises Mistake, CohortError."""
    group = KafkaGroup(group_id, client_config(servers, config))
    return click.get_current_context().with_resource(closing(group))


class KafkaGroup:
    """A group and the topics as the brokers know them.  Every call may raise CohortError; a request has ``TIMEOUT_S``."""

    def __init__(self, group_id: str, conf: Mapping[str, str]) -> None:
        """Connect, and read the topics; ``conf`` is librdkafka's."""
        self.name = group_id
        self.conf = {**conf, "log_level": "0"}
        self._cluster = ClusterClient(self.conf)
        try:
            self.admin = self._do(lambda: clients.new_admin(self.conf))
            self.metadata = self._read_metadata()
        except CohortError:
            self.close()
            raise

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()

    def _do(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except (KafkaException, TransportError, TimeoutError) as error:
            raise self.as_cohort_error(error) from None

    def as_cohort_error(self, error: KafkaException | TransportError | TimeoutError) -> CohortError:
        """Kafka's error in a line, with a remedy."""
        code = clients.code_of(error) if isinstance(error, KafkaException) else None
        text = str(error) if isinstance(error, TransportError) else clients.text_of(error)
        if code in kafka_errors.AUTHENTICATION or isinstance(error, ConnectionRefused):
            return kafka_errors.unauthenticated(self.conf, text)
        if code == kafka_errors.GROUP_DENIED:
            return kafka_errors.group_denied(self.name)
        return CohortError(
            f"--bootstrap-server {self.conf['bootstrap.servers']}: {redact_text(text, self.conf)}; check the address, the "
            "network and --command-config (security.protocol)"
        )

    # --- topics ----------------------------------------------------------------------------------------

    def _read_metadata(self, topics: Collection[str] | None = None) -> Metadata:
        return self._do(lambda: self._cluster.metadata(MetadataQuestion(topics), TIMEOUT_S))

    @property
    def sizes(self) -> dict[str, int]:
        """The number of partitions of each topic that this user may describe."""
        return {name: len(topic.leaders) for name, topic in self.metadata.topics.items() if not topic.error}

    @property
    def topic_ids(self) -> dict[str, str]:
        """The ids of the topics, where brokers have them."""
        return topic_ids(self.metadata)

    def partitions(self) -> set[TopicPartition]:
        """All partitions of the topics."""
        return {TopicPartition(topic, number) for topic, count in self.sizes.items() for number in range(count)}

    def check_permission(self, topics: Collection[str]) -> None:
        """Raise CohortError if one of these topics may not be described; one that doesn't exist is no error."""
        answers = self._read_metadata(topics).topics
        if denied := [name for name, topic in answers.items() if topic.error == kafka_errors.TOPIC_DENIED]:
            raise kafka_errors.topic_denied(denied)

    def list_offsets(
        self, partitions: Collection[TopicPartition], spec: int
    ) -> tuple[Offsets, dict[TopicPartition, str]]:
        """Offsets by EARLIEST, LATEST or a time in ms, and the reason for each partition without one."""
        self.metadata = self._read_metadata()
        leaders = {
            TopicPartition(name, number): leader.node
            for name, topic in self.metadata.topics.items()
            for number, leader in topic.leaders.items()
        }
        specs = dict.fromkeys(partitions, spec)
        answers, reasons = ask_leaders(self._cluster, Layout(leaders), specs, TIMEOUT_S, committed=False)
        return {tp: end.offset for tp, end in answers.items()}, reasons

    def offsets(self, partitions: Collection[TopicPartition], spec: int) -> Offsets:
        """As ``list_offsets``, of all of these partitions."""
        offsets, reasons = self.list_offsets(partitions, spec)
        if reasons:
            tp, reason = min(reasons.items())
            raise CohortError(f"{tp.topic}-{tp.partition}: {redact_text(reason, self.conf)}")
        return offsets

    # --- the group -------------------------------------------------------------------------------------

    def members(self) -> list[MemberDescription]:
        """The group's members; none where Kafka doesn't know the group."""

        def fetch() -> list[MemberDescription]:
            futures = group_requests.describe_groups(self.admin, [self.name])
            try:
                return list(futures[self.name].result(TIMEOUT_S + 1).members)
            except KafkaException as error:
                if clients.code_of(error) == KafkaError.GROUP_ID_NOT_FOUND:
                    return []
                raise

        return self._do(fetch)

    def committed(self, partitions: Collection[TopicPartition] | None = None) -> dict[TopicPartition, tuple[int, str]]:
        """Offset and metadata of each partition (None: of all) that the group has committed."""
        with closing(GroupOffsets(self.conf, self.name)) as group:
            requested = self.partitions() if partitions is None else partitions
            return self._do(lambda: group.committed(requested, TIMEOUT_S))

    def reset(self, offsets: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Commit ``offsets`` for a group without members.

        The metadata that Cohort keeps with its offsets is written as by a later run.  So generations stay reserved, and a
        driver that wakes up again is fenced.  The plan of a first batch is removed, so no query starts from it.
        """
        old = latest(text for _, text in committed.values())
        record = replace(old, run=old.run + 1, id=secrets.token_hex(4), pin="", plan="", host="")

        def metadata_of(topic: str) -> str:
            return "" if old == NO_RECORD else encode(replace(record, topic=self.topic_ids.get(topic, "")))

        positions = [Position(*tp, offset, metadata=metadata_of(tp.topic)) for tp, offset in sorted(offsets.items())]

        def commit() -> None:
            future = group_requests.commit_offsets(self.admin, self.name, positions)
            for answer in future.result(TIMEOUT_S + 1).topic_partitions or ():
                if answer.error is not None:
                    raise KafkaException(answer.error)

        self._do(commit)
