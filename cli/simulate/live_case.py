"""A live group as a case for ``cohort simulate``: from a coordinator's status, or from Kafka through its admin API.

Kafka tells a group's members and their partitions, but not their subscriptions.  Members are taken to subscribe to every
topic that a member of the group is assigned, or of which the group has committed offsets.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from sparkcohort.assignors import Load, MemberSubscription, Partition
from sparkcohort.cli.simulate.case import Case, LoadBalance
from sparkcohort.cli.views import client_id
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka import clients, group_requests
from sparkcohort.runtime.shell.kafka import errors as kafka_errors
from sparkcohort.runtime.shell.kafka.group_offsets import GroupOffsets
from sparkcohort.runtime.shell.options.security_settings import redact_text

TIMEOUT_S: Final = 15.0
FIRST_WAIT_S: Final = 0.5
GENERATION: Final = 1  # Kafka's description has none: all members are of the same one
QUIET: Final = {"log_level": "0"}

WANT_ALL: Final = "Kafka doesn't tell subscriptions: every member is taken to want every topic assigned or committed"
NO_RACKS: Final = "Kafka doesn't tell the members' racks"


def case_of_status(status: Mapping[str, Any]) -> Case:
    """The case of a live Cohort group (see ``status.build``), with racks and loads if its partitions' rows have them."""
    rows = {(row["topic"], row["partition"]): row for row in status["partitions"]}
    owned = {row["member_id"]: list(map(tuple, row["owned"])) for row in status["members"]}
    numbers: dict[str, list[int]] = {}
    for topic, number in sorted({*rows, *(partition for partitions in owned.values() for partition in partitions)}):
        numbers.setdefault(topic, []).append(number)
    places = {(topic, number): (topic, place) for topic, each in numbers.items() for place, number in enumerate(each)}
    loads: dict[str, dict[Partition, Load]] = {member: {} for member in sorted(owned)}
    for partition, row in rows.items():
        if row.get("load") and loads:
            # The load of a partition without owner is reported by the first member.
            speaker = loads.get(row["member_id"], next(iter(loads.values())))
            speaker[places[partition]] = Load(*row["load"])
    members = {
        row["member_id"]: MemberSubscription(
            topics=tuple(numbers),
            owned=tuple(sorted(places[partition] for partition in owned[row["member_id"]])),
            generation=status["generation"],
            instance_id=row["instance_id"],
            rack=row["rack"],
            since={
                places[tp]: generation
                for tp, generation in zip(owned[row["member_id"]], row["generations"], strict=True)
            },
            loads=loads[row["member_id"]],
        )
        for row in status["members"]
    }
    racks = {t: [tuple(rows.get((t, n), {}).get("racks") or ()) for n in each] for t, each in numbers.items()}
    notes = [_renumbering_note(topic, each) for topic, each in numbers.items()]
    if status["state"] != "Stable":
        notes.append(f"the group is not settled: {status['state']}")
    return Case(
        topics={topic: len(each) for topic, each in numbers.items()},
        members=members,
        racks={topic: each for topic, each in racks.items() if any(each)},
        assignor=status["protocol"] or "",
        load_balance=LoadBalance(*status["load_balance"]),
        names={row["member_id"]: client_id(row["executor"]) or row["member_id"] for row in status["members"]},
        notes=tuple(filter(None, notes)),
    )


def _renumbering_note(topic: str, numbers: list[int]) -> str:
    """The note on a topic of which the query reads only some partitions: they are renumbered, as assignors count from 0."""
    if numbers == list(range(len(numbers))):
        return ""
    first = ", ".join(f"{place} is {topic}-{number}" for place, number in enumerate(numbers[:3]))
    return f"{topic} is read in part, and its partitions are renumbered: {first}{' …' * (len(numbers) > 3)}"


@dataclass(frozen=True, slots=True)
class CaseRequest:
    """A group in Kafka, and the client's settings under librdkafka's names."""

    group_id: str
    conf: Mapping[str, str]


def case_of_kafka(request: CaseRequest) -> Case:
    """The case of any consumer group.  Raises CohortError: no broker, no permission, no such group."""
    errors: list[KafkaError] = []
    try:
        admin = clients.new_admin({**request.conf, **QUIET, "error_cb": errors.append})  # type: ignore[dict-item]
    except KafkaException as error:  # no token, no descriptor
        raise kafka_errors.unauthenticated(request.conf, clients.text_of(error)) from None
    try:
        cluster = cluster_of(admin, errors)
        futures = group_requests.describe_groups(admin, [request.group_id])
        group = futures[request.group_id].result(TIMEOUT_S + 1)
        racks = _racks(admin, cluster.topics)
        sizes = {topic: len(metadata.partitions) for topic, metadata in cluster.topics.items() if not metadata.error}
        committed = _committed_topics(request, {t: n for t, n in sizes.items() if not t.startswith("__")})
    except (KafkaException, TimeoutError) as error:
        admin.poll(0)
        raise as_cohort_error(request, admin, error, errors) from None
    if str(group.state.name) == "DEAD" or not (group.members or committed):
        raise unknown_group(request, admin)
    return _case(group, sizes, racks, committed)


def cluster_of(admin: AdminClient, errors: Iterable[KafkaError]) -> Any:
    """The cluster's metadata.  A refused login ends the wait early."""
    deadline, wait_s = time.monotonic() + TIMEOUT_S, FIRST_WAIT_S
    while True:
        try:
            return admin.list_topics(timeout=wait_s)
        except KafkaException:
            admin.poll(0)
            wait_s = min(2 * wait_s, deadline - time.monotonic())
            if wait_s <= 0 or any(each.code() in kafka_errors.AUTHENTICATION for each in errors):
                raise


def _case(group: Any, sizes: Mapping[str, int], racks: Mapping[str, Any], committed: frozenset[str]) -> Case:
    owned = {member.member_id: _owned_partitions(member) for member in group.members}
    assigned = {topic for partitions in owned.values() for topic, _ in partitions}
    topics = {topic: sizes[topic] for topic in sorted(assigned | committed) if topic in sizes}
    members = {
        member.member_id: MemberSubscription(
            topics=tuple(topics),
            owned=owned[member.member_id],
            generation=GENERATION,
            instance_id=member.group_instance_id or None,
        )
        for member in group.members
    }
    notes = [WANT_ALL, NO_RACKS]
    if str(group.state.name) != "STABLE":
        notes.append(f"the group is not settled: {group.state.name}")
    if any((member.group_instance_id or "").startswith("cohort-") for member in group.members):
        notes.append(
            "a member is the driver of a Cohort query: without --bootstrap-server, on its host, its executors show"
        )
    return Case(
        topics=topics,
        members=members,
        racks={topic: racks[topic] for topic in topics if any(racks.get(topic, ()))},
        assignor=group.partition_assignor or "",
        names={member.member_id: member.client_id for member in group.members},
        notes=tuple(notes),
    )


def _owned_partitions(member: Any) -> tuple[Partition, ...]:
    assigned_partitions = member.assignment.topic_partitions if member.assignment else ()
    return tuple(sorted((each.topic, each.partition) for each in assigned_partitions))


def _racks(admin: AdminClient, topics: Mapping[str, Any]) -> dict[str, list[tuple[str, ...]]]:
    """The racks that have a replica, by topic and partition; empty if brokers have no racks."""
    nodes = admin.describe_cluster(request_timeout=TIMEOUT_S).result(TIMEOUT_S + 1).nodes
    rack = {node.id: node.rack for node in nodes if node.rack}
    return {
        topic: [
            tuple(sorted({rack[broker] for broker in metadata.partitions[number].replicas if broker in rack}))
            for number in sorted(metadata.partitions)
        ]
        for topic, metadata in topics.items()
        if rack
    }


def _committed_topics(request: CaseRequest, sizes: Mapping[str, int]) -> frozenset[str]:
    """The topics of which the group has committed offsets."""
    partitions = [TopicPartition(topic, number) for topic, count in sizes.items() for number in range(count)]
    group = GroupOffsets({**request.conf, **QUIET}, request.group_id)
    try:
        return frozenset(tp.topic for tp in group.committed(partitions, TIMEOUT_S))
    finally:
        group.close()


def as_cohort_error(
    request: CaseRequest, admin: AdminClient, error: BaseException, client_errors: Iterable[KafkaError]
) -> CohortError:
    """Kafka's error as a CohortError with a remedy."""
    inner = clients.error_of(error) if isinstance(error, KafkaException) else None
    errors = [*([inner] if inner else []), *client_errors]
    codes = [each.code() for each in errors]
    refused = [clients.text_of(each) for each in errors if each.code() in kafka_errors.AUTHENTICATION]
    if refused:
        return kafka_errors.unauthenticated(request.conf, refused[-1])
    if kafka_errors.GROUP_DENIED in codes:
        return kafka_errors.group_denied(request.group_id)
    if KafkaError.GROUP_ID_NOT_FOUND in codes:
        return unknown_group(request, admin)
    text = clients.text_of(errors[-1]) if errors else "timed out"
    servers = request.conf.get("bootstrap.servers", "")
    return CohortError(
        f"--bootstrap-server {servers}: {redact_text(text, request.conf)}; check the address, the network and "
        "--command-config (security.protocol)"
    )


def unknown_group(request: CaseRequest, admin: AdminClient) -> CohortError:
    """The error for a group that Kafka doesn't know, with the nearest name that it knows."""
    try:
        listed = admin.list_consumer_groups(request_timeout=TIMEOUT_S).result(TIMEOUT_S + 1).valid
        group_ids = sorted(each.group_id for each in listed)
    except (KafkaException, TimeoutError):
        group_ids = []
    if request.group_id in group_ids:  # it has started, or its coordinator has moved, since it was described
        text = f"the coordinator of group {request.group_id} does not know it yet: its query may be starting; ask again"
        return CohortError(text, "COORDINATOR_LOAD_IN_PROGRESS")
    near = difflib.get_close_matches(request.group_id, group_ids, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"there is {', '.join(group_ids[:6]) or 'no group'}"
    return CohortError(f"Kafka knows no consumer group {request.group_id}: {hint}", "GROUP_ID_NOT_FOUND")
