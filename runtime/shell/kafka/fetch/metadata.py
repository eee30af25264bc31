"""Asking a cluster for its leaders: one question at a time, by a connection of its own that is kept for the next."""

from __future__ import annotations

import random
import select
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from sparkcohort.runtime.kafka.addresses import joined
from sparkcohort.runtime.kafka.fetch_messages import (
    METADATA,
    METADATA_VERSION,
    VERSIONS,
    MalformedResponse,
    Metadata,
    Node,
    best_version,
    framed,
    metadata_answer,
    metadata_request,
)
from sparkcohort.runtime.shell.kafka.fetch.broker import FrameReader
from sparkcohort.runtime.shell.kafka.fetch.connection import (
    ConnectionRefused,
    Distrusted,
    Settings,
    Transport,
    TransportError,
    UnsupportedBroker,
    connect,
)

T = TypeVar("T")

ANSWER_S = 5.0
LARGEST = 64 << 20
MOST_REFUSALS = 2  # of one question: another broker may know of a new password already, all others needn't be asked
_TELLING = (
    TransportError,
    UnsupportedBroker,
    ConnectionRefused,
    Distrusted,
)  # of several brokers' failures the last of these kinds is raised


def bootstrap_of(config: Mapping[str, Any]) -> str:
    """``bootstrap.servers``, by its name or its old one."""
    return str(config.get("bootstrap.servers") or config.get("metadata.broker.list") or "")


def connect_to(
    node: Node, settings: Settings, timeout_s: float, required: Mapping[int, int | Sequence[int]] = VERSIONS
) -> Transport:
    """A connection to a broker that speaks what is needed: of each request this version, or one of these.

    Raises TransportError, UnsupportedBroker if it doesn't.
    """
    transport = connect(node.host, node.port, settings, timeout_s)
    for api, versions in required.items():
        usable = (versions,) if isinstance(versions, int) else versions
        least, most = transport.versions.get(api, (0, -1))
        if not any(least <= version <= most for version in usable):
            transport.close()
            numbers = " or ".join(map(str, usable))
            raise UnsupportedBroker(
                f"{joined(node.host, node.port)} doesn't speak version {numbers} of Kafka's request {api}"
            )
    return transport


def weightiest(error: TransportError) -> int:
    """The more, the more it tells: a key for ``max``."""
    return _TELLING.index(type(error))


def send_and_receive(transport: Transport, request: bytes, name: str, read: Callable[[memoryview], T]) -> T:
    """Send one request and wait for its answer, ``ANSWER_S`` at most; raises TransportError."""
    transport.send(request)
    frames, deadline = FrameReader(LARGEST, 0), time.monotonic() + ANSWER_S
    while True:
        flushed = transport.flush()
        answer = frames.read(transport)
        if answer is not None:
            try:
                return read(answer)
            except MalformedResponse as error:
                raise TransportError(f"a broker's answer to {name} can't be read: {error}") from None
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TransportError(f"no answer to {name} within {ANSWER_S:g} s")
        poller = select.poll()
        poller.register(transport, select.POLLIN if flushed else select.POLLIN | select.POLLOUT)
        poller.poll(left_s * 1000)


class MetadataClient:
    """Asks any broker that answers; for one thread at a time."""

    def __init__(self, bootstrap: Sequence[Node], settings: Settings) -> None:
        """Not connected."""
        self._bootstrap, self._settings, self._client_id = tuple(bootstrap), settings, settings.client_id
        self._timeout_s = min(settings.setup_timeout_s, ANSWER_S)
        self._transport: Transport | None = None
        self._node: Node | None = None
        self._last_id = 0

    def ask(self, topics: Collection[str], nodes: Collection[Node], silent: Collection[Node] = ()) -> Metadata:
        """The cluster and these topics; raises TransportError when no broker answers: a kind of it, if it tells more.

        Brokers that are ``silent`` are asked last: each may cost seconds.
        """
        if self._node in silent:
            self.close()
        if self._transport is not None:
            try:
                return self._request_metadata(self._transport, topics)
            except TransportError:
                self.close()
        candidates = list({*nodes, *self._bootstrap})
        random.shuffle(candidates)  # so that not every client of a cluster asks the same broker
        candidates.sort(key=lambda node: 2 if node in silent else node not in nodes)
        failures: list[TransportError] = []
        for node in candidates:
            try:
                self._transport, self._node = connect_to(node, self._settings, self._timeout_s), node
                return self._request_metadata(self._transport, topics)
            except TransportError as error:
                self.close()
                failures.append(error)
                if sum(isinstance(each, ConnectionRefused) for each in failures) >= MOST_REFUSALS:
                    break
        raise max(failures, key=weightiest, default=TransportError("there is no broker to ask"))

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()
        self._transport = None

    def _request_metadata(self, transport: Transport, topics: Collection[str]) -> Metadata:
        self._last_id += 1
        version = best_version(METADATA, transport.versions) or METADATA_VERSION
        body = metadata_request(sorted(topics), version)
        return send_and_receive(
            transport,
            framed(METADATA, version, self._last_id, self._client_id, body),
            "a Metadata request",
            lambda frame: metadata_answer(frame, len(frame), self._last_id, version),
        )
