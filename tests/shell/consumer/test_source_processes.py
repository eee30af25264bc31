"""A source and its process: forks, memory, what is missing, and which source a client gets."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from confluent_kafka import cimpl

from sparkcohort.native import _native
from sparkcohort.runtime.shell.kafka.consumer import new_source
from sparkcohort.runtime.shell.kafka.consumer.native_source import NativeSource
from sparkcohort.runtime.shell.kafka.consumer.python_source import PythonSource
from sparkcohort.runtime.shell.kafka.fetch.source import FetchSource
from sparkcohort.runtime.values.columns import KAFKA_ROW
from tests.kit.mock import MockCluster
from tests.kit.produce import produce
from tests.kit.record_sources import SOURCES, read_by

FORK = """
import os, sys
from sparkcohort.runtime.shell.kafka.consumer.native_source import NativeSource
from sparkcohort.runtime.values.columns import KAFKA_ROW, KAFKA_ROW_WITH_HEADERS
source, gone = (NativeSource({"bootstrap.servers": sys.argv[1], "log_level": 0}, columns=KAFKA_ROW) for _ in range(2))
child = os.fork()
if not child:
    del gone
    try:
        source.poll(0)
    except RuntimeError as error:
        print(error, flush=True)
    source.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
source.poll(0)
source.close()
"""


def test_a_forked_process_leaves_it_alone(mock_broker: MockCluster) -> None:
    """There, the client has no threads: it is refused, and neither its close nor its end waits for them."""
    command = [sys.executable, "-P", "-W", "ignore", "-c", FORK, mock_broker.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout == "the source is that of the process which forked this one\n"


UNENDING = """
import socket, sys, time
from sparkcohort.runtime.shell.kafka.consumer import native_source
from sparkcohort.runtime.values.columns import KAFKA_ROW
native_source.CLOSE_S = 0.5
login = socket.create_server(("127.0.0.1", 0))
source = native_source.NativeSource({
    "bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": "me", "sasl.oauthbearer.client.secret": "mine",
    "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:%d/token" % login.getsockname()[1], "log_level": 0,
}, columns=KAFKA_ROW)
waiting, _ = login.accept()  # librdkafka's thread now waits for an answer, and does nothing else
begun = time.monotonic()
source.close()
assert 0.5 <= time.monotonic() - begun < 30
source.close()
"""


def test_a_client_that_does_not_end_is_left() -> None:
    """A task doesn't hang for librdkafka's end: after a time it goes on, with a warning, and so does the process to its end."""
    command = [sys.executable, "-P", "-c", UNENDING]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == "librdkafka hasn't ended within 0.5 s: a client of it stays in this process\n"


TRICKLE = """
import sys
import psutil
from sparkcohort.runtime.protocol.messages import TopicPartition
from sparkcohort.runtime.shell.kafka.consumer.record_source import Records
from sparkcohort.runtime.shell.kafka.consumer.native_source import NativeSource
from sparkcohort.runtime.values.columns import KAFKA_ROW, KAFKA_ROW_WITH_HEADERS
from sparkcohort.runtime.shell.agent.buffers import CHUNK_OVERHEAD
source = NativeSource({"bootstrap.servers": sys.argv[1], "log_level": 0}, columns=KAFKA_ROW_WITH_HEADERS)
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


SHORT = """
import ctypes, sys
from sparkcohort.runtime.protocol.messages import TopicPartition
from sparkcohort.runtime.shell.kafka.consumer.record_source import Records
from sparkcohort.runtime.shell.kafka.consumer.native_source import NativeSource
from sparkcohort.runtime.values.columns import KAFKA_ROW, KAFKA_ROW_WITH_HEADERS
bootstrap, topic, failures = sys.argv[1:]
tp = TopicPartition(topic, 0)
source = NativeSource({"bootstrap.servers": bootstrap, "log_level": 0}, columns=KAFKA_ROW)
source.assign({tp: (0, 2**63 - 1)})
while source.log_end(tp) != 200:
    pass
for _ in range(9):  # what the connection has brought before its answer is in the queue: all can be taken at once
    assert source.exists(tp, 10)
process = ctypes.CDLL(None)
process.fail_large(int(failures))
try:
    source.poll(1)
except MemoryError:
    print("short of memory")
process.fail_large(0)
source.unassign([tp])
source.assign({tp: (0, 2**63 - 1)})
offsets = []
while len(offsets) < 200:
    for event in source.poll(0.1):
        if isinstance(event, Records):
            event.batch.validate(full=True)
            offsets += event.batch.column("offset").to_pylist()
assert offsets == list(range(200))
source.close()
"""


@pytest.mark.parametrize("failures", [1, 70])
def test_memory_that_runs_out(
    mock_broker: MockCluster, topic: str, short_of_memory: dict[str, str], failures: int
) -> None:
    """It is a MemoryError of one poll, however often it runs out in it; what is assigned anew comes whole."""
    produce(mock_broker.bootstrap, topic, 200, value_bytes=4_200)
    command = [sys.executable, "-P", "-c", SHORT, mock_broker.bootstrap, topic, str(failures)]
    preloaded = {**os.environ, **short_of_memory}
    done = subprocess.run(command, env=preloaded, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "short of memory\n"


def test_the_switch() -> None:
    """COHORT_NATIVE decides, then the settings: those that only librdkafka has are left to it, callbacks mean Python."""
    made, nowhere = {}, {"bootstrap.servers": "127.0.0.1:1"}
    for name in SOURCES:
        with read_by(name):
            made[name] = new_source.new_record_source({**nowhere, "log_level": 0}, columns=KAFKA_ROW)
    with read_by("fetching"):
        made["unknown"] = new_source.new_record_source(
            {**nowhere, "log_level": 0, "ssl.crl.location": ""}, columns=KAFKA_ROW
        )
        made["callback"] = new_source.new_record_source({"log_level": 0, "stats_cb": print}, columns=KAFKA_ROW)
    assert [type(source) for source in made.values()] == [
        FetchSource,
        NativeSource,
        PythonSource,
        NativeSource,
        PythonSource,
    ]
    for source in made.values():
        source.close()


def test_a_library_that_is_none() -> None:
    """What isn't a shared object, or has no librdkafka behind it, is an ImportError that says what is wrong."""
    script = "import sys; from sparkcohort.native import _native; _native.load(sys.argv[1])"
    for path, reason in (("/nowhere.so", "nowhere"), (_native.__file__, "librdkafka has no rd_kafka_")):
        done = subprocess.run(
            [sys.executable, "-P", "-c", script, path], capture_output=True, text=True, timeout=60, check=False
        )
        assert f"ImportError: {path if reason == 'nowhere' else reason}" in done.stderr
    assert _native.load(cimpl.__file__).startswith("2.")
