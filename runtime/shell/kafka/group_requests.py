"""What an administrator asks the coordinator of a group.

A request that runs out while the coordinator is down ends the process when the coordinator is back, by an assertion
(``rd_kafka_admin_coord_request`` of librdkafka 2.16 counts its ``eonce`` down twice).  So none runs out: the caller waits for
the future as long as suits, and lets go of the client when that is over, which ends the request, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Final

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription

NEVER_S: Final = 3600.0
"""The longest timeout that librdkafka takes."""


def describe_groups(
    admin: AdminClient, groups: Sequence[str], *, operations: bool = False
) -> dict[str, Future[ConsumerGroupDescription]]:
    """State and members of each group, by its name; with ``operations`` also what may be done with it.  Raises KafkaException."""
    futures: dict[str, Future[ConsumerGroupDescription]] = admin.describe_consumer_groups(
        list(groups), include_authorized_operations=operations, request_timeout=NEVER_S
    )
    return futures


def commit_offsets(
    admin: AdminClient, group: str, positions: Sequence[Position]
) -> Future[ConsumerGroupTopicPartitions]:
    """Commit for a group without members; each position of the answer has its own error.  Raises KafkaException."""
    request = ConsumerGroupTopicPartitions(group, list(positions))
    answer: Future[ConsumerGroupTopicPartitions] = admin.alter_consumer_group_offsets(
        [request], request_timeout=NEVER_S
    )[group]
    return answer
