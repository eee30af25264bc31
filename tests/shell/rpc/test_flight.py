"""The group's port: who is let in, what is answered, what is pushed."""

from __future__ import annotations

import datetime as dt
import queue
import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from inspect import getsource
from pathlib import Path

import pytest
from pyarrow import flight

from sparkcohort.runtime.shell.agent import member_reports
from sparkcohort.runtime.shell.rpc.certificates import new_authority
from sparkcohort.runtime.shell.rpc.flight import (
    REPORTS,
    CoordinatorRefused,
    CoordinatorUnreachable,
    EventQueue,
    GroupServer,
    Link,
    _RequestStream,
)
from sparkcohort.runtime.shell.rpc.tls import SERVER_NAME, Credentials, RunAuthority
from tests.kit.certificates import Authority
from tests.kit.proxy import SilentProxy
from tests.kit.relay import Relay
from tests.kit.waiting import wait_until


class Served:
    """A server with an echo and one event queue."""

    def __init__(self, authority: RunAuthority | None = None, host: str = "127.0.0.1") -> None:
        self.authority: RunAuthority = authority or new_authority()
        self.events: EventQueue = queue.SimpleQueue()
        self.unsubscribed = threading.Event()
        self.released = threading.Event()
        self.threads: set[int] = set()
        self.server = GroupServer(
            self.authority,
            {
                **dict.fromkeys(("Echo", "JoinGroup", "SyncGroup"), lambda body: body),
                **dict.fromkeys(("Fail", "OffsetCommit"), self._fail),
                **dict.fromkeys(("Heartbeat", *REPORTS), self._beat),
            },
            lambda _: self.events,
            lambda _: self.unsubscribed.set(),
            host=host,
        )

    def _beat(self, body: bytes) -> bytes:
        if body == b"hold":
            self.released.wait(20)
        self.threads.add(threading.get_ident())
        return body

    @staticmethod
    def _fail(body: bytes) -> bytes:
        raise ValueError(f"cannot read {body!r}")

    def link(self, credentials: Credentials | None = None) -> Link:
        """A client with the run's credentials, or with others."""
        return Link("127.0.0.1", self.server.port, credentials or self.authority.client)


@pytest.fixture
def served() -> Iterator[Served]:
    """A server that is stopped at the end."""
    running = Served()
    yield running
    running.events.put(None)
    running.server.stop(5)


@pytest.fixture
def served_everywhere() -> Iterator[Served]:
    """One that listens as a driver's does."""
    running = Served(host="0.0.0.0")
    yield running
    running.events.put(None)
    running.server.stop(5)


def test_a_member_of_the_run_is_answered(served: Served) -> None:
    """With the run's certificate and token a call returns its answer."""
    link = served.link()

    assert link.call("Echo", b"hello", 5) == b"hello"
    link.close()


@pytest.mark.parametrize("kept", [("token",), ("token", "authority")])
def test_a_certificate_of_another_run_stops_at_the_handshake(served: Served, kept: tuple[str, ...]) -> None:
    """Whatever else is of this run: the token, and the authority."""
    stranger = replace(new_authority().client, **{name: getattr(served.authority.client, name) for name in kept})

    with pytest.raises(CoordinatorUnreachable):
        served.link(stranger).call("Echo", b"", 5)


def test_a_wrong_token_is_refused(served: Served) -> None:
    """A right certificate with the token of another run is refused by name, without showing a token."""
    wrong = replace(served.authority.client, token="0" * 64)

    with pytest.raises(CoordinatorRefused, match="another coordinator run") as refused:
        served.link(wrong).call("Echo", b"", 5)

    assert served.authority.client.token not in str(refused.value)


def _ask(served: Served, token: str | None, **tls: object) -> None:
    """One call by hand, with whatever a stranger has."""
    headers = [] if token is None else [(b"authorization", token.encode())]
    client = flight.FlightClient(
        f"grpc+tls://127.0.0.1:{served.server.port}",
        tls_root_certs=served.authority.client.authority,
        override_hostname=SERVER_NAME,
        **tls,
    )
    with client:
        list(client.do_action(flight.Action("Echo", b""), flight.FlightCallOptions(timeout=5, headers=headers)))


@pytest.mark.parametrize("certificate", ["none", "expired", "not yet valid"])
def test_no_valid_certificate_no_handshake(certificate: str, tmp_path: Path) -> None:
    """Whoever has none, or one of this run's authority whose time is over or to come, is not connected, whatever its token."""
    authority = Authority(tmp_path)
    server = authority.identity(SERVER_NAME)
    hour, now = dt.timedelta(hours=1), dt.datetime.now(dt.UTC)
    ends = now - hour if certificate == "expired" else now + 2 * hour
    begins = now + hour if certificate == "not yet valid" else now - 2 * hour
    client = authority.identity("member", begins=begins, ends=ends)
    credentials = Credentials(authority.pem.encode(), client.chain.encode(), client.key().encode(), "a-token")
    served = Served(RunAuthority(server.chain.encode(), server.key().encode(), credentials))
    shown = {} if certificate == "none" else {"cert_chain": credentials.certificate, "private_key": credentials.key}
    good = authority.identity("member")
    try:
        _ask(served, "Bearer a-token", cert_chain=good.chain.encode(), private_key=good.key().encode())
        with pytest.raises(flight.FlightUnavailableError):
            _ask(served, "Bearer a-token", **shown)
    finally:
        served.server.stop(5)


@pytest.mark.parametrize("token", [None, "", "Bearer", "Bearer ", "bearer {}", "{}", "Basic {}", "Bearer {}x"])
def test_no_token_no_answer(served: Served, token: str | None) -> None:
    """A right certificate is not enough: the header has to be there, and to be this run's to the letter."""
    own = served.authority.client
    said = None if token is None else token.format(own.token)

    with pytest.raises(flight.FlightUnauthenticatedError) as refused:
        _ask(served, said, cert_chain=own.certificate, private_key=own.key)

    assert own.token not in str(refused.value)


def test_an_unknown_request_and_a_failing_handler_are_refusals(served: Served) -> None:
    """The caller gets an error, the server goes on serving."""
    link = served.link()

    for action in ("Nothing", "Fail"):
        with pytest.raises(CoordinatorRefused):
            link.call(action, b"x", 5)
    assert link.call("Echo", b"still here", 5) == b"still here"
    link.close()


def test_events_are_pushed_until_the_stream_ends(served: Served) -> None:
    """What is put into the queue arrives at the listener; the end of the queue ends the stream."""
    for event in (b"one", b"two", None):
        served.events.put(event)

    assert list(served.link().events(b"me")) == [b"one", b"two"]
    wait_until(served.unsubscribed.is_set, 5, "the stream to be forgotten")


def test_a_silent_event_stream_ends_when_its_reader_closes(served: Served) -> None:
    """From another thread, while nothing comes: neither end waits for the other, or for a sign of life."""
    link = served.link()
    heard: list[bytes] = []

    def listen() -> None:
        with suppress(CoordinatorUnreachable):
            heard.extend(link.events(b"me"))

    listener = threading.Thread(target=listen)
    listener.start()
    wait_until(lambda: link._events is not None, 10, "the stream")
    link.close()
    listener.join(10)
    assert not listener.is_alive() and not heard


def test_heartbeats_share_one_stream(served: Served) -> None:
    """One thread of the server answers them all: it serves their stream."""
    link = served.link()
    link.call("Heartbeat", b"first", 5)
    served.threads.clear()

    assert [link.call("Heartbeat", b"%d" % number, 5) for number in range(20)] == [b"%d" % n for n in range(20)]
    assert len(served.threads) == 1
    link.close()


def test_a_refusal_ends_the_stream_and_no_more(served: Served) -> None:
    """What a handler refuses on the stream is a refusal with its words; the next request is answered again."""
    link = served.link()

    for _ in range(3):
        assert link.call("Heartbeat", b"x", 5) == b"x"
        with pytest.raises(CoordinatorRefused, match="cannot read b'y'"):
            link.call("OffsetCommit", b"y", 5)
    link.close()


def test_a_stream_without_an_answer_is_given_up(served: Served) -> None:
    """A server that is stuck is unreachable within the time given, and its late answer is nobody else's."""
    link = served.link()
    assert link.call("Heartbeat", b"first", 5) == b"first"

    with pytest.raises(CoordinatorUnreachable):
        link.call("Heartbeat", b"hold", 0.2)
    served.released.set()
    assert [link.call("Heartbeat", body, 5) for body in (b"one", b"two")] == [b"one", b"two"]
    link.close()


def test_a_second_caller_does_not_wait_for_the_stream(served: Served) -> None:
    """While one request on the stream is unanswered, another has a stream of its own."""
    link = served.link()
    assert link.call("Heartbeat", b"first", 5) == b"first"
    held: list[bytes] = []
    caller = threading.Thread(target=lambda: held.append(link.call("Heartbeat", b"hold", 20)))
    caller.start()
    wait_until(lambda: link._idle is None, 5, "the stream to be taken")

    assert link.call("Heartbeat", b"other", 5) == b"other"
    served.released.set()
    caller.join(10)
    assert held == [b"hold"]
    link.close()


def test_a_stream_of_strangers_is_refused(served: Served) -> None:
    """A stream asks for the same certificate and token as a call, and for requests that there are."""
    wrong = replace(served.authority.client, token="0" * 64)
    for link, action in ((served.link(wrong), "Heartbeat"), (served.link(), "Nothing")):
        line = _RequestStream(link._client, link._headers)
        with pytest.raises(flight.FlightError, match=r"another coordinator run|no such request"):
            line.ask(action, b"", 5)


def test_a_stream_that_was_closed_says_so_at_once(served: Served) -> None:
    """Whoever has just taken it to ask does not wait for an answer that nobody will give."""
    link = served.link()
    line = _RequestStream(link._client, link._headers)
    line.close()
    with pytest.raises(flight.FlightCancelledError):
        line.ask("Echo", b"", 60)
    link.close()


def test_a_connection_that_brings_no_answer_is_left(served: Served) -> None:
    """After a cut the next call goes by another connection, and so does the event stream: the old one is not waited for."""
    relay = Relay("127.0.0.1", served.server.port)
    link, heard = Link("127.0.0.1", relay.port, served.authority.client), queue.SimpleQueue[bytes]()

    def listen() -> None:
        for _ in range(2):
            with suppress(CoordinatorUnreachable):
                for event in link.events(b"me"):
                    heard.put(event)

    def hears_more() -> bool:
        served.events.put(b"more")  # the server doesn't know yet that the old stream is over: some go there
        with suppress(queue.Empty):
            return heard.get(timeout=0.2) == b"more"
        return False

    listening = threading.Thread(target=listen, daemon=True)
    try:
        for action in ("Heartbeat", "Echo"):  # by the open stream of requests, and by a call of its own
            assert link.call(action, b"before", 20) == b"before"
            relay.strand()
            with pytest.raises(CoordinatorUnreachable):
                link.call(action, b"swallowed", 0.5)
            assert link.call(action, b"after", 20) == b"after"
        listening.start()
        wait_until(hears_more, 20, "the first event")
        relay.strand()
        with pytest.raises(CoordinatorUnreachable):
            link.call("Echo", b"swallowed", 0.5)
        while not heard.empty():
            heard.get()
        wait_until(hears_more, 20, "an event by another connection")
    finally:
        link.close()
        relay.close()
    listening.join(20)
    assert not listening.is_alive()


@pytest.mark.parametrize("action", ["Heartbeat", "JoinGroup", "SyncGroup"])
def test_what_waits_on_a_connection_that_is_left_waits_no_longer(served: Served, action: str) -> None:
    """However long it might take: whoever asked asks again, by the next connection, which nobody gives up for the first."""
    relay = Relay("127.0.0.1", served.server.port)
    link, ended = Link("127.0.0.1", relay.port, served.authority.client), threading.Event()

    def ask() -> None:
        with pytest.raises(CoordinatorUnreachable):
            link.call(action, b"swallowed", 300)
        ended.set()

    try:
        assert link.call(action, b"before", 20) == b"before"
        relay.strand()
        waiting = threading.Thread(target=ask, daemon=True)
        waiting.start()
        wait_until(lambda: link._idle is None, 20, "the request to be on its way")
        with pytest.raises(CoordinatorUnreachable):
            link.call("Echo", b"swallowed", 0.5)
        wait_until(ended.is_set, 20, "the end of the other")
        assert link.call(action, b"after", 20) == b"after"
        assert relay.accepted == 2
    finally:
        link.close()
        relay.close()
    waiting.join(20)


def test_a_connection_that_is_left_is_closed(served: Served) -> None:
    """The stream of requests goes on by the new one at once, and a member has one connection again."""
    relay = Relay("127.0.0.1", served.server.port)
    link = Link("127.0.0.1", relay.port, served.authority.client)
    try:
        assert link.call("Heartbeat", b"before", 20) == b"before"
        relay.strand()
        with pytest.raises(CoordinatorUnreachable):
            link.call("Echo", b"swallowed", 0.5)
        for _ in range(2):
            assert link.call("Heartbeat", b"after", 20) == b"after"
        wait_until(lambda: len(relay._open) == 2, 20, "the first connection's end")  # both ends of the other one
        assert relay.accepted == 2
    finally:
        link.close()
        relay.close()


def test_no_connection_is_left_for_a_report(served: Served) -> None:
    """A driver that stands still for a moment would have all its members dial anew, as often as they report."""
    relay = Relay("127.0.0.1", served.server.port)
    link = Link("127.0.0.1", relay.port, served.authority.client)
    try:
        for report in sorted(REPORTS):
            with pytest.raises(CoordinatorUnreachable):
                link.call(report, b"hold", 0.2)
        served.released.set()
        assert link.call("Echo", b"after", 20) == b"after"
        assert relay.accepted == 1
    finally:
        link.close()
        relay.close()


def test_what_members_report_is_known_as_reports() -> None:
    """By name: whoever adds one is told here."""
    source = getsource(member_reports)
    names = {*re.findall(r"_submit\(calls\.(\w+)", source), *re.findall(r'(?:link\.call\(|_call, )"(\w+)"', source)}
    assert names | {"Delivered", "PartitionLoads"} == REPORTS


def test_a_gone_server_is_unreachable(served: Served) -> None:
    """Calls to a port that nobody serves any more say so."""
    link = served.link()
    link.call("Echo", b"", 5)
    served.server.stop(5)

    with pytest.raises(CoordinatorUnreachable):
        link.call("Echo", b"", 2)


@pytest.mark.parametrize("host", ["::1", "[::1]", "localhost"])
def test_hosts_as_spark_and_people_write_them(served_everywhere: Served, host: str) -> None:
    """Spark's driver host has brackets where it is an IPv6 address; the server listens on both families."""
    link = Link(host, served_everywhere.server.port, served_everywhere.authority.client)

    assert link.call("Echo", b"hello", 5) == b"hello"
    assert link.address == f"{host if host != '::1' else '[::1]'}:{served_everywhere.server.port}"
    link.close()


@pytest.mark.parametrize("host", ["fe80::1%eth0", "driver.example.org:7077", "http://driver", "a b", "[::1]]", ""])
def test_what_is_no_host_is_unreachable(served: Served, host: str) -> None:
    """An address that can't be dialled is named as such, not with an error of Arrow's about a URI."""
    with pytest.raises(CoordinatorUnreachable, match=r"no name or address|no answer"):
        Link(host, served.server.port, served.authority.client).call("Echo", b"", 5)


def test_calls_go_past_any_proxy(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the environment has for web sites is not for the group: a call is answered and the proxy not asked."""
    with SilentProxy() as proxy:
        for name, url in proxy.environment().items():
            monkeypatch.setenv(name, url)
        link = served.link()

        assert link.call("Echo", b"hello", 10) == b"hello"
        assert link.call("Heartbeat", b"there", 10) == b"there"
        assert not proxy.was_asked()
        link.close()


def test_a_port_in_use_is_said_to_be(served: Served) -> None:
    """A second server on one port is an OSError that names the address."""
    with pytest.raises(OSError, match=f"{served.server.port}.*in use"):
        GroupServer(new_authority(), {}, lambda _: served.events, lambda _: None, port=served.server.port)


def test_secrets_do_not_show() -> None:
    """Neither token nor key appears in the text of an authority or of credentials."""
    authority = new_authority()
    shown = repr(authority) + repr(authority.client)

    assert authority.client.token not in shown
    assert "PRIVATE KEY" not in shown
