"""Strangers at the group's port: real connections, in a process that has few descriptors."""

from __future__ import annotations

import queue
import socket
import threading
import time
from contextlib import ExitStack

import pytest

from sparkcohort.runtime.shell.rpc.doorkeeper import PATIENCE
from sparkcohort.runtime.shell.rpc.flight import CoordinatorUnreachable, EventQueue, GroupServer, Link
from sparkcohort.runtime.shell.rpc.tls import Credentials, new_authority
from tests.kit.door import serving
from tests.kit.waiting import wait_until

STRANGERS, DESCRIPTORS = 300, 256
SOON_S = 20.0  # 3 s where nothing else runs; two minutes without a doorkeeper


@pytest.mark.parametrize("first", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["silent", "half a handshake"])
def test_a_member_joins_among_many_strangers(first: bytes) -> None:
    """More connections than the process may have descriptors: who is in stays in, and who comes is let in soon."""
    with serving(DESCRIPTORS) as (port, credentials), ExitStack() as stack:
        member = Link("127.0.0.1", port, credentials)
        assert member.call("Heartbeat", b"before", 10) == b"before"
        for _ in range(STRANGERS):
            stranger = stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))
            stranger.sendall(first)
        began = time.monotonic()
        assert wait_until(lambda: answered(port, credentials), 60, "a new member to be answered") == b"hello"
        assert time.monotonic() - began < SOON_S
        assert member.call("Heartbeat", b"after", 10) == b"after"
        member.close()


def answered(port: int, credentials: Credentials) -> bytes:
    """What a member that has just come hears; nothing if it isn't let in within a moment."""
    link = Link("127.0.0.1", port, credentials)
    try:
        return link.call("Echo", b"hello", 2)
    except CoordinatorUnreachable:
        return b""
    finally:
        link.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_listener_stays_and_a_stranger_goes(host: str) -> None:
    """A member that said one thing, and listens since, is never taken for a stranger, by either family of addresses."""
    events: EventQueue = queue.SimpleQueue()
    authority = new_authority()
    server = GroupServer(authority, {"Echo": bytes}, lambda _: events, lambda _: None)
    link, heard = Link(host, server.port, authority.client), list[bytes]()
    listener = threading.Thread(target=lambda: heard.extend(link.events(b"me")))
    try:
        with socket.create_connection((host, server.port), 10) as stranger:
            events.put(b"welcome")
            listener.start()
            wait_until(lambda: heard, 10, "the stream to be open")
            for _ in range(PATIENCE):
                assert server._door.look() == 0
            assert server._door.look() == 1
            assert stranger.recv(1) == b""
            assert [server._door.look() for _ in range(PATIENCE)] == [0] * PATIENCE
        events.put(b"still here")
        events.put(None)
        listener.join(10)
        assert heard == [b"welcome", b"still here"]
    finally:
        events.put(None)
        server.stop(5)
