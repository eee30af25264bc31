"""A broker that answers Fetch as a test wants it: for what no real one can be brought to say.

Usage::

    with ScriptedBroker(lambda asked: fetched(asked, partition(error=6))) as broker:
        RecordSource({"bootstrap.servers": broker.bootstrap}, ...)    # topic "t", partition 0, led by broker 1
    broker.counts                                                   # requests by api key, and "connections"
    broker.speaks[FETCH] = 12                                       # from the next connection on; PRODUCE has the same script
    broker.shown_port = relay.port                                  # where it says that the leader is, see ``relay``

    ScriptedBroker(script, host=b"elsewhere")                       # where it says that the leader is
    ScriptedBroker(script, logins=Logins({"bob": "secret"}))        # wants a login, see ``scripted_login``
"""

from __future__ import annotations

import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from sparkcohort.runtime.kafka.fetch_messages import FETCH, METADATA, PRODUCE, VERSIONS, varint
from tests.kit.scripted_login import SASL_AUTHENTICATE, SASL_HANDSHAKE, Logins

API_VERSIONS = 18
TOPIC, TOPIC_ID = "t", bytes(range(1, 17))
Script = Callable[[int], bytes | None]  # correlation id to what is sent, its length left out; None hangs up


def partition(error: int = 0, end: int = 100, preferred: int = -1, records: bytes = b"") -> bytes:
    """Partition 0's share of an answer."""
    head = struct.pack(">ihqqq", 0, error, end, end, 0) + b"\1" + struct.pack(">i", preferred)
    return head + varint(len(records) + 1) + records + b"\0"


def fetched(number: int, share: bytes, error: int = 0) -> bytes:
    """A Fetch response without a session."""
    return struct.pack(">ixihi", number, 0, error, 0) + b"\2" + TOPIC_ID + b"\2" + share + b"\0\0"


class ScriptedBroker:
    """Listens on a port of its own; ``leader`` is who leads the partition, ``nodes`` are all known at this port."""

    def __init__(
        self,
        script: Script,
        *,
        leader: int = 1,
        nodes: int = 1,
        said: bytes | None = None,
        host: bytes = b"127.0.0.1",
        logins: Logins | None = None,
    ) -> None:
        """Listen; ``said`` is what it says for the length of any answer to Fetch."""
        self.speaks = {api: versions[0] for api, versions in VERSIONS.items()} | (
            dict.fromkeys((SASL_HANDSHAKE, SASL_AUTHENTICATE), 1) if logins else {}
        )
        self._host, self._logins = host, logins
        self.counts: Counter[int | str] = Counter()
        self._script, self.leader, self._nodes, self._said = script, leader, nodes, said
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.shown_port: int = self._listener.getsockname()[1]
        self.bootstrap = f"127.0.0.1:{self.shown_port}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, name="scripted-broker", daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.counts["connections"] += 1
                self._open.append(client)
                threading.Thread(target=self._serve, args=(client,), name="scripted-broker", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client, client.makefile("rb") as stream:
            while head := stream.read(12):
                size, api, _, number = struct.unpack(">ihhi", head)
                rest = stream.read(size - 8)
                self.counts[api] += 1
                if self._logins is not None and api in (SASL_HANDSHAKE, SASL_AUTHENTICATE):
                    (named,) = struct.unpack(">h", rest[:2])
                    words, refused = self._logins.answer(api, rest[2 + max(named, 0) :])
                    client.sendall(struct.pack(">ii", len(words) + 4, number) + words)
                    if refused:
                        client.shutdown(socket.SHUT_RDWR)
                        return
                    continue
                answer = self._answer(api, number)
                if answer is None:
                    client.shutdown(socket.SHUT_RDWR)
                    return
                said = self._said if api == FETCH else None
                client.sendall((struct.pack(">i", len(answer)) if said is None else said) + answer)

    def _answer(self, api: int, number: int) -> bytes | None:
        if api == API_VERSIONS:
            entries = b"".join(struct.pack(">hhhx", key, 0, version) for key, version in self.speaks.items())
            return struct.pack(">ih", number, 0) + varint(len(self.speaks) + 1) + entries + struct.pack(">ix", 0)
        if api == METADATA:
            return self._metadata(number)
        return self._script(number) if api in (FETCH, PRODUCE) else None

    def _metadata(self, number: int) -> bytes:
        host = varint(len(self._host) + 1) + self._host
        nodes = b"".join(
            struct.pack(">i", node + 1) + host + struct.pack(">i", self.shown_port) + b"\0\0"
            for node in range(self._nodes)
        )
        led = struct.pack(">hiii", 0, 0, self.leader, 1) + b"\1\1\1\0"
        topic = struct.pack(">h", 0) + b"\2t" + TOPIC_ID + b"\0\2" + led + struct.pack(">ix", 0)
        head = struct.pack(">ixi", number, 0) + varint(self._nodes + 1) + nodes + b"\0" + struct.pack(">i", 1)
        return head + b"\2" + topic + b"\0"

    def __enter__(self) -> Self:
        """The listening broker."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End all connections."""
        self._listener.close()
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
