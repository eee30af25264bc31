"""What an agent reads directly for a task: the rows that the task itself would read, or as far as that goes."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.agent import range_service
from sparkcohort.runtime.shell.agent.range_service import RangeService
from sparkcohort.runtime.shell.agent.task_client import TaskClient
from sparkcohort.runtime.shell.agent.task_frames import DELIVERED, FRAME_END, FRAME_SHARED_STEP, Served, receive
from sparkcohort.runtime.values.columns import KAFKA_ROW_WITH_HEADERS, Columns
from tests.kit.local_server import new_server
from tests.kit.mock import MockCluster
from tests.kit.produce import produce
from tests.kit.ranges import Rows, direct, offsets

TOKEN = "token-of-this-run"


@dataclass(frozen=True)
class Options:
    """What a read needs of a query's options."""

    kafka: dict[str, str]
    columns: Columns = KAFKA_ROW_WITH_HEADERS
    fail_on_data_loss: bool = True
    poll_timeout_ms: int = 20_000


@dataclass
class Answer:
    """What came of one request: the rows, where each range stands, steps without rows, and the end."""

    stands: list[int]
    rows: Rows = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    idle: int = 0
    end: calls.DirectEnd = field(default_factory=calls.DirectEnd)

    def take(self, step: Served) -> None:
        """Count one step."""
        self.idle += not step.positions
        for place, position in step.positions:
            assert position > self.stands[place]
            self.stands[place] = position
        for (place, _), size in zip(step.positions, step.sizes, strict=True):
            self.sizes[place] = self.sizes.get(place, 0) + size
        for row in [] if step.batch is None else step.batch.to_pylist():
            self.rows.setdefault(TopicPartition(row["topic"], row["partition"]), []).append(row)


@contextmanager
def served(options: Options, most: int = 2) -> Iterator[str]:
    """The name of a server that reads directly."""
    pa.array([])  # imports pandas, which may take longer than a client waits
    name = f"cohort-test-{uuid.uuid4().hex}"
    with closing(new_server(name, TOKEN, None, direct=RangeService(options, most))) as server:
        server.start()
        yield name


def ask(name: str, ranges: Sequence[Range], ids: dict[str, str] | None = None) -> Answer:
    """The answer to one request."""
    answer = Answer([each.start for each in ranges])
    with closing(TaskClient(name, TOKEN, 30)) as client:
        connection = client._ask(calls.AgentRequest(tuple(ranges), ids=ids, direct=True))
        client._connection = connection
        while True:
            kind, body = receive(connection)
            if kind == FRAME_END:
                connection.sendall(DELIVERED)
                answer.end = calls.decode(bytes(body), calls.DirectEnd)
                return answer
            step = (client._read_shared if kind == FRAME_SHARED_STEP else client._read_framed)(connection, body)
            answer.take(step)
            if step.batch is not None:
                del step
                ended = client._consumer.ended()
                connection.sendall(bytes((len(ended),)) + ended)


def conf(mock: MockCluster) -> dict[str, str]:
    """The settings of a reader."""
    return {"bootstrap.servers": mock.bootstrap}


def test_the_rows_are_those_of_a_direct_read(mock_broker: MockCluster, topic: str) -> None:
    """Also of ranges that were begun, of one that is read, and of many small batches; each comes to its end."""
    produce(mock_broker.bootstrap, topic, 30_000, partitions=3)
    ranges = [Range(topic, 0, 17, 9_999), Range(topic, 1, 4_000, 4_000), Range(topic, 2, 9_990, 10_000)]
    with served(Options(conf(mock_broker))) as name:
        answer = ask(name, ranges)
    assert answer.stands == [each.end for each in ranges]
    assert answer.rows == direct({**conf(mock_broker), "log_level": 0}, ranges)
    assert set(answer.sizes) == {0, 2}
    assert answer.end == calls.DirectEnd()


def test_a_read_that_fails_says_how_far_it_came(mock_broker: MockCluster, topic: str) -> None:
    """While it waits, the task hears of its agent."""
    produce(mock_broker.bootstrap, topic, 30_000)
    with served(Options(conf(mock_broker), poll_timeout_ms=1_000)) as name:
        answer = ask(name, [Range(topic, 0, 0, 30_010)])
    (stand,) = answer.stands
    assert 0 < stand <= 30_000
    assert offsets(answer.rows[TopicPartition(topic, 0)]) == list(range(stand))
    assert answer.idle > 0


def test_a_read_that_finds_no_room_ends_at_once(
    mock_broker: MockCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the next one has the room again."""
    produce(mock_broker.bootstrap, topic, 10)
    monkeypatch.setattr(range_service, "WAIT_S", 0.05)
    begun, may_end = threading.Event(), threading.Event()

    def send(_: Served) -> None:
        begun.set()
        assert may_end.wait(30)

    reads, ranges = RangeService(Options(conf(mock_broker)), 1), (Range(topic, 0, 0, 10),)
    request = calls.AgentRequest(ranges, direct=True)
    first = threading.Thread(target=reads.serve, args=(request, send))
    first.start()
    assert begun.wait(30)
    steps: list[Any] = []
    reads.serve(request, steps.append)
    assert steps == []
    may_end.set()
    first.join(30)
    reads.serve(request, steps.append)
    assert sum(step.batch.num_rows for step in steps if step.batch is not None) == 10


def test_a_task_that_goes_gives_its_room_back(mock_broker: MockCluster, topic: str) -> None:
    """As one that Spark kills does, in the midst of its rows."""
    produce(mock_broker.bootstrap, topic, 36_000, partitions=3)
    ranges = [Range(topic, number, 0, 12_000) for number in range(3)]
    with served(Options(conf(mock_broker)), most=1) as name:
        with closing(TaskClient(name, TOKEN, 30)) as client:
            client._connection = client._ask(calls.AgentRequest(tuple(ranges), direct=True))
            receive(client._connection)
        assert ask(name, ranges).stands == [12_000] * 3
