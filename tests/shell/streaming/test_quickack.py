"""The connection between a Python worker and the JVM: nothing on it is put off."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pyspark.serializers import CloudPickleSerializer

from sparkcohort.runtime.shell.options import parse as source_options
from sparkcohort.streaming.reader import CohortStreamReader

NODELAY = (socket.IPPROTO_TCP, socket.TCP_NODELAY)
QUICKACK = (socket.IPPROTO_TCP, socket.TCP_QUICKACK)
OPTIONS = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t", "group.id": "g"}


def test_a_worker_that_gets_the_reader_answers_at_once() -> None:
    """Spark's next bytes wait for the acknowledgement of the reader's; all other descriptors stay open as they are."""
    pickling: Any = CloudPickleSerializer()
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        stack.enter_context(socket.create_connection(listener.getsockname()))
        connection = stack.enter_context(listener.accept()[0])
        ours, theirs = map(stack.enter_context, socket.socketpair())
        connection.setsockopt(*QUICKACK, 0)  # as any is once answers have gone to and fro
        sent = pickling.dumps(CohortStreamReader(source_options.parse(OPTIONS)))
        assert connection.getsockopt(*QUICKACK) == 0, "it is not the driver's concern"
        before = len([*Path("/proc/self/fd").iterdir()])
        pickling.loads(sent)
        assert (connection.getsockopt(*NODELAY), connection.getsockopt(*QUICKACK)) == (1, 1)
        ours.sendall(b"!")
        assert theirs.recv(1) == b"!"
        assert len([*Path("/proc/self/fd").iterdir()]) == before
