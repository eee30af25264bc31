"""A membership of the real Kafka group, of topics that are only said to be there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from sparkcohort.runtime.kafka.membership_state import MembershipState
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver.discovery import Layout
from sparkcohort.runtime.shell.driver.kafka_membership import GroupMembership
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient
from sparkcohort.runtime.shell.options.parse import SourceOptions, parse
from tests.kit.waiting import wait_until


def membership_of(options: SourceOptions, counts: Mapping[str, int]) -> GroupMembership:
    """Not started; the topics have so many partitions."""
    layout = Layout({TopicPartition(topic, number): 1 for topic, count in counts.items() for number in range(count)})
    log_ends: Any = SimpleNamespace(client=ClusterClient(options.kafka), layout=lambda: layout, doubt=lambda: None)
    return GroupMembership(options, log_ends)


@contextmanager
def member(options: Mapping[str, str], **counts: int) -> Iterator[GroupMembership]:
    """A membership, not started, that is closed in the end."""
    membership = membership_of(parse(dict(options)), counts)
    try:
        yield membership
    finally:
        membership.close()


def assigned(membership: GroupMembership) -> frozenset[TopicPartition]:
    """What the real group has assigned to it now."""
    return membership._membership.assigned or frozenset()


def join(membership: GroupMembership, timeout_s: float) -> None:
    """Start and join, and wait until it is the member.  Raises what ended it."""
    membership.start(timeout_s)
    membership.join()
    wait_until(lambda: membership.state is MembershipState.MEMBER or membership.failure(), timeout_s, "the join")
    failure = membership.failure()
    if failure is not None:
        raise failure
