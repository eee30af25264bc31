"""Malformed messages on the open stream of requests: the stream that they came on ends, everything else goes on."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from pyarrow import flight

from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.calls import MAX_BYTES, decode, encode
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.shell.coordinator.coordinator import Coordinator
from sparkcohort.runtime.shell.coordinator.group_settings import GroupSettings
from sparkcohort.runtime.shell.coordinator.plan_registry import PlanRegistry
from sparkcohort.runtime.shell.coordinator.service import Service
from sparkcohort.runtime.shell.rpc.certificates import new_authority
from sparkcohort.runtime.shell.rpc.flight import GroupServer
from sparkcohort.runtime.shell.rpc.tls import SERVER_NAME, RunAuthority
from tests.kit.waiting import wait_until

BEAT = encode(p.Heartbeat("x-1", "x", 3))
ASKED = b"Heartbeat\0" + BEAT
BATCH = pa.record_batch([pa.array([1, 2])], names=["x"])


class Stream:
    """An open stream of requests of one who doesn't keep to what is agreed."""

    def __init__(self, port: int, authority: RunAuthority) -> None:
        credentials = authority.client
        self._client = flight.FlightClient(
            f"grpc+tls://127.0.0.1:{port}",
            tls_root_certs=credentials.authority,
            cert_chain=credentials.certificate,
            private_key=credentials.key,
            override_hostname=SERVER_NAME,
        )
        options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {credentials.token}".encode())])
        self.writer, self.reader = self._client.do_exchange(flight.FlightDescriptor.for_command(b""), options)

    def say(self, message: bytes) -> None:
        """Send these bytes as one request."""
        self.writer.write_metadata(pa.py_buffer(message))

    def heard(self) -> object:
        """The next answer; raises when the stream has ended."""
        return decode(self.reader.read_chunk().app_metadata.to_pybytes(), p.HeartbeatReply)

    def close(self) -> None:
        """End it, whatever has become of it."""
        self.reader.cancel()
        with contextlib.suppress(pa.ArrowException):
            self.writer.close()
        self._client.close()


class Server:
    """A coordinator behind its port, and a well-behaved member's stream that was open before all the others."""

    def __init__(self) -> None:
        self.authority = new_authority()
        settings = GroupSettings("g", "run", 1000, 2_000, 500, 2_000, ("range",))
        self.coordinator = Coordinator(settings, lambda: {"t": 3})
        self.coordinator.start()
        service = Service(self.coordinator, PlanRegistry(), failure=lambda: None, status=dict)
        self.flight = GroupServer(
            self.authority, service.handlers(), service.subscribe, service.unsubscribe, host="127.0.0.1"
        )
        self.good = self.stream()
        self.asks()

    def stream(self) -> Stream:
        """One more stream, over a connection of its own."""
        return Stream(self.flight.port, self.authority)

    def asks(self) -> None:
        """The good stream asks and is answered."""
        self.good.say(ASKED)
        reply = self.good.heard()
        assert isinstance(reply, p.HeartbeatReply)
        assert reply.error is ErrorCode.UNKNOWN_MEMBER_ID

    def stop(self) -> None:
        """End all of it."""
        self.good.close()
        self.coordinator.stop()
        self.flight.stop(5)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A running server."""
    running = Server()
    yield running
    running.stop()


def batch_without_metadata(stream: Stream) -> None:
    """Data, where requests are metadata."""
    stream.writer.begin(BATCH.schema)
    stream.writer.write_batch(BATCH)


MALFORMED: dict[str, tuple[Callable[[Stream], None], str]] = {
    "no metadata": (batch_without_metadata, "a stream of requests carries no data"),
    "no NUL": (lambda stream: stream.say(b"Heartbeat"), "not a Heartbeat"),
    "no name": (lambda stream: stream.say(b"\0" + BEAT), "no such request: ''"),
    "unknown action": (lambda stream: stream.say(b"Nothing\0" + BEAT), "no such request: 'Nothing'"),
    "action in no encoding": (lambda stream: stream.say(b"\xff\xfe\0" + BEAT), "no such request"),
    "endless name": (lambda stream: stream.say(b"n" * 100_000), "no such request: 'nnnn"),
    "not JSON": (lambda stream: stream.say(b"Heartbeat\0\xff{"), "not a Heartbeat"),
    "a reply": (
        lambda stream: stream.say(b"Heartbeat\0" + encode(p.HeartbeatReply(ErrorCode.NONE))),
        "not a Heartbeat",
    ),
    "huge": (lambda stream: stream.say(b"Heartbeat\0" + b"x" * (MAX_BYTES + 1)), "over the limit"),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_message_ends_its_own_stream(server: Server, what: str) -> None:
    """With a reason; the streams of others stay open, and the server takes new ones."""
    malformed, reason = MALFORMED[what]
    group, stream = server.coordinator.group, server.stream()
    malformed(stream)
    with pytest.raises((flight.FlightError, pa.ArrowInvalid), match=reason):
        stream.heard()
    stream.close()
    server.asks()
    fresh = server.stream()
    fresh.say(ASKED)
    fresh.heard()
    fresh.close()
    assert server.coordinator.group.members == group.members


def test_a_batch_with_a_request_is_a_request(server: Server) -> None:
    """What comes along with it is not looked at."""
    stream = server.stream()
    stream.writer.begin(BATCH.schema)
    stream.writer.write_with_metadata(BATCH, pa.py_buffer(ASKED))
    assert stream.heard() == p.HeartbeatReply(ErrorCode.UNKNOWN_MEMBER_ID, "no member has instance id x")
    stream.close()
    server.asks()


@pytest.mark.parametrize("ending", ["half-closed", "abandoned", "cancelled"])
def test_a_stream_that_ends_in_the_middle(server: Server, ending: str) -> None:
    """Before a request, with an answer under way, or without a word: nobody else notices, no thread stays."""
    threads = threading.active_count()
    for _ in range(20):
        stream = server.stream()
        if ending == "half-closed":
            stream.writer.done_writing()
            with pytest.raises(StopIteration):
                stream.heard()
        else:
            stream.say(ASKED)
        if ending == "cancelled":
            stream.reader.cancel()
        stream.close()
    server.asks()
    wait_until(lambda: threading.active_count() <= threads, 5, "the streams to have ended")
