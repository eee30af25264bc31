"""The group's RPC over Arrow Flight: mutual TLS, a token of the run, one action for each request.

The server knows nothing of groups: it passes bytes to handlers by action name.  Members connect to the driver; nothing
connects to an executor.  An *event stream* is an exchange with many answers to one request: "rejoin" is pushed on it.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import queue
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC would log each failed handshake of a stranger

import pyarrow as pa
from pyarrow import flight

from sparkcohort.runtime.kafka.addresses import joined
from sparkcohort.runtime.protocol.calls import MAX_BYTES, CallError
from sparkcohort.runtime.shell.rpc.resources import raise_limit
from sparkcohort.runtime.shell.rpc.tls import SERVER_NAME, Credentials, RunAuthority

EVENTS: Final = "Events"
STREAMED: Final = frozenset({"Heartbeat", "OffsetCommit", "JoinGroup", "SyncGroup"})
"""Requests that go by an open stream (Flight's DoExchange), of which one is kept.  Heartbeats and commits are frequent: to set a
call up costs the server more than twice as much as to answer it.  Joins and syncs wait for other members, up to a rebalance
timeout: Flight can't end a running call, so a call on an abandoned connection would be waited for to its end."""
REPORTS: Final = frozenset(
    {
        "AgentFigures",
        "Delivered",
        "Fetched",
        "PartitionLoads",
        "MalformedRecords",
        "RecordTimestamps",
    }
)
"""Requests whose loss does no harm.  They have short time-outs, and no connection is abandoned for one: otherwise a driver that
stands still for seconds would make all members connect again and again.  Heartbeats detect a cut connection."""
KEEPALIVE_S: Final = 15.0
"""The interval of empty events on a silent event stream; sending one also detects a listener that is gone.  Members know from
heartbeats that the coordinator lives.  With a thousand streams one event every 5 s would cost 4 % of a core."""
_ALIVE: Final = b"\0"
"""An empty event as it is sent: Flight can't send empty metadata."""

_DIRECT: Final = [("grpc.enable_http_proxy", 0)]
"""gRPC would use ``grpc_proxy``, ``https_proxy`` and ``http_proxy``, even for loopback; no proxy leads to the driver."""
CONNECT_S: Final = 3.0
"""The longest time of one connect, TLS included.  A shorter one would fail for a driver on a busy or remote host.  With a longer
one, after a network cut, the system's retries come later and later."""
_RECONNECT: Final = [
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.min_reconnect_backoff_ms", int(CONNECT_S * 1000)),
]
"""``min_reconnect_backoff`` bounds one try, despite its name; the others bound the pauses between tries.  A run's successor is at
the same port within seconds, and gRPC's default pause is up to two minutes."""

Handler = Callable[[bytes], bytes]
EventQueue = queue.SimpleQueue[bytes | None]


_NO_ANSWER = (
    flight.FlightUnavailableError,
    flight.FlightTimedOutError,
    flight.FlightCancelledError,
    TimeoutError,
    OSError,
)
_NOT_IN_TIME = (flight.FlightTimedOutError, TimeoutError)


class CoordinatorUnreachable(ConnectionError):
    """No answer from the coordinator: it has ended, it is frozen, or the network is cut (``Link.is_refused``: it has ended)."""


class CoordinatorRefused(PermissionError):
    """The coordinator refused: a certificate or token of another run, or a malformed request."""


class _TokenCheck(flight.ServerMiddlewareFactory):  # type: ignore[misc]  # pyarrow has no type information
    def __init__(self, token: str) -> None:
        self._expected = f"Bearer {token}"

    def start_call(self, info: Any, headers: Mapping[str, list[str]]) -> None:  # noqa: ARG002  Flight's signature
        token = headers.get("authorization", [""])[0]
        if not hmac.compare_digest(token.encode(), self._expected.encode()):
            raise flight.FlightUnauthenticatedError("this token belongs to another coordinator run")


class GroupServer(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow has no type information
    """Serves the handlers on ``host:port`` (port 0: chosen by the system, see ``port``).

    Raises OSError when the address is taken.
    """

    def __init__(
        self,
        authority: RunAuthority,
        handlers: Mapping[str, Handler],
        subscribe: Callable[[bytes], EventQueue],
        unsubscribe: Callable[[EventQueue], None],
        *,
        host: str = "0.0.0.0",  # noqa: S104  executors dial in from other hosts; strangers stop at the handshake
        port: int = 0,
    ) -> None:
        try:
            super().__init__(
                f"grpc+tls://{joined(host, port)}",
                tls_certificates=[(authority.server_certificate, authority.server_key)],
                verify_client=True,
                root_certificates=authority.client.authority,
                middleware={"token": _TokenCheck(authority.client.token)},
            )
        except pa.ArrowException as error:  # Arrow says only that the server did not start
            raise OSError(f"{joined(host, port)} cannot be listened on; is the port in use?") from error
        self._handlers = handlers
        self._subscribe = subscribe
        self._unsubscribe = unsubscribe
        raise_limit()  # gRPC keeps a silent connection, and its descriptor, for two minutes

    def do_action(self, context: Any, action: Any) -> Iterator[Any]:  # noqa: ARG002  Flight's signature
        """Answer one action (Flight calls this)."""
        return iter([flight.Result(self._answer(action.type, action.body.to_pybytes()))])

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:  # noqa: ARG002  Flight's signature
        """Answer the requests of one open stream, in order; a failed one ends the stream (Flight calls this).

        ``Events`` is the last request: from then on the stream sends events, until their queue ends.
        """
        for chunk in reader:
            if chunk.app_metadata is None:
                raise flight.FlightServerError("a stream of requests carries no data")
            name, _, body = chunk.app_metadata.to_pybytes().partition(b"\0")
            if name == EVENTS.encode():
                for event in self._events(context, body):
                    writer.write_metadata(pa.py_buffer(event or _ALIVE))
                return
            writer.write_metadata(pa.py_buffer(self._answer(name.decode(errors="replace"), body)))

    def _answer(self, name: str, body: bytes) -> bytes:
        handler = self._handlers.get(name)
        if handler is None:
            raise flight.FlightServerError(f"no such request: {name[:64]!r}")
        if len(body) > MAX_BYTES:
            raise CallError(f"a request of {len(body)} bytes is over the limit of {MAX_BYTES}")
        try:
            return handler(body)
        except TimeoutError as error:  # to the client this is an unreachable coordinator, not a refusal
            raise flight.FlightUnavailableError(str(error)) from None

    def _events(self, context: Any, body: bytes) -> Iterator[bytes]:
        events = self._subscribe(body)
        try:
            while not context.is_cancelled():
                try:
                    event = events.get(timeout=KEEPALIVE_S)
                except queue.Empty:
                    event = b""
                if event is None:
                    return
                yield event
        finally:
            self._unsubscribe(events)

    def stop(self, timeout_s: float) -> None:
        """Stop serving; waits for running calls up to ``timeout_s``."""
        stopper = threading.Thread(target=self.shutdown, name="cohort-flight-stop", daemon=True)
        try:
            stopper.start()
        except RuntimeError:  # the system has no thread for it: the port is closed with the process
            return
        stopper.join(timeout_s)


class _RequestStream:
    """An open stream of requests; its own thread waits for the answers, so that the caller can have a time-out."""

    def __init__(self, client: Any, headers: list[tuple[bytes, bytes]]) -> None:
        self.client = client
        self._options = flight.FlightCallOptions(headers=headers)
        self._requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[bytes | Exception] = queue.SimpleQueue()
        self.closed = False
        self._reader: Any = None  # while an answer is waited for
        threading.Thread(target=self._run, name="cohort-line", daemon=True).start()

    def ask(self, action: str, body: bytes, timeout_s: float) -> bytes:
        """The answer.  After an exception, of Flight or TimeoutError, the stream can't be used any more."""
        self._requests.put(action.encode() + b"\0" + body)
        try:
            answer = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            self.close()
            raise TimeoutError(action) from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """End the stream at once, without waiting for an answer."""
        self.closed = True
        self._requests.put(None)
        reader = self._reader
        if reader is not None:
            reader.cancel()

    def _run(self) -> None:
        with contextlib.ExitStack() as stack:
            try:
                writer, reader = self.client.do_exchange(flight.FlightDescriptor.for_command(b""), self._options)
                stack.callback(_close, writer)
                stack.callback(reader.cancel)  # first: closing a writer waits for the other end
                while (message := self._requests.get()) is not None:
                    writer.write_metadata(pa.py_buffer(message))
                    self._reader = reader
                    if self.closed:
                        reader.cancel()
                    self._answers.put(bytes(reader.read_chunk().app_metadata.to_pybytes()))
                    self._reader = None
                self._answers.put(
                    flight.FlightCancelledError("the stream was closed")
                )  # for a request that raced with close
            except StopIteration:
                self._answers.put(flight.FlightUnavailableError("the coordinator ended the stream"))
            except Exception as error:  # noqa: BLE001  the caller waits for an answer after any error
                is_expected = isinstance(error, (flight.FlightError, ValueError, OSError))
                self._answers.put(
                    error if is_expected else flight.FlightUnavailableError(f"{type(error).__name__}: {error}")
                )


class Link:
    """A client's connection to one coordinator.

    A connection without an answer in time is abandoned, and the next call connects again, as in Kafka's clients
    (``request.timeout.ms``): after a cut, TCP's retries on the old connection come only after as much time again.
    """

    def __init__(self, host: str, port: int, credentials: Credentials) -> None:
        """Connects with the first call.  Raises CoordinatorUnreachable for a ``host`` that is no name or address."""
        self.address, self._socket_address = joined(host, port), (host.strip("[]"), port)
        self._credentials = credentials
        try:
            self._client = self._dial()
        except pa.ArrowInvalid:
            raise CoordinatorUnreachable(
                f"{host!r} is no name or address that the coordinator can be reached at"
            ) from None
        self._dialling = threading.Lock()
        self._headers = [(b"authorization", f"Bearer {credentials.token}".encode())]
        self._streams: set[_RequestStream] = set()  # on this connection
        self._idle: _RequestStream | None = None  # one of them without a request
        self._events: Any = None  # the stream's reader
        self._closed = False

    def _dial(self) -> Any:
        return flight.FlightClient(
            f"grpc+tls://{self.address}",
            tls_root_certs=self._credentials.authority,
            cert_chain=self._credentials.certificate,
            private_key=self._credentials.key,
            override_hostname=SERVER_NAME,
            generic_options=[*_DIRECT, *_RECONNECT],
        )

    def _give_up(self, client: Any) -> None:
        """Abandon a connection without an answer in time, with its streams of requests and events."""
        with self._dialling:
            if self._closed or self._client is not client:  # another thread has done it
                return
            self._client = self._dial()
            events, streams, self._streams = self._events, self._streams, set()
        for stream in streams:
            stream.close()
        if events is not None:
            events.cancel()

    def call(self, action: str, body: bytes, timeout_s: float) -> bytes:
        """Send one request and return its answer.

        Raises CoordinatorUnreachable when nothing answers within ``timeout_s``, CoordinatorRefused when it refuses.
        """
        try:
            if action in STREAMED:
                return self._send_on_stream(action, body, timeout_s)
            return self._call(action, body, timeout_s)
        except _NO_ANSWER as error:
            raise CoordinatorUnreachable(f"no answer from the coordinator at {self.address} to {action}") from error
        except (flight.FlightError, ValueError) as error:
            raise CoordinatorRefused(
                f"the coordinator at {self.address} refused {action}: {_first_line(error)}"
            ) from None

    def is_refused(self) -> bool:
        """Whether the host refuses the connection, or the host's name is unknown: then the coordinator has ended.

        False for silence, as from a host or network that can't be reached.  Takes ``CONNECT_S`` at most, plus the look-up of the
        name.
        """
        try:
            with socket.create_connection(self._socket_address, CONNECT_S):
                return False
        except ConnectionRefusedError:
            return True
        except socket.gaierror as error:
            return error.errno != socket.EAI_AGAIN
        except OSError:
            return False

    def _call(self, action: str, body: bytes, timeout_s: float) -> bytes:
        client = self._client
        options = flight.FlightCallOptions(timeout=timeout_s, headers=self._headers)
        try:
            (result,) = client.do_action(flight.Action(action, body), options)
        except _NOT_IN_TIME:
            if action not in REPORTS:
                self._give_up(client)
            raise
        return bytes(result.body.to_pybytes())

    def _send_on_stream(self, action: str, body: bytes, timeout_s: float) -> bytes:
        """Send on the idle stream, or on a new one."""
        with self._dialling:
            stream, self._idle = self._idle, None
        if stream is None or stream.closed:
            stream = self._open(self._client)
        try:
            answer = stream.ask(action, body, timeout_s)
        except BaseException as error:
            self._end(stream)
            if isinstance(error, _NOT_IN_TIME):
                self._give_up(stream.client)  # not self._client, which may be a newer connection
            raise
        self._keep(stream)
        return answer

    def _keep(self, stream: _RequestStream) -> None:
        with self._dialling:
            if self._idle is None:
                self._idle = stream
                return
        self._end(stream)

    def _open(self, client: Any) -> _RequestStream:
        """A stream that ends with its connection, at once if that is abandoned already."""
        stream = _RequestStream(client, self._headers)
        with self._dialling:
            if stands := not self._closed and self._client is client:
                self._streams.add(stream)
        if not stands:
            stream.close()
        return stream

    def _end(self, stream: _RequestStream) -> None:
        with self._dialling:
            self._streams.discard(stream)
        stream.close()

    def events(self, body: bytes) -> Iterator[bytes]:
        """The coordinator's events, until it ends the stream; an empty event only shows that it lives.

        Raises CoordinatorUnreachable when the stream breaks, or is ended here by ``close``.
        """
        options, client = flight.FlightCallOptions(headers=self._headers), self._client
        try:
            writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(b""), options)
            with contextlib.ExitStack() as stack:
                stack.callback(_close, writer)
                stack.callback(reader.cancel)  # first, or closing the writer would wait for the coordinator
                self._events = reader
                if self._closed or self._client is not client:  # abandoned before ``_events`` was set: end it here
                    return
                writer.write_metadata(pa.py_buffer(EVENTS.encode() + b"\0" + body))
                while True:
                    event = bytes(reader.read_chunk().app_metadata.to_pybytes())
                    yield b"" if event == _ALIVE else event
        except StopIteration:
            return
        except (flight.FlightError, pa.ArrowInvalid, OSError) as error:  # invalid: it was closed before it began
            raise CoordinatorUnreachable(f"the event stream from {self.address} broke") from error

    def close(self) -> None:
        """Close the connection, its streams and the event stream, from any thread."""
        with self._dialling:
            self._closed = True
            events, streams, self._streams = self._events, self._streams, set()
        for stream in streams:
            stream.close()
        if events is not None:
            events.cancel()
        self._client.close()


def _close(writer: Any) -> None:
    """Close a stream, broken or not: Arrow's destructor would print a warning for an open one."""
    with contextlib.suppress(flight.FlightError, ValueError, OSError):
        writer.close()


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].partition(" Detail:")[0]
