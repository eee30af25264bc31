"""An authenticated connection from this process to one Kafka broker, without librdkafka.

``connect`` blocks until the broker has let us in: TCP, TLS, ApiVersions, SASL.  From there on the ``Transport`` never
blocks: its owner selects on it, and sends and receives whole requests and answers in Kafka's frames as it likes.
Which settings can be honoured here, ``connection_settings.unsupported`` tells.  Sources: Kafka's protocol guide; KIP-35 and KIP-511
(ApiVersions), KIP-152 and KIP-368 (SaslAuthenticate).
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

from sparkcohort.runtime.kafka import sasl
from sparkcohort.runtime.kafka.addresses import bare, joined
from sparkcohort.runtime.kafka.fetch_messages import (
    API_VERSIONS,
    NO_TAGS,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    VERSIONS,
    Cursor,
    MalformedResponse,
    Node,
    address_error,
    compact_string,
    framed,
    is_flexible,
)
from sparkcohort.runtime.shell.kafka.token_provider import LoginToken, NoToken
from sparkcohort.runtime.shell.kafka.tokens import TokenSource, source_of
from sparkcohort.runtime.shell.options.connection_settings import (
    BEARER,
    ConnectionRefused,
    Settings,
    TransportError,
    UnsupportedBroker,
)
from sparkcohort.runtime.shell.options.redaction import REDACTED

UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE, UNSUPPORTED_VERSION = 33, 34, 35
LARGEST_ANSWER = 1 << 20  # of a broker that we don't know yet; its list of versions takes a thousandth of this
MOST_EXPECTED = 512 << 10  # well below what the system keeps for a connection
MOST_PIECES = 512  # of one call: systems take 1,024
_TLS_RECORD = 32 << 10  # bytes of a record may be in OpenSSL's hands already, and one is 16 KiB at most
SOFTWARE_NAME, SOFTWARE_VERSION = b"sparkcohort", b"0.1.0"  # for the brokers' statistics
_PLAINTEXT = "is it a plaintext port? see kafka.security.protocol"

_SHORT, _INT, _LONG, _API_VERSION = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q"), struct.Struct(">hhh")

Versions: TypeAlias = Mapping[int, tuple[int, int]]
_Socket: TypeAlias = socket.socket | ssl.SSLSocket
_NOT_NOW = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Transport:
    """A connection that the broker has accepted; for one thread at a time.

    ``socket`` is non-blocking.  ``versions``: API key to the (min, max) that the broker speaks.  ``session_ends``: the
    monotonic time after which the broker wants to see the login again and closes the connection; inf where it doesn't.
    """

    def __init__(self, server: str, connected: _Socket, versions: Versions, session_ends: float, hint: str) -> None:
        connected.settimeout(0)
        self.socket = connected
        self.versions = versions
        self.session_ends = session_ends
        self._records = isinstance(connected, ssl.SSLSocket)  # of TLS, 16 KiB at most, one with each call
        self._server = server
        self._hint = hint  # until something has come
        self._unsent: deque[memoryview] = deque()
        self._expected = 1

    def fileno(self) -> int:
        """The socket's, for a selector."""
        return self.socket.fileno()

    def send(self, *pieces: bytes | bytearray | memoryview) -> None:
        """Queue bytes, which are not copied, and write what can be written now; raises TransportError when the peer is gone."""
        self._unsent.extend(memoryview(piece).cast("B") for piece in pieces if len(piece))
        self.flush()

    def flush(self) -> bool:
        """Write on; True when nothing is left.  Raises TransportError when the peer is gone."""
        try:
            while self._unsent:
                self._drop_sent(self._write())
        except _NOT_NOW:
            return False
        except OSError as error:
            raise self._connection_error(error) from None
        return True

    def _write(self) -> int:
        if isinstance(self.socket, ssl.SSLSocket):
            return self.socket.send(self._unsent[0])  # the same start at a second try: OpenSSL remembers it
        return self.socket.sendmsg(islice(self._unsent, MOST_PIECES))

    def _drop_sent(self, sent: int) -> None:
        while self._unsent and sent >= len(self._unsent[0]):
            sent -= len(self._unsent.popleft())
        if sent:
            self._unsent[0] = self._unsent[0][sent:]

    def recv_into(self, view: memoryview) -> int:
        """Take what has come, up to the view's length in bytes; 0: nothing there now.  Raises TransportError at the end.

        When the view comes back full there may be more, which a selector can't see: TLS has it decrypted already.
        """
        received = 0
        try:
            while received < len(view):
                more = self.socket.recv_into(view[received:])
                received += more
                if not more and not received:
                    raise self._connection_error(None)
                if not more or not self._records:
                    break
        except _NOT_NOW:
            pass
        except OSError as error:
            if not received:  # else it comes again with the next call, as an end does
                raise self._connection_error(error) from None
        if received:
            self._hint = ""
        return received

    def expect(self, nbytes: int) -> None:
        """Let a selector tell of the next bytes only when most of so many have come: one wake-up for many segments.

        Nothing is lost by it: the end of the stream is told at once, and the bytes meant are certain to come.  But what comes
        slowly does not show for long: set it to 0 before you conclude from silence.
        """
        least = max(1, min(nbytes - _TLS_RECORD, MOST_EXPECTED))
        if least != self._expected:
            self._expected = least
            with contextlib.suppress(OSError):  # a hint
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, least)

    def close(self) -> None:
        """Close the connection; what is queued is thrown away."""
        with contextlib.suppress(OSError):
            self.socket.close()

    def _connection_error(self, error: OSError | None) -> TransportError:
        return TransportError(f"{self._server} {_closing_words(error)}{self._hint}")


def connect(host: str, port: int, settings: Settings, timeout_s: float) -> Transport:
    """Connect and log in, within ``timeout_s`` (or ``socket.connection.setup.timeout.ms``, if that is less).

    All addresses of the name are tried in turn, each with an equal share of the time that is left.  Blocks; resolving
    the name takes as long as the system likes.  Raises ConnectionRefused for what another try won't change soon,
    UnsupportedBroker where it needs librdkafka, else TransportError.
    """
    deadline = time.monotonic() + min(timeout_s, settings.setup_timeout_s)
    server = joined(host, port)
    addresses = _resolve(host, port, settings)
    failures: list[str] = []
    for number, (family, address) in enumerate(addresses):
        now = time.monotonic()
        share = now + (deadline - now) / (len(addresses) - number)
        try:
            return _Setup(host, server, settings, share, family).run(address)
        except (ConnectionRefused, UnsupportedBroker):
            raise
        except TransportError as error:
            failures.append(str(error))
        except OSError as error:  # a family that this machine has not, or no descriptor left
            failures.append(f"no socket for {server} at {address[0]}: {error.strerror}")
    raise TransportError("; ".join(dict.fromkeys(failures)))


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


def _resolve(host: str, port: int, settings: Settings) -> list[tuple[int, Any]]:
    wrong = address_error(bare(host), port)
    if wrong:
        raise TransportError(
            f"{joined(host, port)}, {wrong}: see kafka.bootstrap.servers and the brokers' advertised.listeners"
        )
    try:
        entries = socket.getaddrinfo(bare(host), port, settings.family, socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a host name"
        raise TransportError(
            f"the name of {joined(host, port)} can't be resolved ({reason}): see kafka.bootstrap.servers and the brokers' "
            "advertised.listeners"
        ) from None
    return list(dict.fromkeys((family, address) for family, _, _, _, address in entries))


def _closing_words(error: OSError | None) -> str:
    if error is None:
        return "closed the connection"
    return f"broke the connection: {error.strerror or error}"


def _tls_words(error: ssl.SSLError) -> str:
    """Why the handshake failed, and what to do."""
    reason = (error.reason or "").upper()
    if isinstance(error, ssl.SSLCertVerificationError):
        if "mismatch" in error.verify_message.lower():
            return (
                f"has a certificate for another name ({error.verify_message}): connect by a name that is in it, or set "
                "kafka.ssl.endpoint.identification.algorithm to none"
            )
        return (
            f"has a certificate that is not trusted ({error.verify_message}): give its authority in PEM by "
            "kafka.ssl.truststore.location (or kafka.ssl.ca.location)"
        )
    words = reason.replace("_", " ").lower() or "TLS failed"
    if "ALERT" in reason:
        return (
            f"refused the TLS handshake ({words}): it may demand a certificate of ours that it trusts; see "
            "kafka.ssl.keystore.location (or kafka.ssl.certificate.location and kafka.ssl.key.location)"
        )
    return f"does not speak TLS as we do ({words}); {_PLAINTEXT}"


def _login_words(error: int, offered: str) -> str:
    if error == UNSUPPORTED_SASL_MECHANISM:
        return f"it offers {offered}; see kafka.sasl.mechanism"
    if error == ILLEGAL_SASL_STATE:
        return "this port takes no login; see kafka.security.protocol"
    return f"Kafka's error {error}"


class _Setup:
    """One attempt at one address, up to a deadline."""

    def __init__(self, host: str, server: str, settings: Settings, deadline: float, family: int) -> None:
        self._host = bare(host)
        self._server = server
        self._settings = settings
        self._deadline = deadline
        self._last_id = 0
        self._tokens: TokenSource | None = None
        self._token: LoginToken | None = None  # with which we log in
        self._socket: _Socket = socket.socket(family, socket.SOCK_STREAM)

    def run(self, address: Any) -> Transport:
        """The connection; nothing stays open when an error is raised."""
        ends = float("inf")
        try:
            self._open(address)
            if (tls := self._settings.tls_context()) is not None:
                self._shake_hands(tls)
            versions = self._versions()
            if self._settings.mechanism:
                ends = self._login(versions)
            return Transport(self._server, self._socket, versions, ends, self._hint())
        except MalformedResponse:
            self._socket.close()
            words = "sent an answer that is cut short: it does not speak Kafka's protocol"
            raise TransportError(f"{self._server} {words}") from None
        except BaseException:
            self._socket.close()
            raise

    def _open(self, address: Any) -> None:
        """Buffers before the connection: the window's scale is agreed upon there."""
        settings = self._settings
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, settings.keepalive)
            for option, size in (
                (socket.SO_RCVBUF, settings.receive_buffer),
                (socket.SO_SNDBUF, settings.send_buffer),
            ):
                if size:
                    self._socket.setsockopt(socket.SOL_SOCKET, option, size)
            self._arm().connect(address)
        except OSError as error:
            reason = "no answer in time" if isinstance(error, TimeoutError) else error.strerror
            raise TransportError(
                f"no connection to {self._server} at {address[0]}: {reason}; is the broker up, and is this where it listens?"
            ) from None

    def _arm(self) -> _Socket:
        """The socket, to wait on up to the deadline."""
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._socket.settimeout(left_s)
        return self._socket

    # --- TLS --------------------------------------------------------------------------------------

    def _shake_hands(self, context: ssl.SSLContext) -> None:
        try:
            self._socket = context.wrap_socket(self._arm(), do_handshake_on_connect=False, server_hostname=self._host)
            self._arm()
            self._socket.do_handshake()
        except TimeoutError:
            raise TransportError(f"{self._server} gave no answer to TLS in time; {_PLAINTEXT}") from None
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError):
            raise TransportError(
                f"{self._server} closed the connection during the TLS handshake; {_PLAINTEXT}"
            ) from None
        except ssl.SSLError as error:
            raise ConnectionRefused(f"{self._server} {_tls_words(error)}") from None
        except (OSError, ValueError) as error:
            raise TransportError(f"{self._server} is no host for TLS: {error}") from None

    # --- requests ---------------------------------------------------------------------------------

    def _versions(self) -> Versions:
        """What the broker speaks; one that knows no version 3 of this question is asked in version 0."""
        body = compact_string(SOFTWARE_NAME) + compact_string(SOFTWARE_VERSION) + NO_TAGS
        answer = self._ask(API_VERSIONS, 3, body)
        (error,) = answer.unpack(_SHORT)
        if error == UNSUPPORTED_VERSION:
            answer = self._ask(API_VERSIONS, 0, b"")
            (error,) = answer.unpack(_SHORT)
        if error:
            raise TransportError(f"{self._server} won't tell its versions: Kafka's error {error}")
        return dict(answer.array(_version_range))

    def _login(self, versions: Versions) -> float:
        """Log in; the monotonic time until which it holds, inf for ever."""
        mechanism = self._settings.mechanism
        if versions.get(SASL_HANDSHAKE, (0, 0))[1] < 1 or versions.get(SASL_AUTHENTICATE, (9, 9))[0] > 1:
            old = f"{self._server} is too old for a login by SaslAuthenticate: Kafka 1.0 has it"
            # librdkafka would log in there without SCRAM's least number of iterations, also at an impostor's port.
            raise UnsupportedBroker(old) if mechanism == "PLAIN" else ConnectionRefused(old)
        answer = self._ask(SASL_HANDSHAKE, 1, compact_string(mechanism, flexible=False))
        (error,) = answer.unpack(_SHORT)
        if error:
            offered = ", ".join(answer.array(Cursor.text))
            raise ConnectionRefused(f"{self._server} refused {mechanism}: {_login_words(error, offered)}")
        version = min(1, versions[SASL_AUTHENTICATE][1])
        login = self._login_messages(mechanism)
        try:
            message, lifetime = next(login), 0
            while True:
                data, lifetime = self._authenticate(version, message)
                message = login.send(data)
        except StopIteration:
            return time.monotonic() + lifetime / 1000 if lifetime else float("inf")
        except sasl.LoginRefused as refused:
            by_us = isinstance(refused, sasl.Unproven)
            raise ConnectionRefused(self._no_login(str(refused), by_us=by_us)) from None

    def _login_messages(self, mechanism: str) -> sasl.Exchange:
        """What we say to log in.  Raises ConnectionRefused where there is no token to say it with."""
        if mechanism != BEARER:
            return sasl.new_exchange(mechanism, *self._settings.credentials)
        self._tokens = source_of(self._settings.conf)
        assert self._tokens is not None  # noqa: S101  see _unsupported_login
        try:
            self._token = self._tokens.token(max(self._deadline - time.monotonic(), 0.0))
        except NoToken as error:
            raise ConnectionRefused(str(error)) from None
        return sasl.bearer(self._token.value, self._token.extensions)

    def _authenticate(self, version: int, message: bytes) -> tuple[bytes, int]:
        """One message of the login: the broker's, and for how many ms the session holds (0: for ever)."""
        answer = self._ask(SASL_AUTHENTICATE, version, _INT.pack(len(message)) + message)
        (error,) = answer.unpack(_SHORT)
        reason = answer.string().decode(errors="replace")
        if error:
            raise ConnectionRefused(self._no_login(reason or f"Kafka's error {error}"))
        data = answer.blob()
        return data, answer.unpack(_LONG)[0] if version else 0

    def _no_login(self, reason: str, *, by_us: bool = False) -> str:
        if self._tokens is not None and self._token is not None:
            self._tokens.doubt(self._token)
            reason = reason.replace(self._token.value, REDACTED)
            message = self._settings.redacted(f"{self._server} refused the login by {BEARER}: {reason}")
            return f"{message}; see what kafka.sasl.oauthbearer.provider returns, and the broker's log"
        (user, _), mechanism = self._settings.credentials, self._settings.mechanism
        verb = "is not the one to take" if by_us else "refused"
        message = f"{self._server} {verb} the login of {user} by {mechanism}: {self._settings.redacted(reason)}"
        if by_us:
            return f"{message}; see the broker, and who may be between it and us"
        return f"{message}; see kafka.sasl.jaas.config (or kafka.sasl.username, kafka.sasl.password)"

    def _ask(self, key: int, version: int, body: bytes) -> Cursor:
        """Send one request and wait for its answer; that of ApiVersions has the old header in every version (KIP-511)."""
        self._last_id += 1
        request = framed(key, version, self._last_id, self._settings.client_id, body)
        try:
            self._arm().sendall(request)
            (size,) = _INT.unpack(self._receive(4))
            if not 4 <= size <= LARGEST_ANSWER:
                raise self._stranger()
            answer = Cursor(self._receive(size), 0, size, is_flexible(key, version))
        except TimeoutError:
            raise TransportError(f"{self._server} gave no answer in time; {self._doubt()}") from None
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
            raise TransportError(f"{self._server} {_closing_words(error)}; {self._doubt()}") from None
        except ssl.SSLError as error:  # TLS 1.3: that our certificate is missing, a broker says after the handshake
            raise ConnectionRefused(f"{self._server} {_tls_words(error)}") from None
        except OSError as error:
            raise TransportError(f"{self._server} {_closing_words(error)}; {self._doubt()}") from None
        if answer.unpack(_INT) != (self._last_id,):
            raise self._stranger()
        return answer

    def _receive(self, size: int) -> bytearray:
        data = bytearray(size)
        view, received = memoryview(data), 0
        while received < size:
            more = self._arm().recv_into(view[received:])
            if not more:
                raise TransportError(f"{self._server} closed the connection; {self._doubt()}")
            received += more
        return data

    def _stranger(self) -> TransportError:
        return TransportError(f"{self._server} does not speak Kafka's protocol; {self._doubt()}")

    def _hint(self) -> str:
        """Why the broker may hang up on the first request."""
        return "" if self._settings.mechanism else "; it may demand a login: see kafka.security.protocol"

    def _doubt(self) -> str:
        """The likeliest mistake."""
        if not self._settings.is_tls:
            return "is it a TLS port? see kafka.security.protocol"
        return "see kafka.security.protocol and the broker's log"


def _version_range(answer: Cursor) -> tuple[int, tuple[int, int]]:
    key, least, most = answer.unpack(_API_VERSION)
    answer.tags()
    return key, (least, most)
