"""Connections to a broker without librdkafka: every way to be let in, every way to be refused, and peers that lie."""

from __future__ import annotations

import select
import socket
import ssl
import struct
import time
from array import array
from collections.abc import Callable
from fcntl import ioctl
from pathlib import Path
from termios import FIONREAD
from typing import Any

import pytest
from cryptography import x509

from sparkcohort.runtime.shell.kafka.fetch import connection
from sparkcohort.runtime.shell.kafka.fetch.connection import Transport
from sparkcohort.runtime.shell.kafka.fetch.settings import settings_of
from sparkcohort.runtime.shell.options.connection_settings import (
    ConnectionRefused,
    Settings,
    TransportError,
)
from tests.kit.broker import Broker
from tests.kit.certificates import Authority
from tests.kit.peer import peer, reply, request, tell_versions, until_gone
from tests.kit.waiting import wait_until

METADATA = 3
ALICE: dict[str, Any] = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "secret-of-alice"}
BOB: dict[str, Any] = {"sasl.username": "b=o,b", "sasl.password": "secret,of=bob"}
SHA_256, SHA_512 = BOB | {"sasl.mechanism": "SCRAM-SHA-256"}, BOB | {"sasl.mechanism": "SCRAM-SHA-512"}


def ready(connected: Any, what: int) -> bool:
    """Whether a connection can be read or written within 20 s; ``select()`` takes no descriptor above 1,023."""
    waiting = select.poll()
    waiting.register(connected, what)
    return bool(waiting.poll(20_000))


def connect(broker: Broker, listener: str, host: str = "", timeout_s: float = 20, **conf: Any) -> Transport:
    """Connect to a listener, by its own protocol and with its authority unless told otherwise; ``__`` is a dot."""
    protocol = {"MUTUAL": "SSL"}.get(listener, listener)
    given = {"security.protocol": protocol, "ssl.ca.location": str(authority(broker).path)}
    given |= {name.replace("__", "."): value for name, value in conf.items()}
    at, port = broker.at[listener].split(":")
    return connection.connect(host or at, int(port), Settings.parse(settings_of(given)), timeout_s)


def refusal(broker: Broker, listener: str, host: str = "", **conf: Any) -> str:
    """With which words the connection is refused."""
    with pytest.raises(ConnectionRefused) as caught:
        connect(broker, listener, host, **conf)
    return str(caught.value)


def authority(broker: Broker) -> Authority:
    """Who signed the broker's certificate."""
    assert broker.authority is not None
    return broker.authority


def reach(port: int, timeout_s: float = 20, **conf: Any) -> Transport:
    """Connect to a peer."""
    given = {name.replace("__", "."): value for name, value in conf.items()}
    return connection.connect("127.0.0.1", port, Settings.parse(settings_of(given)), timeout_s)


def asked(number: int, *topics: str) -> bytes:
    """A Metadata request, version 1."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    body = struct.pack(">hhihi", METADATA, 1, number, -1, len(topics)) + names
    return struct.pack(">i", len(body)) + body


def answered(connected: Transport, view: memoryview | None = None) -> bytes:
    """Wait for one whole frame; its body."""
    found, view = bytearray(), view or memoryview(bytearray(1 << 16))
    while len(found) < 4 or len(found) < 4 + int.from_bytes(found[:4]):
        taken = connected.recv_into(view)
        found += view[:taken]
        if not taken:
            assert ready(connected, select.POLLIN), "no answer"
    assert len(found) == 4 + int.from_bytes(found[:4])
    return bytes(found[4:])


def greet(connected: Transport) -> None:
    """Exchange a Metadata request: the broker is number 1."""
    try:
        assert connected.versions[METADATA][0] <= 1 <= connected.versions[METADATA][1]
        connected.send(asked(7))
        number, brokers, broker = struct.unpack_from(">iii", answered(connected))
        assert (number, brokers, broker) == (7, 1, 1)
        assert not connected.socket.getblocking()
        assert connected.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    finally:
        connected.close()


@pytest.mark.parametrize(
    ("listener", "login"),
    [
        ("PLAINTEXT", {}),
        ("SSL", {}),
        ("SASL_PLAINTEXT", SHA_512),
        ("SASL_SSL", ALICE),
        ("SASL_SSL", SHA_256),
    ],
)
def test_each_protocol_and_mechanism(guarded: Broker, listener: str, login: dict[str, Any]) -> None:
    """A real broker lets us in, and answers."""
    greet(connect(guarded, listener, **login))


def test_a_certificate_that_is_not_ours_to_have(guarded: Broker, tmp_path: Path) -> None:
    """The broker's listener wants one, of its own authority; TLS 1.2 says so in the handshake, TLS 1.3 after it."""
    stranger = Authority(tmp_path).identity("me")
    strange: dict[str, Any] = {"ssl.certificate.pem": stranger.chain, "ssl.key.pem": stranger.key()}
    for identity in (strange, {}):
        with pytest.raises(TransportError, match=r"demand a certificate|broke the connection|closed the connection"):
            connect(guarded, "MUTUAL", **identity)


def test_a_list_of_revoked_certificates(guarded: Broker, tmp_path: Path) -> None:
    """A broker whose certificate is in it is not trusted; another list takes its place without a restart."""
    host, _, port = guarded.at["SSL"].rpartition(":")
    serial = x509.load_pem_x509_certificate(ssl.get_server_certificate((host, int(port))).encode()).serial_number
    path = tmp_path / "revoked.pem"
    path.write_text(authority(guarded).revoking(serial + 1))
    conf = {"security.protocol": "ssl", "ssl.ca.location": str(authority(guarded).path), "ssl.crl.location": str(path)}
    settings = Settings.parse(conf)
    connection.connect(host, int(port), settings, 20).close()
    path.with_suffix(".new").write_text(authority(guarded).revoking(serial))
    path.with_suffix(".new").rename(path)
    with pytest.raises(ConnectionRefused, match="certificate revoked"):
        connection.connect(host, int(port), settings, 20)


def test_a_broker_that_is_not_trusted(guarded: Broker) -> None:
    """Nobody vouches for its certificate, or it is for another name: refused, unless checking is switched off."""
    words = refusal(guarded, "SSL", ssl__ca__location="")
    assert "not trusted" in words
    assert "kafka.ssl.truststore.location" in words
    words = refusal(guarded, "SSL", "localhost")
    assert "another name" in words
    assert "kafka.ssl.endpoint.identification.algorithm" in words
    greet(connect(guarded, "SSL", "localhost", ssl__endpoint__identification__algorithm="none"))
    greet(connect(guarded, "SSL", "localhost", ssl__ca__location="", enable__ssl__certificate__verification=False))


@pytest.mark.parametrize(("listener", "login"), [("SASL_SSL", ALICE), ("SASL_PLAINTEXT", SHA_512)])
def test_a_wrong_password(guarded: Broker, listener: str, login: dict[str, Any]) -> None:
    """ConnectionRefused, with the user's name and never the password."""
    words = refusal(guarded, listener, **(login | {"sasl.password": "hunter2"}))
    assert f"refused the login of {login['sasl.username']} by {login['sasl.mechanism']}" in words
    assert "kafka.sasl.jaas.config" in words
    assert "hunter2" not in words


def test_a_mechanism_that_is_not_offered(guarded: Broker) -> None:
    """ConnectionRefused with those that are."""
    words = refusal(guarded, "SASL_SSL", **SHA_512)
    assert "refused SCRAM-SHA-512: it offers PLAIN, SCRAM-SHA-256; see kafka.sasl.mechanism" in words


@pytest.mark.parametrize(
    ("listener", "protocol", "words"),
    [
        ("PLAINTEXT", "SASL_PLAINTEXT", "this port takes no login"),
        ("PLAINTEXT", "SSL", "is it a plaintext port"),
        ("SSL", "PLAINTEXT", "is it a TLS port"),
        ("SASL_SSL", "SASL_PLAINTEXT", "is it a TLS port"),
    ],
)
def test_the_wrong_protocol(guarded: Broker, listener: str, protocol: str, words: str) -> None:
    """Each mistake has its own words and names the option."""
    with pytest.raises(TransportError, match=words) as caught:
        connect(guarded, listener, security__protocol=protocol, **ALICE)
    assert "kafka.security.protocol" in str(caught.value)


def test_a_login_that_is_missing(guarded: Broker) -> None:
    """The broker tells its versions to anybody, and hangs up on what comes next."""
    connected = connect(guarded, "SASL_PLAINTEXT", security__protocol="PLAINTEXT")
    connected.send(asked(1))
    with pytest.raises(TransportError, match="it may demand a login: see kafka"):
        answered(connected)
    connected.close()


def test_how_long_a_login_holds(guarded: Broker) -> None:
    """The broker's limit is told (KIP-368); without one it is never over."""
    limited, endless = connect(guarded, "SASL_SSL", **ALICE), connect(guarded, "SASL_SSL", **SHA_256)
    assert 0 < limited.session_ends - time.monotonic() <= 3600
    assert endless.session_ends == float("inf")
    limited.close()
    endless.close()


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SSL"])
def test_nothing_blocks(guarded: Broker, listener: str) -> None:
    """A request bigger than all buffers waits its turn; an answer as big comes whole, through any view."""
    topics = [f"no-such-topic-{number:06}-{'x' * 200}" for number in range(1200)]
    connected = connect(guarded, listener, socket__send__buffer__bytes=8192, socket__keepalive__enable="true")
    assert connected.socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    view = memoryview(bytearray(1 << 18))
    assert connected.recv_into(view) == 0
    guarded.pause()
    try:
        connected.send(asked(1, *topics))
        assert not connected.flush()
    finally:
        guarded.resume()
    while not connected.flush():
        assert ready(connected, select.POLLOUT), "the broker does not read"
    wait_until(lambda: _waiting(connected) > 100_000, 20, "a good part of the answer")
    first = connected.recv_into(view[:65536])
    assert first == 65536  # more than one record of TLS
    rest = bytearray(view[:first])
    while len(rest) < 4 + int.from_bytes(rest[:4]):
        taken = connected.recv_into(view[:1000] if len(rest) < 70_000 else view)
        rest += view[:taken]
        assert taken or ready(connected, select.POLLIN)
    assert [topic for topic in topics if topic.encode() not in rest] == []
    connected.close()


def _waiting(connected: Transport) -> int:
    """How many bytes the system holds for us."""
    held = array("i", [0])
    ioctl(connected.fileno(), FIONREAD, held)
    return held[0]


# --- peers that are no brokers ------------------------------------------------------------------


def _says(data: bytes) -> Callable[[socket.socket], None]:
    def behave(connected: socket.socket) -> None:
        connected.recv(1 << 16)
        connected.sendall(data)
        until_gone(connected)

    return behave


def _hangs_up(data: bytes) -> Callable[[socket.socket], None]:
    def behave(connected: socket.socket) -> None:
        connected.recv(1 << 16)
        connected.sendall(data)

    return behave


FRAME = struct.pack(">ii", 10, 1)


@pytest.mark.parametrize(
    ("behave", "words"),
    [
        (_says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "does not speak Kafka's protocol; is it a TLS port"),
        (_says(b"\x7f\xff\xff\xff"), "does not speak Kafka's protocol"),
        (_says(struct.pack(">iiH", 6, 99, 0)), "does not speak Kafka's protocol; is it"),
        (_says(struct.pack(">ii", 4, 1)), "cut short"),
        (_says(FRAME + b"\0\0\xff\xff\xff\xff"), "cut short"),
        (_says(FRAME + b"\0\0\x02\0\x12\0"), "cut short"),
        (_says(FRAME + b"\0\x2a" + bytes(4)), "Kafka's error 42"),
        (_hangs_up(b""), "closed the connection"),
        (_hangs_up(b"\0\0"), "closed the connection"),
    ],
)
def test_a_peer_that_is_no_broker(behave: Callable[[socket.socket], None], words: str) -> None:
    """Garbage, huge frames, frames cut short, hanging up: each is an error with the address, nothing is allocated."""
    with peer(behave) as port, pytest.raises(TransportError, match=words) as caught:
        reach(port)
    assert not isinstance(caught.value, ConnectionRefused)
    assert f"127.0.0.1:{port}" in str(caught.value)


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_a_peer_that_says_nothing(protocol: str) -> None:
    """The time that was given is all that is waited."""
    began = time.monotonic()
    with peer(until_gone) as port, pytest.raises(TransportError, match=f"127.0.0.1:{port} gave no answer.* in time"):
        reach(port, timeout_s=0.2, security__protocol=protocol)
    assert 0.2 <= time.monotonic() - began < 60


def test_a_peer_of_tls_that_is_none() -> None:
    """One that hangs up, and one that answers in clear."""
    with peer(_hangs_up(b"")) as port, pytest.raises(TransportError, match="closed the connection during the TLS"):
        reach(port, security__protocol="SSL")
    with (
        peer(_says(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as port,
        pytest.raises(ConnectionRefused, match="does not speak TLS"),
    ):
        reach(port, security__protocol="SSL")


def test_nobody_there() -> None:
    """A port that nobody listens on, a name that is none, a family that the address is not of."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(TransportError, match=f"no connection to 127.0.0.1:{port} at 127.0.0.1: Connection refused"):
        reach(port)
    with pytest.raises(TransportError, match="can't be resolved"):
        connection.connect("a" * 64, port, Settings.parse({}), 1)
    for host, number in (("a\0b", port), ("h", 70_000), ("h", -5)):
        with pytest.raises(TransportError, match=r"which is no (host|port): see kafka"):
            connection.connect(host, number, Settings.parse({}), 1)
    with pytest.raises(TransportError, match="can't be resolved"):
        reach(port, broker__address__family="v6")


def test_every_address_of_a_name(guarded: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first address is silent, the second nobody's, the third the broker's: each has its share of the time."""
    port = int(guarded.at["PLAINTEXT"].split(":")[1])
    places = ["127.0.0.3", "127.0.0.2", "127.0.0.1"]

    def found(*_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (place, port)) for place in places]

    monkeypatch.setattr(socket, "getaddrinfo", found)
    with socket.socket() as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        silent.bind((places[0], port))
        silent.listen()
        greet(connection.connect("broker.example.org", port, Settings.parse({}), 3))
        places.pop()
        with pytest.raises(TransportError, match=r"gave no answer in time.*; no connection .* at 127.0.0.2: Conn"):
            connection.connect("broker.example.org", port, Settings.parse({}), 0.2)


def test_a_broker_that_goes_away() -> None:
    """What came before the end is still given; then the end is an error, for him who reads and for him who writes."""

    def behave(connected: socket.socket) -> None:
        tell_versions(connected)
        connected.recv(1)
        connected.sendall(b"half an ans")

    with peer(behave) as port:
        connected = reach(port)
        connected.send(b"?")
        view = memoryview(bytearray(100))
        wait_until(lambda: bytes(view[: connected.recv_into(view)]) == b"half an ans", 10, "what came")
        with pytest.raises(TransportError, match=f"127.0.0.1:{port} closed the connection$"):
            wait_until(lambda: connected.recv_into(view), 10, "the end")
        with pytest.raises(TransportError, match=f"127.0.0.1:{port} broke the connection: "):
            wait_until(lambda: connected.send(b"?"), 10, "an error")
        connected.close()
        with pytest.raises(TransportError):
            connected.recv_into(view)


def _challenged(connected: socket.socket) -> None:
    """A broker that knows no password: it takes any proof, and gives none."""
    tell_versions(connected)
    _, number, _ = request(connected)
    reply(connected, number + struct.pack(">hi", 0, 0))
    _, number, body = request(connected)
    for message in (b"r=" + body.rpartition(b"r=")[2] + b"theirs,s=c2FsdA==,i=4096", b"v=c2FsdA=="):
        reply(connected, number + struct.pack(">hhi", 0, -1, len(message)) + message + bytes(8))
        _, number, _ = request(connected)


def _quoting(connected: socket.socket) -> None:
    """A broker that refuses, with what it was told."""
    tell_versions(connected)
    _, number, _ = request(connected)
    reply(connected, number + struct.pack(">hi", 0, 0))
    _, number, body = request(connected)
    reply(connected, number + struct.pack(">hh", 58, len(body)) + body + struct.pack(">iq", -1, 0))


@pytest.mark.parametrize(
    ("behave", "login", "words"),
    [(_challenged, SHA_256, "signature is wrong"), (_quoting, ALICE, r"alice\\x00\[redacted\]")],
)
def test_a_broker_that_does_not_know_the_password(
    behave: Callable[[socket.socket], None], login: dict[str, Any], words: str
) -> None:
    """SCRAM proves both sides: a broker that can't is refused; and what a broker says is told without our secret."""
    with peer(behave) as port, pytest.raises(ConnectionRefused, match=words) as caught:
        reach(port, security__protocol="SASL_PLAINTEXT", **login)
    assert login["sasl.password"] not in str(caught.value)
