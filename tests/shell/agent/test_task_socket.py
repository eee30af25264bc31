"""The socket between tasks and agent: rows, acknowledgement, strangers, and an agent that stops or dies in mid-range."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import Any

import psutil
import pyarrow as pa
import pytest

from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.agent.task_client import AgentTimeout, CoordinatorSilent, TaskClient
from sparkcohort.runtime.shell.agent.task_frames import Served
from sparkcohort.runtime.shell.agent.task_server import AlreadyRunning, TaskServer
from sparkcohort.runtime.shell.rpc import acceptor
from sparkcohort.runtime.values.columns import KAFKA_ROW
from tests.kit.hello import hello
from tests.kit.local_server import serving
from tests.kit.mock import MockCluster
from tests.kit.processes import freeze
from tests.kit.produce import produce
from tests.kit.ranges import Missed, batches_to_rows, direct, offsets, one_by
from tests.kit.waiting import hold_for, wait_until

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
    server = TaskServer(name, TOKEN, Numbers(), acknowledged.extend)
    server.start()
    yield acknowledged
    server.close()


def test_rows_positions_and_acknowledgement(name: str, served: list[Range], connect: Connect) -> None:
    """A range arrives whole and in order, and is acknowledged once, after its last piece was taken."""
    client = connect()
    assert hello(client) == os.getpid()
    for wanted in (Range("t", 0, 0, 35), Range("t", 1, 14, 15), Range("t", 0, 35, 36)):
        pieces = list(one_by(client.read, wanted, 0, 1))
        assert pieces[-1][0] == wanted.end
        assert offsets(batches_to_rows(pieces)) == [at for at in range(wanted.start, wanted.end) if at % 7]
    wait_until(lambda: len(served) == 3, 5, "three acknowledgements")
    assert served == [Range("t", 0, 0, 35), Range("t", 1, 14, 15), Range("t", 0, 35, 36)]


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


def test_the_name_is_a_lock(name: str, served: list[Range]) -> None:
    """A second server of the same name is told so, and the name is free again when the first one closes."""
    second = TaskServer(name, TOKEN, Numbers(), served.extend)
    with pytest.raises(AlreadyRunning):
        second.start()


def test_a_closed_server_frees_its_name(name: str, connect: Connect) -> None:
    """After close, clients find nobody and another server can start."""
    for _ in range(2):
        server = TaskServer(name, TOKEN, Numbers(), lambda _: None)
        server.start()
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
        self.slot: dict[str, Any] = {}
        self.acknowledged: list[Range] = []

    def relay(self, action: str, body: bytes, timeout_s: float) -> bytes:
        """The answer to one action."""
        assert 0 < timeout_s <= 5
        self.heard.append((action, json.loads(body)))
        if self.away:
            raise ConnectionError("nobody answers")
        return json.dumps(self.slot).encode()


@pytest.fixture
def coordinator(name: str) -> Iterator[Coordinator]:
    """What a server on ``name`` relays to."""
    coordinator = Coordinator()
    server = TaskServer(name, TOKEN, Numbers(), coordinator.acknowledged.extend, coordinator.relay)
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


def test_the_rows_of_a_claim_come_without_being_asked_for(
    coordinator: Coordinator, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One request for the slot and its rows; what is not read is nobody's, and what the agent doesn't have isn't sent."""
    wanted = Range("t", 0, 1, 40)
    coordinator.slot = {"agent": True, "ranges": [wanted], "planned_starts": [0], "sequence": 1, "ids": {}}
    client, requests = connect(), list[Any]()
    ask = client._ask

    def counted(request: Any) -> socket.socket:
        requests.append(request)
        return ask(request)

    monkeypatch.setattr(client, "_ask", counted)
    for _ in range(2):
        assert client.claim(CLAIM).ranges == (wanted,)
        rows = batches_to_rows(one_by(client.read, wanted, 0, 1))
        assert [row["offset"] for row in rows] == [at for at in range(1, 40) if at % 7]
    assert len(requests) == 2
    wait_until(lambda: coordinator.acknowledged == [wanted, wanted], 5, "both reads to be told")

    client.claim(CLAIM)
    coordinator.slot |= {"agent": False}
    client.claim(CLAIM)
    assert hello(client)
    coordinator.slot |= {"agent": True, "error": "FENCED_INSTANCE_ID"}
    client.claim(CLAIM)
    assert hello(client)
    assert len(coordinator.acknowledged) == 2


def test_a_coordinator_that_does_not_answer(name: str, coordinator: Coordinator, connect: Connect) -> None:
    """The client learns so at once, and still has from the agent what it has fetched; it is answered when the coordinator is back."""
    coordinator.away = True
    client = connect()
    for _ in range(2):
        with pytest.raises(CoordinatorSilent):
            client.claim(CLAIM)
        assert [at for at, _ in one_by(client.read, Range("t", 0, 17, 20), 0, 1)][-1] == 20
    coordinator.away = False
    assert client.claim(CLAIM) == calls.ClaimReply()


def test_nothing_else_is_relayed(name: str, coordinator: Coordinator, connect: Connect) -> None:
    """Neither requests of the group nor a stranger's claims reach the coordinator, nor what is no text."""
    with pytest.raises(AgentTimeout, match="gone"):
        connect("another-token").claim(CLAIM)
    for wrong in ({"action": "LeaveGroup", "body": "{}", "reply": False}, {"action": "Claim", "body": {}}):
        said = json.dumps({"token": TOKEN, **wrong}).encode()
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.settimeout(5)
            stranger.connect(b"\0" + name.encode())
            stranger.sendall(len(said).to_bytes(4, "big") + said)
            assert stranger.recv(1) == b""
    assert coordinator.heard == []


def test_nobody_there(name: str, connect: Connect) -> None:
    """Without an agent a read says so at once."""
    with pytest.raises(AgentTimeout, match="gone"):
        list(one_by(connect().read, Range("t", 0, 17, 20), 0, 1))


RECORDS = 60_000
TIMEOUT_S = 2.0


def continue_directly(mock: MockCluster, client: TaskClient, strike: Callable[[], None]) -> tuple[list[Any], str]:
    """Read a range, strike after the first piece, read the rest directly; returns all rows and the reason given."""
    wanted, at = Range("t", 0, 100, RECORDS), 100
    rows: list[Any] = []
    with pytest.raises(AgentTimeout) as caught:
        for count, (next_offset, batch) in enumerate(one_by(client.read, wanted, 0, 1)):
            rows += [] if batch is None else batch.to_pylist()
            at = next_offset
            if count == 0:
                strike()
    assert 100 < at < RECORDS, "the agent was struck in the middle of the range"
    rows += direct({"bootstrap.servers": mock.bootstrap}, [wanted._replace(start=at)], columns=KAFKA_ROW)[wanted.tp]
    return rows, str(caught.value)


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_an_agent_struck_in_mid_range(
    mock_broker: MockCluster, name: str, how: signal.Signals, connect: Connect
) -> None:
    """Frozen or killed in the middle of a range: the direct read goes on where it stopped, no row twice, none missing."""
    produce(mock_broker.bootstrap, "t", RECORDS, value_bytes=30)
    with serving(name, TOKEN, mock_broker.bootstrap, "t", 1) as process:
        client = connect(timeout_s=TIMEOUT_S)
        assert hello(client) == process.pid
        strike = (lambda: freeze(process.pid)) if how == signal.SIGSTOP else process.kill
        rows, reason = continue_directly(mock_broker, client, strike)
        assert offsets(rows) == list(range(100, RECORDS))
        expected = direct(
            {"bootstrap.servers": mock_broker.bootstrap}, [Range("t", 0, 100, RECORDS)], columns=KAFKA_ROW
        )
        assert rows == expected[TopicPartition("t", 0)]
        assert ("agent.timeout.ms" in reason) == (how == signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(AgentTimeout):
            list(one_by(client.read, Range("t", 0, 0, 10), 0, 1))
        assert time.monotonic() - began < TIMEOUT_S, "a lost agent is asked once"


def test_a_thawed_agent_acknowledges_nothing(mock_broker: MockCluster, name: str, connect: Connect) -> None:
    """A range that its client gave up on is not reported as served when the agent comes to itself."""
    produce(mock_broker.bootstrap, "t", RECORDS, value_bytes=30)
    with serving(name, TOKEN, mock_broker.bootstrap, "t", 1) as process:
        client = connect(timeout_s=1)
        continue_directly(mock_broker, client, lambda: freeze(process.pid))
        process.send_signal(signal.SIGCONT)
        again = connect()
        hold_for(partial(hello, again), 1, "the agent answers")
        rows = batches_to_rows(one_by(again.read, Range("t", 0, 0, 5), 0, 2))
        assert offsets(rows) == [0, 1, 2, 3, 4]
        assert process.stdout is not None
        assert process.stdout.readline() == "served t 0 0 5\n"


def used(pid: int) -> int:
    """How many descriptors a process has."""
    return int(psutil.Process(pid).num_fds())


@contextmanager
def crowd(name: str, size: int) -> Iterator[list[socket.socket]]:
    """So many connections that say nothing."""
    with ExitStack() as stack:
        yield [stack.enter_context(closing(connection(name))) for _ in range(size)]


def connection(name: str) -> socket.socket:
    """A connection to a server."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.settimeout(10)
    made.connect(b"\0" + name.encode())
    return made


def test_a_process_without_descriptors_ends_at_once(name: str, mock_broker: MockCluster) -> None:
    """The next task hears so rather than wait for its time-out, and starts another process."""
    mock_broker.create_topic("ahead", 1)
    produce(mock_broker.bootstrap, "ahead", 100)
    with serving(name, TOKEN, mock_broker.bootstrap, "ahead", 1) as process:
        before = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (used(process.pid) + 8, before[1]))
        with crowd(name, 12):
            assert process.wait(30) == 1
        with closing(TaskClient(name, TOKEN, 30)) as client, pytest.raises(AgentTimeout):
            hello(client)


def test_a_failure_to_accept_is_told_once(name: str) -> None:
    """With the reason; a close is no failure."""
    told: list[str] = []

    def admit(_: socket.socket) -> bool:
        raise RuntimeError("can't start new thread")

    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(b"\0" + name.encode())
    listener.listen()
    accepting = acceptor.Acceptor(listener, admit, lambda each: each.close(), told.append)
    accepting.start()
    with closing(connection(name)):
        wait_until(lambda: bool(told), 10, "the reason")
    accepting.close()
    assert told == ["no task's connection can be accepted: can't start new thread"]
