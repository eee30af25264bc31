"""One consumer group in Kafka, read and changed by the admin API: for commands with ``--bootstrap-server``."""

from __future__ import annotations

import concurrent.futures
import secrets
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import ConsumerGroupDescription, OffsetSpec

from sparkcohort.cli.simulate import live_case
from sparkcohort.cli.simulate.live_case import QUIET, TIMEOUT_S, CaseRequest
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.run_epoch import NO_RECORD, encode, latest
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka import blocking_client, clients, group_requests
from sparkcohort.runtime.shell.kafka import errors as kafka_errors
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient
from sparkcohort.runtime.shell.kafka.group_offsets import GroupOffsets
from sparkcohort.runtime.shell.options.security_settings import redact_text

T = TypeVar("T")
NO_OFFSET: Final = -1
Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class GroupListing:
    """The groups of a cluster, by id; ``silent`` are those whose coordinator doesn't answer."""

    described: tuple[ConsumerGroupDescription, ...]
    silent: tuple[str, ...]
    denied: int  # the number of groups that this user may not describe
    unlisted: tuple[str, ...]  # the errors of brokers that have not listed their groups


class KafkaGroup:
    """A group and its topics as the brokers know them.  Every call may raise CohortError; a request has ``TIMEOUT_S``."""

    def __init__(self, request: CaseRequest) -> None:
        """Connect, and read the topics."""
        self._request = request
        self._errors: list[KafkaError] = []
        self._conf: dict[str, Any] = {**request.conf, **QUIET}
        settings: dict[str, Any] = {**self._conf, "error_cb": self._errors.append}
        try:
            self._admin = clients.new_admin(settings)
        except KafkaException as error:
            raise kafka_errors.unauthenticated(request.conf, clients.text_of(error)) from None
        cluster = self._do(lambda: live_case.cluster_of(self._admin, self._errors))
        self.sizes = {t: len(metadata.partitions) for t, metadata in cluster.topics.items() if not metadata.error}

    def _do(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except (KafkaException, TimeoutError) as error:
            self._admin.poll(0)
            raise live_case.as_cohort_error(self._request, self._admin, error, self._errors) from None

    @property
    def name(self) -> str:
        """The group's id."""
        return self._request.group_id

    def partitions(self) -> set[TopicPartition]:
        """All partitions of the cluster's topics."""
        return {TopicPartition(topic, number) for topic, count in self.sizes.items() for number in range(count)}

    def description(self) -> ConsumerGroupDescription | None:
        """State and members; None: Kafka doesn't know the group."""

        def fetch() -> ConsumerGroupDescription | None:
            futures = group_requests.describe_groups(self._admin, [self.name])
            try:
                group: ConsumerGroupDescription = futures[self.name].result(TIMEOUT_S + 1)
            except KafkaException as error:
                if clients.code_of(error) == KafkaError.GROUP_ID_NOT_FOUND:
                    return None
                raise
            return None if str(group.state.name) == "DEAD" else group

        return self._do(fetch)

    def members(self) -> list[tuple[str, str, str]]:
        """(member id or instance id, client id, host) of each; empty if Kafka doesn't know the group."""
        group = self.description()
        return (
            [] if group is None else [(m.group_instance_id or m.member_id, m.client_id, m.host) for m in group.members]
        )

    def every_group(self) -> GroupListing:
        """All groups of the cluster, as far as brokers answer in time."""

        def fetch_all() -> GroupListing:
            listed = self._admin.list_consumer_groups(request_timeout=TIMEOUT_S).result(TIMEOUT_S + 1)
            if not listed.valid and listed.errors:
                raise listed.errors[0]
            unlisted = tuple(redact_text(clients.text_of(error), self._request.conf) for error in listed.errors)
            names = sorted(each.group_id for each in listed.valid)
            if not names:
                return GroupListing((), (), 0, unlisted)
            futures = group_requests.describe_groups(self._admin, names)
            concurrent.futures.wait(futures.values(), TIMEOUT_S + 1)
            return _sort_groups(futures, unlisted)

        return self._do(fetch_all)

    def unknown(self) -> CohortError:
        """The error for a group that Kafka doesn't know, with the nearest name that it knows."""
        return live_case.unknown_group(self._request, self._admin)

    def committed(self) -> dict[TopicPartition, tuple[int, str]]:
        """Offset and metadata of each partition that the group has committed."""
        group = GroupOffsets(self._conf, self.name)
        try:
            return self._do(lambda: group.committed(self.partitions(), TIMEOUT_S))
        finally:
            group.close()

    def start_offsets(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The first offset of each log."""
        return self._list_offsets(partitions, OffsetSpec.earliest())

    def end_offsets(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The offset after the last record of each log."""
        return self._list_offsets(partitions, OffsetSpec.latest())

    def offsets_at_time(self, partitions: Collection[TopicPartition], time_ms: int) -> Offsets:
        """The offset of the first record at or after a time; without one, the end of the log."""
        offsets = self._list_offsets(partitions, OffsetSpec.for_timestamp(time_ms))
        ends = self.end_offsets([tp for tp, offset in offsets.items() if offset < 0])
        return {tp: ends.get(tp, offset) for tp, offset in offsets.items()}

    def _list_offsets(self, partitions: Collection[TopicPartition], spec: OffsetSpec) -> Offsets:
        if not partitions:
            return {}

        def list_offsets() -> Offsets:
            futures = self._admin.list_offsets({Position(*tp): spec for tp in partitions}, request_timeout=TIMEOUT_S)
            return {TopicPartition(p.topic, p.partition): f.result(TIMEOUT_S + 1).offset for p, f in futures.items()}

        return self._do(list_offsets)

    def reset(self, offsets: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Commit ``offsets`` for a group without members.

        The metadata that Cohort keeps with its offsets is written as by a later run.  So generations stay reserved, and a
        driver that wakes up again is fenced.  The plan of a first batch is removed, so no query starts from it.
        """
        old = latest(text for _, text in committed.values())
        record = replace(old, run=old.run + 1, id=secrets.token_hex(4), pin="", plan="", host="")
        ids = {}
        if old != NO_RECORD:
            with closing(ClusterClient(self._conf)) as cluster:
                ids = self._do(lambda: blocking_client.topic_ids(cluster, {tp.topic for tp in offsets}, TIMEOUT_S))
        positions = [
            Position(
                *tp, offset, metadata=encode(replace(record, topic=ids.get(tp.topic, ""))) if old != NO_RECORD else ""
            )
            for tp, offset in sorted(offsets.items())
        ]

        def commit() -> None:
            future = group_requests.commit_offsets(self._admin, self.name, positions)
            for answer in future.result(TIMEOUT_S + 1).topic_partitions or ():
                if answer.error is not None:
                    raise KafkaException(answer.error)

        self._do(commit)

    def has_plan(self, committed: Mapping[TopicPartition, tuple[int, str]]) -> bool:
        """Whether a first batch is planned from these offsets, and not committed."""
        return bool(latest(text for _, text in committed.values()).plan)


def _sort_groups(futures: Mapping[str, Future[ConsumerGroupDescription]], unlisted: tuple[str, ...]) -> GroupListing:
    described, silent, denied = [], [], 0
    for name, future in futures.items():
        error = future.exception(0) if future.done() else TimeoutError()
        code = clients.code_of(error) if isinstance(error, KafkaException) else None
        if error is None:
            described.append(future.result(0))
        elif code == kafka_errors.GROUP_DENIED:
            denied += 1
        elif code != KafkaError.GROUP_ID_NOT_FOUND:  # a group that has ended meanwhile is left out
            silent.append(name)
    return GroupListing(tuple(described), tuple(silent), denied, unlisted)
