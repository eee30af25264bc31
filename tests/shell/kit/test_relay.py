"""The relay of tests: it cuts what it is told to cut, and nothing else."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from tests.kit import relay
from tests.kit.relay import Relay


def test_a_quiet_connection_is_carried_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who says nothing for longer than a connection may take to come about is still connected."""
    monkeypatch.setattr(relay, "_CONNECT_S", 0.2)
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        server.settimeout(10)
        carrier = Relay("127.0.0.1", server.getsockname()[1])
        try:
            with closing(socket.create_connection(("127.0.0.1", carrier.port), 10)) as client:
                broker, _ = server.accept()
                with closing(broker):
                    client.settimeout(1)
                    with pytest.raises(TimeoutError):  # not b"": the end
                        client.recv(1)
                    client.settimeout(10)
                    broker.sendall(b"x")
                    assert client.recv(1) == b"x"
        finally:
            carrier.close()
