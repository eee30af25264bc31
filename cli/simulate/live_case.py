"""A live group as a case for ``cohort simulate``: from a coordinator's status, or from Kafka through its admin API.

Kafka tells a group's members and their partitions, but not their subscriptions.  Members are taken to subscribe to every
topic that a member of the group is assigned, or of which the group has committed offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka.admin import MemberDescription

from sparkcohort.assignors import Load, MemberSubscription, Partition
from sparkcohort.cli.kafka_group import KafkaGroup
from sparkcohort.cli.simulate.case import Case
from sparkcohort.cli.views import client_id
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.fetch_messages import Metadata
from sparkcohort.runtime.protocol.partitions import TopicPartition

GENERATION: Final = 1  # Kafka's description has none: all members are of the same one

DRIVERS: Final = "cohort-"
"""How the group.instance.id of a Cohort query's driver begins."""
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
        names={row["member_id"]: client_id(row["executor"]) or row["member_id"] for row in status["members"]},
        notes=tuple(filter(None, notes)),
    )


def _renumbering_note(topic: str, numbers: list[int]) -> str:
    """The note on a topic of which the query reads only some partitions: they are renumbered, as assignors count from 0."""
    if numbers == list(range(len(numbers))):
        return ""
    first = ", ".join(f"{place} is {topic}-{number}" for place, number in enumerate(numbers[:3]))
    return f"{topic} is read in part, and its partitions are renumbered: {first}{' …' * (len(numbers) > 3)}"


def case_of_kafka(group: KafkaGroup) -> Case:
    """The case of any consumer group.  Raises CohortError: no broker, no permission, no such group."""
    description = group.description()
    sizes = group.sizes
    committed = {tp.topic for tp in group.committed({tp for tp in group.partitions() if not tp.topic.startswith("__")})}
    if description is None or not (description.members or committed):
        raise CohortError(f"Kafka knows no consumer group {group.name}, or its query is starting", "GROUP_ID_NOT_FOUND")
    owned = {member.member_id: _owned(member) for member in description.members}
    assigned = {topic for partitions in owned.values() for topic, _ in partitions}
    topics = {topic: sizes[topic] for topic in sorted(assigned | committed) if topic in sizes}
    members = {
        member.member_id: MemberSubscription(
            topics=tuple(topics),
            owned=owned[member.member_id],
            generation=GENERATION,
            instance_id=member.group_instance_id or None,
        )
        for member in description.members
    }
    notes = [WANT_ALL, NO_RACKS]
    if str(description.state.name) != "STABLE":
        notes.append(f"the group is not settled: {description.state.name}")
    if any((member.group_instance_id or "").startswith(DRIVERS) for member in description.members):
        notes.append(
            "a member is the driver of a Cohort query: without --bootstrap-server, on its host, its executors show"
        )
    racks = {topic: _racks(group.metadata, topic) for topic in topics}
    return Case(
        topics=topics,
        members=members,
        racks={topic: each for topic, each in racks.items() if any(each)},
        assignor=description.partition_assignor or "",
        names={member.member_id: member.client_id for member in description.members},
        notes=tuple(notes),
    )


def _owned(member: MemberDescription) -> tuple[TopicPartition, ...]:
    return tuple(sorted(TopicPartition(each.topic, each.partition) for each in member.assignment.topic_partitions))


def _racks(metadata: Metadata, topic: str) -> list[tuple[str, ...]]:
    """The racks that have a replica, by partition; empty if brokers have no racks."""
    leaders = metadata.topics[topic].leaders
    return [
        tuple(sorted({metadata.racks[node] for node in leaders[number].replicas if node in metadata.racks}))
        for number in sorted(leaders)
    ]
