"""A topic deleted and made anew, with as many records or more: none of the new one passes for the old one's."""

from __future__ import annotations

from contextlib import AbstractContextManager, closing
from typing import Any

import pytest

from sparkcohort.runtime.protocol.offsets_json import ids_in
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.agent.prefetch import Prefetcher
from sparkcohort.runtime.shell.driver import async_progress
from sparkcohort.runtime.shell.kafka import blocking_client
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient
from sparkcohort.runtime.shell.kafka.fetch.range_reader import DataLossError, FetchError, RangeReader
from tests.kit.broker import Broker
from tests.kit.buffered import buffered
from tests.kit.calls import ALL, Calls, bare, called, next_of
from tests.kit.produce import produce
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.usefixtures("impatience")


def conf(broker: Broker) -> dict[str, str]:
    """The settings of a client."""
    return {"bootstrap.servers": broker.bootstrap}


def id_of(broker: Broker, topic: str) -> str:
    """The topic's id now."""
    with closing(ClusterClient(conf(broker))) as cluster:
        return blocking_client.topic_ids(cluster, [topic])[topic]


def make(broker: Broker, topic: str, records: int) -> str:
    """Create the topic, anew if it is there, with so many records in one partition; returns its id."""
    if topic in broker.admin.topics():
        broker.admin.delete_topic(topic)
    broker.admin.create_topic(topic)
    produce(broker.bootstrap, topic, records)
    return id_of(broker, topic)


# --- a task that reads directly ----------------------------------------------------------------------


@pytest.mark.usefixtures("each_source")
def test_a_range_of_the_old_topic_is_a_loss(broker: Broker, topic: str) -> None:
    """Nothing of the new one comes, whatever fetches; the error names both ids, and what to do."""
    old, new = make(broker, topic, 100), make(broker, topic, 160)
    with closing(RangeReader(conf(broker))) as reader:
        pieces = reader.read([Range(topic, 0, 100, 160)], {topic: old})
        with pytest.raises(DataLossError, match=f"its id was {old} and is {new} now.*failOnDataLoss"):
            next(pieces)
        assert (
            sum(batch.num_rows for _, _, batch in reader.read([Range(topic, 0, 0, 160)], {topic: new}) if batch) == 160
        )


@pytest.mark.usefixtures("each_source")
def test_a_range_of_the_old_topic_is_passed_over(broker: Broker, topic: str) -> None:
    """With failOnDataLoss=false nothing of it comes, and the driver is to hear of it; other topics are read."""
    other = f"{topic}-other"
    old, others = make(broker, topic, 100), make(broker, other, 10)
    make(broker, topic, 160)
    losses: list[str] = []
    ranges = [Range(topic, 0, 100, 160), Range(other, 0, 0, 10)]
    with closing(RangeReader(conf(broker), fail_on_data_loss=False, on_data_loss=losses.append)) as reader:
        found = [(tp.topic, at, batch) for tp, at, batch in reader.read(ranges, {topic: old, other: others})]
        assert reader.replaced == {topic}
    assert [(name, at) for name, at, batch in found if batch is None or name == topic] == [(topic, 160)]
    assert sum(batch.num_rows for _, _, batch in found if batch) == 10
    assert len(losses) == 1


@pytest.mark.usefixtures("each_source")
def test_made_anew_while_it_is_read(broker: Broker, topic: str) -> None:
    """Half of the range had come: the rest does not come from the new topic, the task fails."""
    old = make(broker, topic, 30_000)
    with closing(RangeReader({**conf(broker), "max.partition.fetch.bytes": "50000"})) as reader:
        pieces = reader.read([Range(topic, 0, 0, 60_000)], {topic: old})
        assert next(pieces)[1] < 30_000
        make(broker, topic, 60_000)
        with pytest.raises(FetchError, match="created anew"):
            list(pieces)


# --- an agent that fetches ahead ---------------------------------------------------------------------


def missed(prefetcher: Prefetcher, wanted: Range, plan: int, topic_id: str) -> tuple[int, list[str]]:
    """How many records are served, and why not the others."""
    rows, reasons = 0, []
    for step in prefetcher.serve([wanted], [wanted.start], plan, ids={wanted.topic: topic_id}):
        rows += step.batch.num_rows if step.batch else 0
        reasons += [reason for _, reason in step.missed]
    return rows, reasons


@pytest.mark.usefixtures("each_source")
def test_an_agent_serves_no_other_topic(broker: Broker, topic: str) -> None:
    """What it fetched of the new topic is none of a plan of the old one's; a plan of the new one has it, and only it."""
    old = make(broker, topic, 100)
    with closing(Prefetcher(conf(broker), patience_s=20)) as prefetcher:
        prefetcher.assign({TopicPartition(topic, 0): 0})
        assert missed(prefetcher, Range(topic, 0, 0, 100), 1, old) == (100, [])
        new = make(broker, topic, 160)
        rows, reasons = missed(prefetcher, Range(topic, 0, 100, 160), 2, old)
        assert rows == 0
        assert len(reasons) == 1
        assert missed(prefetcher, Range(topic, 0, 100, 160), 2, old)[0] == 0

        def served() -> bool:
            return missed(prefetcher, Range(topic, 0, 0, 160), 3, new) == (160, [])

        wait_until(served, 20, "the new topic to be fetched")


@pytest.mark.usefixtures("each_source")
def test_what_an_agent_has_of_the_old_topic_is_none_of_the_new_one(broker: Broker, topic: str) -> None:
    """Fetched ahead and never asked for, or read already: at the same offsets the new topic has other records."""
    old, tp = make(broker, topic, 100), TopicPartition(topic, 0)
    with closing(Prefetcher(conf(broker), patience_s=20)) as prefetcher:
        prefetcher.assign({tp: 0})
        wait_until(lambda: buffered(prefetcher)[tp].position == 100, 20, "what comes first to be fetched ahead")
        assert missed(prefetcher, Range(topic, 0, 0, 50), 1, old) == (50, [])
        broker.admin.delete_topic(topic)
        broker.admin.create_topic(topic)
        produce(broker.bootstrap, topic, 70, value_bytes=50)
        new, values = id_of(broker, topic), list[bytes]()

        def served() -> bool:
            values.clear()
            for step in prefetcher.serve([Range(topic, 0, 0, 70)], [0], plans.pop(), ids={topic: new}):
                values.extend(step.batch.column("value").to_pylist() if step.batch else [])
            assert {len(value) for value in values} <= {50}
            return len(values) == 70

        plans = list(range(100, 1, -1))
        wait_until(served, 40, "the new topic to be fetched")


# --- the driver --------------------------------------------------------------------------------------


def often(broker: Broker, topic: str, **more: str) -> AbstractContextManager[Calls]:
    """A reader that looks at the topic ten times a second."""
    return called(broker, topic, metadata__max__age__ms="100", **more)


def written(topic: str, offset: int, topic_id: str) -> dict[str, Any]:
    """The offset as Spark keeps it."""
    return {topic: {"0": offset}, f"{topic}@{topic_id}": {}}


@pytest.mark.parametrize("known", [True, False], ids=["ours", "of Spark's own source"])
def test_running(broker: Broker, topic: str, known: bool) -> None:
    """The query fails, also when the checkpoint was Spark's own source's and no batch has told of the id since."""
    old = make(broker, topic, 100)
    start = written(topic, 100, old) if known else {topic: {"0": 100}}
    with often(broker, topic) as call:
        assert call("latestOffset", start, ALL) == start
        make(broker, topic, 160)
        # The second where the driver has looked between the two, and half a second long: that is believed (LAG_S).
        anew, deleted = f"CHANGED.*{topic} was deleted and created anew", f"DELETED.*{topic}-0 have been deleted"
        with pytest.raises(Exception, match=f"PARTITION_OFFSET_{anew}|PARTITIONS_{deleted}"):
            # Until the driver has looked, it may plan: of the old topic, which no task reads then.
            wait_until(lambda: call("latestOffset", start, ALL) in ({}, None), 30, "the loss")


def test_going_on(broker: Broker, topic: str) -> None:
    """With failOnDataLoss=false the new topic is read from its beginning, every offset of it once."""
    old = make(broker, topic, 100)
    with often(broker, topic, failOnDataLoss="false") as call:
        start = call("initialOffset")
        assert start == written(topic, 0, old)
        end = next_of(call, start)
        assert end == written(topic, 100, old)
        new = make(broker, topic, 160)
        again = next_of(call, end)
        while ids_in(again) == {topic: old}:  # planned before the driver has looked: no task reads of the new one then
            end, again = again, next_of(call, again)
        assert again == written(topic, 0, new)
        assert call.ranges(end, again) == {}
        end = next_of(call, again)
        assert end == written(topic, 160, new)
        assert call.ranges(again, end) == {0: (0, 160)}


def test_over_a_restart(broker: Broker, topic: str) -> None:
    """The checkpoint tells: a planned batch and the next one are of the old topic, though the new one has such offsets."""
    old, new = make(broker, topic, 100), make(broker, topic, 160)
    start = written(topic, 100, old)
    with often(broker, topic) as call, pytest.raises(Exception, match=f"its id was {old} and is {new} now"):
        next_of(call, start)
    with often(broker, topic, failOnDataLoss="false") as call:
        end = next_of(call, start)
        assert end == written(topic, 0, new)
        assert ids_in(next_of(call, end)) == {topic: new}


def test_a_new_query_does_not_start_where_the_old_topic_was_left(
    broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A driver that had not heard of the new topic has committed to it: without a checkpoint, that offset is none."""
    old = make(broker, topic, 100)
    make(broker, topic, 160)
    with often(broker, topic) as call, pytest.raises(Exception, match="was deleted and created anew"):
        next_of(call, written(topic, 100, old))
    assert broker.admin.committed(topic) == {(topic, 0): 100}
    with often(broker, topic, startingOffsets="committed") as call:
        start = call("initialOffset")
        assert bare(start) == {topic: {"0": 0}}
        assert "is of a deleted topic of that name" in caplog.text
        end = next_of(call, start)
        assert call("latestOffset", end, ALL) == end
        wait_until(lambda: broker.admin.committed(topic) == {(topic, 0): 160}, 10, "the commit")
    with often(broker, topic, startingOffsets="committed") as call:
        assert bare(call("initialOffset")) == {topic: {"0": 160}}


def test_asynchronous_progress_commits_nothing_of_the_old_topic_to_the_new_one(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark tells of a batch late, when what is planned is of the new topic: its offsets there would be a wrong start."""
    monkeypatch.setattr(async_progress, "may_be_async", lambda: True)
    old = make(broker, topic, 100)
    with often(broker, topic, failOnDataLoss="false") as call:
        start = call("initialOffset")
        end = next_of(call, start)
        assert call.ranges(start, end) == {0: (0, 100)}
        new = make(broker, topic, 160)
        again = next_of(call, end)
        while ids_in(again) == {topic: old}:
            end, again = again, next_of(call, again)
        call.ranges(end, again)
        last = next_of(call, again)
        assert last == written(topic, 160, new)
        assert call.ranges(again, last) == {0: (0, 160)}
        call("commit", end)
        session = call.reader._session
        assert session is not None
        assert session.commits.flush(10)
        assert broker.admin.committed(topic).get((topic, 0), 0) == 0
        call("commit", last)
        wait_until(lambda: broker.admin.committed(topic) == {(topic, 0): 160}, 10, "the commit")
