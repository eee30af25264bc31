"""A token in a file that somebody renews, given in Java's words (KIP-1139): every kind of client goes on behind its end."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka import clients
from sparkcohort.runtime.shell.kafka.fetch.consumer_source import ConsumerSource
from sparkcohort.runtime.shell.kafka.fetch.source import FetchSource
from sparkcohort.runtime.shell.options.parse import parse
from sparkcohort.runtime.values.columns import KAFKA_ROW
from tests.kit.broker import Broker
from tests.kit.polled import read_to
from tests.kit.produce import produce
from tests.kit.tier import of_tier
from tests.kit.tokens import token

NO_END = 2**63 - 1
LIFE_S = of_tier(quick=4.0, thorough=5.0)
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
KINDS = (FetchSource, ConsumerSource)


def renewed(path: Path) -> None:
    """Another token in the file, at once as a whole."""
    fresh = path.with_suffix(".new")
    fresh.write_text(token("alice", time.time() + LIFE_S))
    fresh.rename(path)


@pytest.mark.timeout(180)
def test_a_file_that_is_renewed(guarded: Broker, tmp_path: Path, topic: str) -> None:
    """Lives of a token, of which each is written before the one before it has ended."""
    guarded.admin.create_topic(topic)
    guarded.admin.allow("alice", "topic", topic, "read", "describe")
    path = tmp_path / "token"
    renewed(path)
    options = {
        "kafka.bootstrap.servers": guarded.at["SASL_PLAINTEXT"],
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.jaas.config": f"{PACKAGE}.OAuthBearerLoginModule required;",
        "kafka.sasl.login.callback.handler.class": f"{PACKAGE}.OAuthBearerLoginCallbackHandler",
        "kafka.sasl.oauthbearer.token.endpoint.url": path.as_uri(),
        "kafka.sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}.FileJwtRetriever",
        "group.id": topic,
        "subscribe": topic,
    }
    conf = dict(parse(options).kafka)
    end = 0
    sources, looks = [kind(conf, columns=KAFKA_ROW) for kind in KINDS], clients.new_admin(conf)
    for source in sources:
        source.assign({TopicPartition(topic, 0): (end, NO_END)})
    ends = time.monotonic() + of_tier(quick=1.5, thorough=3.0) * LIFE_S
    try:
        while time.monotonic() < ends:
            renewed(path)
            produce(guarded.bootstrap, topic, 10)
            end += 10
            for source in sources:
                read_to(source, end)
            assert topic in looks.list_topics(topic, timeout=20).topics
    finally:
        for source in sources:
            source.close()
