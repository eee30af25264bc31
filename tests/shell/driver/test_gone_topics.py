"""Commits where topics go and come: what is gone needs no commit, and a group that reads nothing goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sparkcohort.runtime.kafka.membership_state import MembershipState
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver.group_commits import GroupCommits
from sparkcohort.runtime.shell.driver.log_ends import LogEnds
from sparkcohort.runtime.shell.options.parse import parse
from tests.kit.broker import Broker
from tests.kit.calls import ALL, bare, called, next_of
from tests.kit.join import assigned
from tests.kit.produce import produce
from tests.kit.waiting import wait_until

SOON = {"metadata.max.age.ms": "300"}


@contextmanager
def committing(
    broker: Broker, group: str, subscription: dict[str, str], **more: str
) -> Iterator[tuple[GroupCommits, LogEnds]]:
    """A query that has joined and begun at the beginning of what there is."""
    options = parse({"kafka.bootstrap.servers": broker.bootstrap, "group.id": group, **SOON, **subscription, **more})
    ends = LogEnds(options)
    commits = GroupCommits(options, ends)
    try:
        ends.start()
        commits.open()
        commits.begin(dict.fromkeys(ends.snapshot().partitions, 0))
        commits.membership.join()
        wait_until(lambda: state(commits) is MembershipState.MEMBER, 20, "the join")
        yield commits, ends
    finally:
        commits.close()
        ends.close()


def state(commits: GroupCommits) -> MembershipState:
    """Where the membership stands."""
    return commits.membership.state


def commit(commits: GroupCommits, offsets: dict[TopicPartition, int]) -> None:
    """The last commit of a bounded query, which raises when it does not get through."""
    commits.commit(offsets, final=True)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("how", ["subscribe", "subscribePattern", "assign"])
def test_the_only_topic_is_deleted_on_the_way(broker: Broker, topic: str, how: str) -> None:
    """The last batch, of which all is gone, is committed, and so is nothing at all; the topic may come back."""
    broker.admin.create_topic(topic, 2)
    produce(broker.bootstrap, topic, 20, partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    named = json.dumps({topic: [0, 1]}) if how == "assign" else topic
    with committing(broker, f"{topic}-{how}", {how: named}) as (commits, ends):
        commit(commits, {first: 5, second: 5})
        broker.admin.delete_topic(topic)
        wait_until(lambda: not ends.refresh(0.5).partitions, 60, "the topic to be gone")
        commit(commits, {first: 10, second: 10})
        commit(commits, {})
        wait_until(lambda: state(commits) is MembershipState.MEMBER, 20, "a member of nothing")
        assert commits.failure() is None
        broker.admin.create_topic(topic, 2)
        wait_until(lambda: len(ends.refresh(0.5).ends) == 2, 60, "the topic to be back")
        wait_until(lambda: len(assigned(commits.membership)) == 2, 60, "its partitions to be assigned")
        commit(commits, {first: 5, second: 0})  # as before, but Kafka has forgotten that
        assert broker.admin.committed(f"{topic}-{how}") == {(topic, 0): 5, (topic, 1): 0}


@pytest.mark.timeout(240)
def test_a_topic_that_is_deleted_before_anybody_has_looked(broker: Broker, topic: str) -> None:
    """The group coordinator's word that it is unknown has the metadata looked at, however old they may get."""
    broker.admin.create_topic(topic)
    with committing(broker, topic, {"subscribe": topic}, **{"metadata.max.age.ms": "300000"}) as (commits, ends):
        broker.admin.delete_topic(topic)
        commit(commits, {TopicPartition(topic, 0): 5})
        assert not ends.snapshot().partitions


@pytest.mark.timeout(240)
def test_a_pattern_that_matches_nothing_yet(broker: Broker, topic: str) -> None:
    """It joins, reserves and commits nothing; the topic that comes is joined for."""
    with committing(broker, topic, {"subscribePattern": f"{topic}-.*"}) as (commits, ends):
        commit(commits, {})
        late = f"{topic}-late"
        broker.admin.create_topic(late)
        wait_until(lambda: ends.refresh(0.5).ends, 60, "the topic to be found")
        wait_until(lambda: assigned(commits.membership), 60, "it to be assigned")
        commit(commits, {TopicPartition(late, 0): 3})
        assert broker.admin.committed(topic) == {(late, 0): 3}


def test_what_is_gone_is_no_start_any_more_while_a_batch_is_held_back(
    broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """With minOffsetsPerTrigger that may take a quarter of an hour, in which a topic of that name may come."""
    other = f"{topic}-other"
    for name in (topic, other):
        broker.admin.create_topic(name)
        produce(broker.bootstrap, name, 10)
    more = {"subscribe": f"{topic},{other}", "metadata__max__age__ms": "100", "minOffsetsPerTrigger": "1000"}
    with called(broker, topic, failOnDataLoss="false", **more) as call:
        start = call("initialOffset")
        at = call("latestOffset", start, ALL)
        call("partitions", start, at)
        broker.admin.delete_topic(other)
        end = next_of(call, at)
        assert bare(end) == {topic: {"0": 10}}
        assert call("latestOffset", end, ALL) == end
        assert caplog.text.count("KAFKA_DATA_LOSS.PARTITIONS_DELETED") == 1
