"""A group's status from Kafka, in the form of a live run's status: for commands with ``--bootstrap-server``."""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka.admin import ConsumerGroupDescription

from sparkcohort.cli.kafka_group import KafkaGroup
from sparkcohort.runtime.protocol.partitions import TopicPartition

STATES: Final = {
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
}
"""Kafka's names of states that the client calls otherwise; the others differ only in their capitals."""
DRIVERS: Final = "cohort-"
"""How the group.instance.id of a Cohort query's driver begins."""


def kafka_status(group: KafkaGroup) -> dict[str, Any]:
    """The group's partitions, members and state.  Raises CohortError: no broker, no permission, no such group."""
    description, committed = group.description(), group.committed()
    if description is None:
        raise group.unknown()
    members = [_member(each) for each in description.members]
    owners = {tp: member for member in members for tp in member["owned"]}
    partitions = sorted({*committed, *owners} & group.partitions())
    ends = group.end_offsets(partitions)
    return {
        "group": group.name,
        "state": state_of(description),
        "protocol": description.partition_assignor,
        "coordinator": f"{description.coordinator.host}:{description.coordinator.port} ({description.coordinator.id})",
        "members": members,
        "partitions": [_partition(tp, committed.get(tp), ends[tp], owners.get(tp)) for tp in partitions],
    }


def state_of(group: ConsumerGroupDescription) -> str:
    """The group's state under Kafka's name, such as ``PreparingRebalance``."""
    name = str(group.state.name)
    return STATES.get(name, name.capitalize())


def is_driver(member: Any) -> bool:
    """Whether a member, as Kafka describes it, is the driver of a Cohort query."""
    return (member.group_instance_id or "").startswith(DRIVERS)


def owned_partitions(member: Any) -> list[TopicPartition]:
    """What a member, as Kafka describes it, is assigned; sorted."""
    assigned = member.assignment.topic_partitions if member.assignment else ()
    return sorted(TopicPartition(each.topic, each.partition) for each in assigned)


def _member(member: Any) -> dict[str, Any]:
    owned = owned_partitions(member)
    return {
        "state": None,
        "target": (),
        "member_id": member.member_id,
        "instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "owned": owned,
        "generations": [None] * len(owned),
    }


def _partition(
    tp: TopicPartition, committed: tuple[int, str] | None, end: int, owner: dict[str, Any] | None
) -> dict[str, Any]:
    offset = None if committed is None else committed[0]
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "current_offset": offset,
        "log_end_offset": end,
        "lag": None if offset is None else max(end - offset, 0),
        "lag_seconds": None,
        "open_transaction": None,
        "executor": None,
        **{key: None if owner is None else owner[key] for key in ("member_id", "host", "client_id")},
    }
