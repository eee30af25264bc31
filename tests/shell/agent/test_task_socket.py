"""The socket between tasks and agent: rows, acknowledgement, strangers, and an agent that stops or dies in mid-range."""

from __future__ import annotations

import json
import os
import socket
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest

from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.partitions import Range
from sparkcohort.runtime.shell.agent.task_client import AgentTimeout, TaskClient
from sparkcohort.runtime.shell.agent.task_frames import Served
from tests.kit.hello import hello
from tests.kit.local_server import new_server
from tests.kit.ranges import Missed, batches_to_rows, offsets, one_by
from tests.kit.waiting import wait_until

TOKEN = "token-of-this-run"
Connect = Callable[..., TaskClient]


class Numbers:
    """Serves ten rows a step, with a gap where an offset divides by seven, and misses partition 9 at offset 25."""

    def serve(self, ranges: Sequence[Range], planned_starts: Sequence[int], *_: Any, **__: Any) -> Iterator[Served]:
        """The steps of a request, its ranges one after the other."""
        for index, (wanted, planned_start) in enumerate(zip(ranges, planned_starts, strict=True)):
            assert planned_start <= wanted.start
            for start in range(wanted.start, wanted.end, 10):
                if wanted.partition == 9 and start >= 25:
                    yield Served([], None, [(index, "evicted")])
                    break
                end = min(start + 10, wanted.end)
                rows = [{"offset": at} for at in range(start, end) if at % 7]
                yield Served([(index, end)], pa.RecordBatch.from_pylist(rows) if rows else None, sizes=[len(rows)])


@pytest.fixture
def name() -> str:
    """A socket name that nobody else uses."""
    return f"cohort-test-{uuid.uuid4().hex}"


@pytest.fixture
def connect(name: str) -> Iterator[Connect]:
    """Makes clients of ``name``, closed at the end."""
    clients: list[TaskClient] = []

    def connect(token: str = TOKEN, timeout_s: float = 5) -> TaskClient:
        clients.append(TaskClient(name, token, timeout_s))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


@pytest.fixture
def served(name: str) -> Iterator[list[Range]]:
    """A server of numbers on ``name``; the list of what was acknowledged."""
    pa.array([])  # imports pandas, which may take longer than a client waits
    acknowledged: list[Range] = []
    server = new_server(name, TOKEN, Numbers(), acknowledged.extend)
    server.start()
    yield acknowledged
    server.close()


def test_a_miss_carries_the_position(name: str, served: list[Range], connect: Connect) -> None:
    """A miss in mid-range says where the direct read goes on; the connection stays good, nothing is acknowledged."""
    client = connect()
    for _ in range(2):
        got: list[tuple[int, pa.RecordBatch | None]] = []
        with pytest.raises(Missed) as caught:
            got.extend(one_by(client.read, Range("t", 9, 5, 100), 0, 1))
        assert caught.value.next_offset == 25
    assert hello(client)
    assert served == []


def test_one_request_for_many_ranges(name: str, served: list[Range], connect: Connect) -> None:
    """Every range comes to its own end or its own miss, and only the whole ones are acknowledged, all at once."""
    ranges = [Range("t", 0, 3, 35), Range("t", 9, 5, 100), Range("t", 1, 14, 15), Range("t", 2, 8, 9)]
    stands = [wanted.start for wanted in ranges]
    rows: list[int] = []
    missed: list[Any] = []
    for step in connect().read(ranges, stands[:], 1):
        for index, at in step.positions:
            assert at > stands[index]
            stands[index] = at
        rows += [] if step.batch is None else offsets(step.batch.to_pylist())
        missed += step.missed
    assert stands == [35, 25, 15, 9]
    assert rows == [at for wanted, end in zip(ranges, stands, strict=True) for at in range(wanted.start, end) if at % 7]
    assert missed == [(1, "evicted")]
    wait_until(lambda: served, 5, "the acknowledgement")
    assert served == [ranges[0], ranges[2], ranges[3]]


def test_a_reader_that_stops_early(name: str, served: list[Range], connect: Connect) -> None:
    """A range left unfinished is not acknowledged, and the next one comes from its own start."""
    client = connect()
    pieces = one_by(client.read, Range("t", 0, 0, 100_000), 0, 1)
    next(pieces)
    del pieces
    assert offsets(batches_to_rows(one_by(client.read, Range("t", 0, 1, 4), 0, 1))) == [1, 2, 3]
    wait_until(lambda: served, 5, "the second range's acknowledgement")
    assert served == [Range("t", 0, 1, 4)]


def test_a_closed_server_frees_its_name(name: str, connect: Connect) -> None:
    """Until close no other server can start; then clients find nobody, and one can."""
    for _ in range(2):
        server = new_server(name, TOKEN, Numbers())
        server.start()
        with closing(new_server(name, TOKEN, Numbers())) as second, pytest.raises(OSError, match="in use"):
            second.start()
        client = connect()
        assert hello(client)
        server.close()
        with pytest.raises(AgentTimeout, match="gone"):
            hello(client)


def test_a_wrong_token_gets_nothing(name: str, served: list[Range], connect: Connect) -> None:
    """Without the token the connection ends without a word, and the right one still works."""
    client = connect("another-token")
    with pytest.raises(AgentTimeout, match="gone") as caught:
        hello(client)
    assert "another-token" not in str(caught.value)
    with pytest.raises(AgentTimeout):
        list(one_by(connect("").read, Range("t", 0, 0, 1), 0, 0))
    assert hello(connect())
    assert served == []


def test_other_users_are_strangers(
    name: str, served: list[Range], monkeypatch: pytest.MonkeyPatch, connect: Connect
) -> None:
    """Server and client both end a connection whose other end belongs to another user."""
    another = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: another)
    with pytest.raises(AgentTimeout, match="another user"):
        hello(connect())
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.settimeout(5)
        stranger.connect(b"\0" + name.encode())
        assert stranger.recv(1) == b""


CLAIM = calls.Claim("p", 3, "an-address")
REPORT = calls.Delivered("p", "an-address", (Range("t", 0, 1, 4),), (3, 30), (0, 0), (30,), timed_out=False)


class Coordinator:
    """Answers what is relayed to it with what it heard, or not at all."""

    def __init__(self) -> None:
        """Nothing was heard yet."""
        self.heard: list[tuple[str, Any]] = []
        self.away = False

    def relay(self, action: str, body: bytes, timeout_s: float) -> bytes:
        """The answer to one action."""
        assert 0 < timeout_s <= 5
        self.heard.append((action, json.loads(body)))
        if self.away:
            raise ConnectionError("nobody answers")
        return b"{}"


@pytest.fixture
def coordinator(name: str) -> Iterator[Coordinator]:
    """What a server on ``name`` relays to."""
    coordinator = Coordinator()
    server = new_server(name, TOKEN, Numbers(), call_coordinator=coordinator.relay)
    server.start()
    yield coordinator
    server.close()


def test_what_a_task_says_is_relayed(name: str, coordinator: Coordinator, connect: Connect) -> None:
    """A claim is answered, a report isn't waited for, and the same connection serves ranges."""
    client = connect()
    assert client.claim(CLAIM) == calls.ClaimReply()
    assert batches_to_rows(one_by(client.read, Range("t", 0, 1, 4), 0, 1))
    client.tell(REPORT)
    assert hello(client)
    assert [action for action, _ in coordinator.heard] == ["Claim", "Delivered"]
    assert [json.dumps(said).encode() for _, said in coordinator.heard] == [
        json.dumps(json.loads(calls.encode(call))).encode() for call in (CLAIM, REPORT)
    ]


def test_a_coordinator_that_does_not_answer(name: str, coordinator: Coordinator, connect: Connect) -> None:
    """The client learns so at once, and still has from the agent what it has fetched; it is answered when the coordinator is back."""
    coordinator.away = True
    client = connect()
    for _ in range(2):
        assert client.claim(CLAIM) is None
        assert [at for at, _ in one_by(client.read, Range("t", 0, 17, 20), 0, 1)][-1] == 20
    coordinator.away = False
    assert client.claim(CLAIM) == calls.ClaimReply()


def test_nobody_there(name: str, connect: Connect) -> None:
    """Without an agent a read says so at once."""
    with pytest.raises(AgentTimeout, match="gone"):
        list(one_by(connect().read, Range("t", 0, 17, 20), 0, 1))


class Frozen:
    """Serves half of a range, and then stands still."""

    def __init__(self) -> None:
        self.thawed = threading.Event()

    def serve(self, *_: Any, **__: Any) -> Iterator[Served]:
        """One step."""
        yield Served([(0, 10)])
        assert self.thawed.wait(30)
        yield Served([(0, 20)])


def test_an_agent_that_falls_silent_is_asked_once(name: str, connect: Connect) -> None:
    """What came whole has been handed out; the reason names the option; what was given up is not reported as served."""
    frozen, acknowledged = Frozen(), list[Range]()
    with closing(new_server(name, TOKEN, frozen, acknowledged.extend)) as server:
        server.start()
        client = connect(timeout_s=0.3)
        steps = client.read([Range("t", 0, 0, 20)], [0], 1)
        assert list(next(steps).positions) == [(0, 10)]
        with pytest.raises(AgentTimeout, match=r"agent\.timeout\.ms"):
            next(steps)
        frozen.thawed.set()
        with pytest.raises(AgentTimeout, match=r"agent\.timeout\.ms"):
            client.claim(CLAIM)
    assert acknowledged == []
