"""The group coordinator is down for longer than anybody waits, and comes back: whoever asked it lives, and is answered."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.broker import Cluster

ROOT = Path(__file__).resolve().parents[3]
ASKED = re.compile(
    r"\.(?:describe_consumer_groups|alter_consumer_group_offsets|delete_consumer_groups)\((.{0,160})", re.DOTALL
)
ASKS = """
import sys, threading
from confluent_kafka import KafkaException
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver.foreign_members import ForeignMembers
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient
from sparkcohort.runtime.shell.kafka.group_offsets import GroupOffsets
from sparkcohort.runtime.shell.kafka.handover_client import HandoverClient

conf = {"bootstrap.servers": sys.argv[1], "log_level": "0"}
group, place = sys.argv[2], TopicPartition(sys.argv[2], 0)
cluster = ClusterClient(conf)
members = ForeignMembers(cluster, group, "instance", 45_000)
offsets = GroupOffsets(conf, group)
handover = HandoverClient(conf, group, lambda: [place])
ended = threading.Event()
answered, waited = {}, {}  # by name: an event; how often in vain

def nobody():
    assert members.is_empty()
    return True

def asking(name, ask):
    while not ended.wait(0.05):
        try:
            assert ask()
        except (KafkaException, CohortError, AssertionError):
            waited[name].release()
        else:
            answered[name].set()

asks = {
    "nobody": nobody,
    "committed": lambda: offsets.committed([place], 2),
    "handover": lambda: handover.look().newest is not None,
}
answered |= {name: threading.Event() for name in asks}
waited |= {name: threading.Semaphore(0) for name in asks}
threads = [threading.Thread(target=asking, args=each) for each in asks.items()]
for each in threads:
    each.start()
for line in sys.stdin:
    for name in asks:
        answered[name].clear()
        while waited[name].acquire(blocking=False):
            pass
    if line == "answered\\n":
        silent = [name for name in asks if not answered[name].wait(60)]
    else:
        silent = [name for name in asks for _ in range(2) if not waited[name].acquire(timeout=60)]
    print(f"not {line.strip()}: {silent}" if silent else line.strip(), flush=True)
ended.set()
for each in threads:
    each.join()
"""


@pytest.mark.thorough("the coordinator is away for longer than anybody waits, twice")
@pytest.mark.timeout(300)
def test_a_coordinator_that_is_down_for_longer_than_anybody_waits(pair: Cluster, topic: str) -> None:
    """Another broker answers all the while, so that the requests to the coordinator are made and wait for it."""
    pair.admin.create_topic(topic, assignment=[[2]])
    pair.admin.commit(topic, topic, {0: 7})
    command = [sys.executable, "-P", "-c", ASKS, pair.bootstrap, topic]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as asking:
        try:
            _wait_for(asking, "answered")
            for _ in range(2):
                pair.node(1).kill()
                _wait_for(asking, "in vain")
                pair.start()
                _wait_for(asking, "answered")
            asking.communicate(timeout=60)
            assert asking.returncode == 0
        finally:
            asking.kill()


def _wait_for(asking: subprocess.Popen[str], what: str) -> None:
    """Until all who ask have had an answer, or have waited twice in vain."""
    assert asking.stdin is not None and asking.stdout is not None
    print(what, file=asking.stdin, flush=True)
    assert asking.stdout.readline() == f"{what}\n", asking.poll()


def test_no_request_to_the_coordinator_runs_out() -> None:
    """Each has the longest timeout: one that runs out is what ends the process."""
    sources = [path for room in ("runtime", "streaming", "cli", "sparkcohort") for path in (ROOT / room).rglob("*.py")]
    calls = [(path.name, found) for path in sources for found in ASKED.findall(path.read_text())]
    assert [name for name, _ in calls] == ["group_requests.py"] * 2
    assert all("request_timeout=NEVER_S" in call for _, call in calls)
