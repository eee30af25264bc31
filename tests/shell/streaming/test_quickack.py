"""The connection between a Python worker and the JVM: nothing on it is put off."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from pyspark.serializers import CloudPickleSerializer

from sparkcohort.runtime.shell.options import parse as source_options
from sparkcohort.streaming import quickack
from sparkcohort.streaming.reader import CohortStreamReader

NODELAY = (socket.IPPROTO_TCP, socket.TCP_NODELAY)
QUICKACK = (socket.IPPROTO_TCP, socket.TCP_QUICKACK)
OPTIONS = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t", "group.id": "g"}


@pytest.fixture(params=[socket.AF_INET, socket.AF_INET6])
def connection(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    """An end of a TCP connection that puts off what it can, as any does once answers have gone to and fro."""
    host = "127.0.0.1" if request.param == socket.AF_INET else "::1"
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server((host, 0), family=request.param))
        stack.enter_context(socket.create_connection(listener.getsockname()[:2]))
        end = stack.enter_context(listener.accept()[0])
        end.setsockopt(*QUICKACK, 0)
        assert (end.getsockopt(*NODELAY), end.getsockopt(*QUICKACK)) == (0, 0)
        yield end


def test_a_worker_that_gets_the_reader_answers_at_once(connection: socket.socket) -> None:
    """Spark's next bytes wait for the acknowledgement of the reader's, so this is when to see to it."""
    pickling: Any = CloudPickleSerializer()
    sent = pickling.dumps(CohortStreamReader(source_options.parse(OPTIONS)))
    assert connection.getsockopt(*QUICKACK) == 0, "it is not the driver's concern"
    pickling.loads(sent)
    assert connection.getsockopt(*NODELAY) == 1
    assert connection.getsockopt(*QUICKACK) == 1


def test_everything_else_is_left_as_it_is(connection: socket.socket) -> None:
    """All sockets of the process stay open, whatever their kind."""
    ours, theirs = socket.socketpair()
    with ours, theirs, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        quickack.set_quickack()
        ours.sendall(b"!")
        assert theirs.recv(1) == b"!"
        assert datagrams.getsockname()
        assert connection.getpeername()


def test_a_kernel_without_it_is_let_be(connection: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no such option nothing is done."""
    monkeypatch.delattr(socket, "TCP_QUICKACK")
    quickack.set_quickack()
    assert connection.getsockopt(*NODELAY) == 0
