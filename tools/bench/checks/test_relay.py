"""The relay of ``make bench``: it makes a peer far, and nothing else."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from tests.kit.broker import Port
from tools.bench.source.far import RELAY

EACH_WAY_S = 0.02
MUCH = 8 << 20


@contextmanager
def relayed(target: int) -> Iterator[socket.socket]:
    """A connection to ``target`` through a relay."""
    port = Port("127.0.0.1")
    command = [sys.executable, "-P", str(RELAY), f"{port.number}:{target}:{EACH_WAY_S * 1000}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"listening\n"
        with closing(socket.create_connection(("127.0.0.1", port.number), 10)) as client:
            client.settimeout(10)
            yield client
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(10) == 0
    port.close()


def echo(server: socket.socket) -> None:
    """Give back what one client sends, until it sends no more."""
    peer, _ = server.accept()
    with closing(peer):
        while data := peer.recv(1 << 16):
            peer.sendall(data)


def test_a_relay_delays_every_round_trip_and_changes_no_byte() -> None:
    """Each way takes its time, much data takes hardly longer than a little, all of it arrives, and so does the end."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        thread = threading.Thread(target=echo, args=(server,))
        thread.start()
        with relayed(server.getsockname()[1]) as client:
            began = time.monotonic()
            client.sendall(b"ping")
            assert client.recv(4) == b"ping"
            assert time.monotonic() - began >= 2 * EACH_WAY_S
            sent = bytes(range(256)) * (MUCH // 256)
            writer = threading.Thread(target=client.sendall, args=(sent,))
            writer.start()
            got = bytearray()
            while len(got) < MUCH:
                got += client.recv(1 << 18)
            writer.join()
            assert got == sent
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1) == b""
        thread.join()
