"""What isn't a request on the socket between tasks and agent: one line, and nothing that is left behind."""

from __future__ import annotations

import json
import logging
import socket
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest

from sparkcohort.runtime.protocol.partitions import Range
from sparkcohort.runtime.shell.agent import task_requests, task_server
from sparkcohort.runtime.shell.agent.task_client import TaskClient
from sparkcohort.runtime.shell.agent.task_frames import Served
from tests.kit.hello import hello
from tests.kit.local_server import new_server
from tests.kit.waiting import hold_for, wait_until

TOKEN = "token-of-this-run"


class Nothing:
    """Has no rows."""

    def serve(self, ranges: Sequence[Range], *_: Any, **__: Any) -> Iterator[Served]:
        """Every range is missed."""
        yield Served([], None, [(index, "nothing here") for index in range(len(ranges))])


@pytest.fixture
def name() -> Iterator[str]:
    """The name of a server's socket."""
    name = f"cohort-test-{uuid.uuid4().hex}"
    server = new_server(name, TOKEN, Nothing())
    server.start()
    yield name
    server.close()


@pytest.fixture
def client(name: str) -> Iterator[TaskClient]:
    """One of the run's."""
    client = TaskClient(name, TOKEN, 10)
    yield client
    client.close()


def request(said: object, token: str = TOKEN) -> bytes:
    """As a client frames it."""
    body = json.dumps({"token": token})[:-1].encode() + b", " + json.dumps({"x": said}).encode()[1:]
    return len(body).to_bytes(4, "big") + body


def framed(body: bytes, promised: int | None = None) -> bytes:
    """A body behind the token, and its length, or another one."""
    whole = json.dumps({"token": TOKEN})[:-1].encode() + body
    return (len(whole) if promised is None else promised).to_bytes(4, "big") + whole


MALFORMED = {
    "random bytes": b"\x00\x00\x00\x20" + bytes(range(200, 232)),
    "a web browser": b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
    "half a length": b"\x00\x00",
    "half a request": framed(b', "ranges"', 5_000),
    "a huge length": framed(b"}", 0xFFFFFFFF),
    "of a stranger": request(1, "another token"),
    "no token at all": b"\x00\x00\x00\x02{}",
    "a token that is a number": b'\x00\x00\x00\x0b{"token":1}',
    "unknown words": request(1),
    "wrong types": framed(b', "ranges": [[1, "a", null, {}]], "planned_starts": [5]}'),
    "a patience that is none": framed(b', "patience_s": "long"}'),
    "deep nesting": framed(b', "x": ' + b"[" * 100_000),
}


def test_malformed_requests_are_one_short_line(name: str, client: TaskClient, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever they are: no traceback, nothing that is left behind, and the others are served."""
    assert hello(client)
    before = threading.active_count()
    for malformed in MALFORMED.values():
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.settimeout(10)
            stranger.connect(b"\0" + name.encode())
            with suppress(BrokenPipeError, ConnectionResetError):  # it hears no more
                stranger.sendall(malformed)
                stranger.shutdown(socket.SHUT_WR)
            with suppress(ConnectionResetError):
                assert stranger.recv(1) == b""

    def records() -> list[logging.LogRecord]:
        return [record for record in caplog.records if record.name.startswith("sparkcohort")]

    # A connection is closed before its line is logged.
    wait_until(lambda: len(records()) >= len(MALFORMED), 10, "a line for each")
    wait_until(lambda: threading.active_count() <= before, 10, "their threads to end")
    assert len(records()) == len(MALFORMED)
    assert all(record.exc_info is None and len(record.getMessage()) < 250 for record in records())
    assert hello(client)


@pytest.mark.parametrize("begun", [b"", b"\x00", framed(b', "ranges"', 5_000)], ids=["nothing", "a length", "a half"])
def test_who_does_not_come_to_an_end_is_not_waited_for(
    name: str, begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that says nothing, or half a request, does not keep a thread."""
    for module in (task_requests, task_server):
        monkeypatch.setattr(module, "REQUEST_S", 0.2)
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.settimeout(10)
        stranger.connect(b"\0" + name.encode())
        stranger.sendall(begun)
        assert stranger.recv(1) == b""


def test_a_task_may_take_its_time(client: TaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between its requests, while Spark is busy with its rows."""
    for module in (task_requests, task_server):
        monkeypatch.setattr(module, "REQUEST_S", 0.2)
    assert hello(client)
    hold_for(lambda: client._connection is not None, 0.6, "the connection")
    assert hello(client)
