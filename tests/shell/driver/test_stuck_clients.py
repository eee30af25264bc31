"""A broker that for some seconds tells of no broker leaves clients that ask nobody any more (librdkafka 5301): they are replaced."""

from __future__ import annotations

import pytest

from sparkcohort.runtime.kafka.cluster_messages import MetadataQuestion
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient
from sparkcohort.runtime.shell.options.connection_settings import TransportError
from tests.kit.shared_brokers import Guarded
from tests.kit.waiting import hold_for, wait_until


@pytest.mark.parametrize("limits", [{}, {"test.mock.broker.rtt": "0"}], ids=["wire", "librdkafka"])
def test_the_cluster_is_asked_again(guarded: Guarded, topic: str, limits: dict[str, str]) -> None:
    """Within seconds of the broker's return, and while it tells of no broker there is no answer."""
    guarded.admin.create_topic(topic, 1)
    way, client = guarded.brokerless, ClusterClient({"bootstrap.servers": guarded.at["BROKERLESS"], **limits})

    def answered() -> bool:
        try:
            return topic in client.metadata(MetadataQuestion([topic]), 1).topics
        except TransportError:
            return False

    try:
        wait_until(answered, 30, "an answer")
        way.brokerless = True
        way.cut()
        wait_until(lambda: not answered(), 30, "no answer")
        hold_for(lambda: not answered(), 3, "asked again and again, and told of no broker", every_s=0.1)
        way.brokerless = False
        wait_until(answered, 60, "an answer again")
    finally:
        client.close()
