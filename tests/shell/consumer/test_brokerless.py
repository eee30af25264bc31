"""A broker that for some seconds tells of no broker, as one that has just come back does (librdkafka 5301)."""

from __future__ import annotations

from contextlib import closing
from itertools import chain

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.fetch.events import Records
from sparkcohort.runtime.shell.kafka.fetch.record_source import RecordSource
from sparkcohort.runtime.values.columns import KAFKA_ROW
from tests.kit.produce import produce
from tests.kit.record_sources import read_by
from tests.kit.shared_brokers import Guarded
from tests.kit.waiting import wait_until


def test_our_own_client_reads_on(guarded: Guarded, topic: str) -> None:
    """It asks the brokers that it was given, whatever it was told since."""
    guarded.admin.create_topic(topic, 1)
    produce(guarded.bootstrap, topic, 10, partitions=1)
    way, tp = guarded.brokerless, TopicPartition(topic, 0)
    conf = {"bootstrap.servers": guarded.at["BROKERLESS"]}
    with read_by("fetching"), closing(RecordSource(conf, columns=KAFKA_ROW)) as source:
        source.assign({tp: (0, 2**63 - 1)})
        stands = 0

        def reads_up_to(offset: int) -> bool:
            nonlocal stands
            for event in chain.from_iterable(iter(lambda: source.poll(0.1), [])):
                stands = event.next_offset if isinstance(event, Records) else stands
            return stands == offset

        wait_until(lambda: reads_up_to(10), 30, "the first records")
        way.brokerless, told = True, way.told
        way.cut()
        wait_until(lambda: not reads_up_to(20) and way.told > told, 60, "an answer without a broker")
        way.brokerless = False
        produce(guarded.bootstrap, topic, 10, partitions=1, first=10)
        wait_until(lambda: reads_up_to(20), 60, "the records after that")
