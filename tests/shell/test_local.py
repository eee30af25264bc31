"""The socket between tasks and agent: rows, acknowledgement, strangers, and an agent that stops or dies in mid-range."""

from __future__ import annotations

import os
import signal
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

from sparkcohort.runtime.protocol import Range, TopicPartition
from sparkcohort.runtime.shell import local
from sparkcohort.runtime.shell.local import AgentTimeout, AlreadyRunning, LocalClient, LocalServer
from sparkcohort.runtime.shell.prefetch import Miss
from tests.support.local_server import serving
from tests.support.mock import MockCluster
from tests.support.produce import produce
from tests.support.ranges import batches_to_rows, direct, offsets
from tests.support.waiting import hold_for, wait_until

TOKEN = "token-of-this-run"
Connect = Callable[..., LocalClient]
Pieces = Iterator[tuple[int, pa.RecordBatch | None]]


class Numbers:
    """Serves ten rows a piece, with a gap where an offset divides by seven, and misses partition 9 at offset 25."""

    def serve(self, wanted: Range, floor: int, plan_seq: int, patience_s: float | None = None) -> Pieces:
        """The pieces of a range."""
        assert floor <= wanted.start
        for start in range(wanted.start, wanted.end, 10):
            if wanted.partition == 9 and start >= 25:
                raise Miss(start, "evicted")
            end = min(start + 10, wanted.end)
            rows = [{"offset": at} for at in range(start, end) if at % 7]
            yield end, (pa.RecordBatch.from_pylist(rows) if rows else None)


@pytest.fixture
def name() -> str:
    """A socket name that nobody else uses."""
    return f"cohort-test-{uuid.uuid4().hex}"


@pytest.fixture
def connect(name: str) -> Iterator[Connect]:
    """Makes clients of ``name``, closed at the end."""
    clients: list[LocalClient] = []

    def connect(token: str = TOKEN, timeout_s: float = 5) -> LocalClient:
        clients.append(LocalClient(name, token, timeout_s))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


@pytest.fixture
def served(name: str) -> Iterator[list[Range]]:
    """A server of numbers on ``name``; the list of what was acknowledged."""
    pa.array([])  # imports pandas, which may take longer than a client waits
    acknowledged: list[Range] = []
    server = LocalServer(name, TOKEN, Numbers(), lambda: {"member_id": "m", "generation": 7}, acknowledged.append)
    server.start()
    yield acknowledged
    server.close()


def test_rows_positions_and_acknowledgement(name: str, served: list[Range], connect: Connect) -> None:
    """A range arrives whole and in order, and is acknowledged once, after its last piece was taken."""
    client = connect()
    assert client.hello() == {"member_id": "m", "generation": 7}
    for wanted in (Range("t", 0, 0, 35), Range("t", 1, 14, 15), Range("t", 0, 35, 36)):
        pieces = list(client.read(wanted, 0, 1))
        assert pieces[-1][0] == wanted.end
        assert offsets(batches_to_rows(pieces)) == [at for at in range(wanted.start, wanted.end) if at % 7]
    wait_until(lambda: len(served) == 3, 5, "three acknowledgements")
    assert served == [Range("t", 0, 0, 35), Range("t", 1, 14, 15), Range("t", 0, 35, 36)]


def test_a_miss_carries_the_position(name: str, served: list[Range], connect: Connect) -> None:
    """A Miss in mid-range says where the direct read goes on; the connection stays good, nothing is acknowledged."""
    client = connect()
    for _ in range(2):
        got: list[tuple[int, pa.RecordBatch | None]] = []
        with pytest.raises(Miss) as caught:
            got.extend(client.read(Range("t", 9, 5, 100), 0, 1))
        assert caught.value.next_offset == 25
    assert client.hello()["generation"] == 7
    assert served == []


def test_a_reader_that_stops_early(name: str, served: list[Range], connect: Connect) -> None:
    """A range left unfinished is not acknowledged, and the next one comes from its own start."""
    client = connect()
    pieces = client.read(Range("t", 0, 0, 100_000), 0, 1)
    next(pieces)
    del pieces
    assert offsets(batches_to_rows(client.read(Range("t", 0, 1, 4), 0, 1))) == [1, 2, 3]
    wait_until(lambda: served, 5, "the second range's acknowledgement")
    assert served == [Range("t", 0, 1, 4)]


def test_the_name_is_a_lock(name: str, served: list[Range]) -> None:
    """A second server of the same name is told so, and the name is free again when the first one closes."""
    second = LocalServer(name, TOKEN, Numbers(), dict, served.append)
    with pytest.raises(AlreadyRunning):
        second.start()


def test_a_closed_server_frees_its_name(name: str, connect: Connect) -> None:
    """After close, clients find nobody and another server can start."""
    for _ in range(2):
        server = LocalServer(name, TOKEN, Numbers(), dict, lambda _: None)
        server.start()
        client = connect()
        assert client.hello() == {}
        server.close()
        with pytest.raises(AgentTimeout, match="gone"):
            client.hello()


def test_a_wrong_token_gets_nothing(name: str, served: list[Range], connect: Connect) -> None:
    """Without the token the connection ends without a word, and the right one still works."""
    client = connect("another-token")
    with pytest.raises(AgentTimeout, match="gone") as caught:
        client.hello()
    assert "another-token" not in str(caught.value)
    with pytest.raises(AgentTimeout):
        list(connect("").read(Range("t", 0, 0, 1), 0, 0))
    assert connect().hello()
    assert served == []


def test_other_users_are_strangers(
    name: str, served: list[Range], monkeypatch: pytest.MonkeyPatch, connect: Connect
) -> None:
    """Server and client both end a connection whose other end belongs to another user."""
    monkeypatch.setattr(local, "_peer_uid", lambda _: os.getuid() + 1)
    with pytest.raises(AgentTimeout, match="another user"):
        connect().hello()
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.settimeout(5)
        stranger.connect(b"\0" + name.encode())
        assert stranger.recv(1) == b""


def test_garbage_ends_only_its_own_connection(name: str, served: list[Range], connect: Connect) -> None:
    """Random bytes, a huge length and a request without sense close that connection and nothing else."""
    for garbage in (b"\xff" * 64, b"\0\0\0\4nope", b"\0\0\0\2{}", b"\0\0"):
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.settimeout(5)
            stranger.connect(b"\0" + name.encode())
            stranger.sendall(garbage)
            stranger.shutdown(socket.SHUT_WR)
            with suppress(ConnectionResetError):
                assert stranger.recv(1) == b""
    assert connect().hello()


def test_nobody_there(name: str, connect: Connect) -> None:
    """Without an agent a read says at once that it stands at the range's start."""
    with pytest.raises(AgentTimeout) as caught:
        list(connect().read(Range("t", 0, 17, 20), 0, 1))
    assert caught.value.next_offset == 17


RECORDS = 60_000


def continue_directly(mock: MockCluster, client: LocalClient, strike: Callable[[], None]) -> tuple[list[Any], str]:
    """Read a range, strike after the first piece, read the rest directly; returns all rows and the reason given."""
    wanted, at = Range("t", 0, 100, RECORDS), 100
    rows: list[Any] = []
    with pytest.raises(AgentTimeout) as caught:
        for count, (next_offset, batch) in enumerate(client.read(wanted, 0, 1)):
            rows += [] if batch is None else batch.to_pylist()
            at = next_offset
            if count == 0:
                strike()
    assert caught.value.next_offset == at
    assert 100 < at < RECORDS, "the agent was struck in the middle of the range"
    rows += direct({"bootstrap.servers": mock.bootstrap}, [wanted._replace(start=at)], include_headers=False)[wanted.tp]
    return rows, caught.value.reason


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_an_agent_struck_in_mid_range(
    mock_broker: MockCluster, name: str, how: signal.Signals, connect: Connect
) -> None:
    """Frozen or killed in the middle of a range: the direct read goes on where it stopped, no row twice, none missing."""
    produce(mock_broker.bootstrap, "t", RECORDS, value_bytes=30)
    with serving(name, TOKEN, mock_broker.bootstrap, "t", 1) as process:
        client = connect(timeout_s=1)
        assert client.hello() == {"pid": process.pid}
        began = time.monotonic()
        rows, reason = continue_directly(mock_broker, client, lambda: process.send_signal(how))
        assert time.monotonic() - began < 10
        assert offsets(rows) == list(range(100, RECORDS))
        expected = direct(
            {"bootstrap.servers": mock_broker.bootstrap}, [Range("t", 0, 100, RECORDS)], include_headers=False
        )
        assert rows == expected[TopicPartition("t", 0)]
        assert ("agent.timeout.ms" in reason) == (how == signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(AgentTimeout):
            list(client.read(Range("t", 0, 0, 10), 0, 1))
        assert time.monotonic() - began < 0.5, "a lost agent is asked once"


def test_a_thawed_agent_acknowledges_nothing(mock_broker: MockCluster, name: str, connect: Connect) -> None:
    """A range that its client gave up on is not reported as served when the agent comes to itself."""
    produce(mock_broker.bootstrap, "t", RECORDS, value_bytes=30)
    with serving(name, TOKEN, mock_broker.bootstrap, "t", 1) as process:
        client = connect(timeout_s=1)
        continue_directly(mock_broker, client, lambda: process.send_signal(signal.SIGSTOP))
        process.send_signal(signal.SIGCONT)
        again = connect()
        hold_for(again.hello, 1, "the agent answers")
        rows = batches_to_rows(again.read(Range("t", 0, 0, 5), 0, 2))
        assert offsets(rows) == [0, 1, 2, 3, 4]
        assert process.stdout is not None
        assert process.stdout.readline() == "served t 0 0 5\n"
