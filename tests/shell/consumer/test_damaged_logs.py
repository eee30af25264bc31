"""Logs that a disk has damaged, served by a real broker that doesn't look: never a wrong row, a skip, a wait without end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.kafka.fetch.range_reader import DataLossError, FetchError
from tests.kit import segments
from tests.kit.broker import Broker
from tests.kit.produce import FLUSH_TIMEOUT_S, gathering, value_of
from tests.kit.ranges import Rows, offsets, tasks_read

pytestmark = pytest.mark.thorough("a broker whose logs are damaged")
TOPIC = "damaged"
BATCH = 100  # records of a batch; each partition has three, the second of which is damaged
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LENGTH, MAGIC, COUNT = 8, 16, 57  # places in a batch's head


class Damage(NamedTuple):
    """What is wrong with a partition: the place of a flipped byte, counted from the batch's beginning or end."""

    codec: str = "none"
    place: int | None = None  # None: the payload is nonsense, the checksum right


DAMAGES = {
    "a value": Damage(place=-5),
    "a compressed value": Damage("zstd", -5),
    "the format": Damage(place=MAGIC),
    "the number of records": Damage(place=COUNT),
    **{f"a payload of {codec}": Damage(codec) for codec in CODECS[1:]},
}
PARTITION = {name: number for number, name in enumerate(DAMAGES)}
LONG, WHOLE = len(DAMAGES), len(DAMAGES) + 1  # a batch without an end; nothing


@pytest.fixture(scope="module")
def damaged() -> Iterator[Broker]:
    """A broker with a partition for each damage, of 300 records in three batches."""
    with Broker() as broker:
        broker.admin.create_topic(TOPIC, WHOLE + 1)
        for codec in CODECS:
            for first in range(0, 3 * BATCH, BATCH):
                write(broker, codec, first)
        broker.stop()
        for name, damage in DAMAGES.items():
            segment = segments.segment_of(broker.node(1), TOPIC, PARTITION[name])
            if damage.place is None:
                segments.break_payload(segment, BATCH)
            else:
                segments.flip_byte(segment, BATCH, damage.place)
        segments.flip_byte(segments.segment_of(broker.node(1), TOPIC, LONG), BATCH, LENGTH)
        broker.start()
        yield broker


def write(broker: Broker, codec: str, first: int) -> None:
    """One batch into each partition that is written with this codec."""
    client = gathering(broker.bootstrap, TOPIC, compression_type=codec)
    for number in range(WHOLE + 1):
        if codec == (list(DAMAGES.values())[number].codec if number < len(DAMAGES) else "none"):
            for sequence in range(first, first + BATCH):
                client.produce(TOPIC, value_of(number, sequence), None, number)
    assert client.flush(FLUSH_TIMEOUT_S) == 0


def conf(broker: Broker) -> dict[str, Any]:
    """The settings of a reader."""
    return {"bootstrap.servers": broker.bootstrap}


@pytest.mark.usefixtures("each_source")
@pytest.mark.parametrize("way", ["directly", "by the agent"])
@pytest.mark.parametrize("name", DAMAGES)
def test_corrupt_data_is_an_error_that_says_where(damaged: Broker, name: str, way: str) -> None:
    """What lies before the damage comes; then an error with topic, partition and offset, not a time-out; nothing behind it."""
    number = PARTITION[name]
    found: Rows = {}
    with pytest.raises(
        FetchError, match=f"corrupt data in topic {TOPIC} partition {number} .*at offset {BATCH}:"
    ) as caught:
        tasks_read(conf(damaged), [Range(TOPIC, number, 0, 3 * BATCH)], way, into=found)
    assert caught.value.error == "CORRUPT_MESSAGE"
    assert not isinstance(caught.value, DataLossError)
    rows = found[TopicPartition(TOPIC, number)]
    assert [row["value"] for row in rows] == [value_of(number, at) for at in range(BATCH)]


@pytest.mark.usefixtures("each_source")
@pytest.mark.parametrize("way", ["directly", "by the agent"])
def test_what_is_not_damaged_comes(damaged: Broker, way: str) -> None:
    """Ranges before and behind the damage, and other partitions, are read as if nothing was; a lenient query fails as well."""
    number = PARTITION["a value"]
    for wanted in (
        Range(TOPIC, number, 10, BATCH),
        Range(TOPIC, number, 2 * BATCH, 3 * BATCH),
        Range(TOPIC, WHOLE, 0, 250),
    ):
        rows = tasks_read(conf(damaged), [wanted], way)[wanted.tp]
        assert [row["value"] for row in rows] == [
            value_of(wanted.partition, at) for at in range(wanted.start, wanted.end)
        ]
    with pytest.raises(FetchError, match=f"at offset {BATCH + 50}:"):
        tasks_read(conf(damaged), [Range(TOPIC, number, BATCH + 50, 2 * BATCH)], way, fail_on_data_loss=False)


@pytest.mark.usefixtures("each_source")
def test_a_batch_without_an_end(damaged: Broker) -> None:
    """A damaged length leaves the client waiting for more: the read ends in its time, and doesn't blame the broker."""
    found: Rows = {}
    with pytest.raises(FetchError, match=rf"no progress at offset {BATCH} .*leader answers.*length of the batch"):
        tasks_read(conf(damaged), [Range(TOPIC, LONG, 0, 3 * BATCH)], "directly", into=found, poll_timeout_ms=1_000)
    assert offsets(found[TopicPartition(TOPIC, LONG)]) == list(range(BATCH))
