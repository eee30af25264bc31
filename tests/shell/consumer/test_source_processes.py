"""A source and its process: memory, a client that doesn't end, and which source a client gets."""

from __future__ import annotations

import subprocess
import sys

from sparkcohort.runtime.shell.kafka.fetch.consumer_client import ConsumerClient
from sparkcohort.runtime.shell.kafka.fetch.fetch_client import FetchClient
from sparkcohort.runtime.shell.kafka.fetch.record_source import RecordSource
from sparkcohort.runtime.values.columns import KAFKA_ROW
from tests.kit.mock import MockCluster
from tests.kit.produce import produce
from tests.kit.record_sources import SOURCES, read_by

UNENDING = """
import socket, sys, time
from sparkcohort.runtime.shell.kafka.fetch import consumer_client
from sparkcohort.runtime.shell.kafka.fetch.record_source import RecordSource
from sparkcohort.runtime.values.columns import KAFKA_ROW
consumer_client.CLOSE_S = 0.5
login = socket.create_server(("127.0.0.1", 0))
source = RecordSource({
    "bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": "me", "sasl.oauthbearer.client.secret": "mine",
    "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:%d/token" % login.getsockname()[1], "log_level": 0,
}, columns=KAFKA_ROW)
waiting, _ = login.accept()  # librdkafka's thread now waits for an answer, and does nothing else
begun = time.monotonic()
source.close()
assert 0.5 <= time.monotonic() - begun < 15
"""


def test_a_client_that_does_not_end_is_left() -> None:
    """A task doesn't hang for librdkafka's end: after a time it goes on, with a warning, and so does the process to its end."""
    command = [sys.executable, "-P", "-c", UNENDING]
    with read_by("librdkafka"):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == "librdkafka hasn't ended within 0.5 s: a client of it stays in this process\n"


TRICKLE = """
import sys
import psutil
from sparkcohort.runtime.protocol.messages import TopicPartition
from sparkcohort.runtime.shell.kafka.fetch.events import Records
from sparkcohort.runtime.shell.kafka.fetch.record_source import RecordSource
from sparkcohort.runtime.values.columns import KAFKA_ROW, KAFKA_ROW_WITH_HEADERS
from sparkcohort.runtime.shell.agent.buffers import CHUNK_OVERHEAD
source = RecordSource({"bootstrap.servers": sys.argv[1], "log_level": 0}, columns=KAFKA_ROW_WITH_HEADERS)
source.assign({TopicPartition(sys.argv[2], 0): (0, 2**63 - 1)})
kept = []
while len(kept) < 6_000:
    if len(kept) == 1_000:
        before = psutil.Process().memory_info().rss
    kept += [event for event in source.poll(0.1, 1) if isinstance(event, Records)]
print(psutil.Process().memory_info().rss - before, sum(event.nbytes + CHUNK_OVERHEAD for event in kept[1_000:]))
"""


def test_what_a_chunk_costs(mock_broker: MockCluster, topic: str) -> None:
    """Of a trickle every record is a chunk: what it is counted as is about what it takes, not a fraction of it."""
    produce(mock_broker.bootstrap, topic, 6_001, headers=[("h", b"v")])
    command = [sys.executable, "-P", "-c", TRICKLE, mock_broker.bootstrap, topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    taken, counted = map(int, done.stdout.split())
    assert taken < 1.5 * counted


def test_which_source() -> None:
    """COHORT_NATIVE decides, then the settings: what only librdkafka has is the consumer's."""
    made, nowhere = {}, {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    for name in SOURCES:
        with read_by(name):
            made[name] = RecordSource(nowhere, columns=KAFKA_ROW)
    with read_by("fetching"):
        made["curves"] = RecordSource(
            nowhere | {"ssl.curves.list": "P-256", "security.protocol": "ssl"}, columns=KAFKA_ROW
        )
        made["callback"] = RecordSource({"log_level": 0, "stats_cb": print}, columns=KAFKA_ROW)
    assert [type(source._client) for source in made.values()] == [FetchClient, *[ConsumerClient] * 3]
    for source in made.values():
        source.close()
