"""The group's port: who is let in, what is answered, what is pushed."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from sparkcohort.runtime.shell.flight import CoordinatorRefused, CoordinatorUnreachable, EventQueue, GroupServer, Link
from sparkcohort.runtime.shell.tls import Credentials, RunAuthority, new_authority
from tests.support.waiting import wait_until


class Served:
    """A server with an echo and one event queue."""

    def __init__(self) -> None:
        self.authority: RunAuthority = new_authority()
        self.events: EventQueue = queue.SimpleQueue()
        self.unsubscribed = threading.Event()
        self.server = GroupServer(
            self.authority,
            {"Echo": lambda body: body, "Fail": self._fail},
            lambda _: self.events,
            lambda _: self.unsubscribed.set(),
            host="127.0.0.1",
        )
        self.server.start()

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


def test_a_member_of_the_run_is_answered(served: Served) -> None:
    """With the run's certificate and token a call returns its answer."""
    link = served.link()

    assert link.call("Echo", b"hello", 5) == b"hello"
    link.close()


def test_a_certificate_of_another_run_stops_at_the_handshake(served: Served) -> None:
    """A client of another authority gets no connection, whatever its token."""
    stranger = replace(new_authority().client, token=served.authority.client.token)

    with pytest.raises(CoordinatorUnreachable):
        served.link(stranger).call("Echo", b"", 5)


def test_a_certificate_of_another_run_with_the_right_authority_is_refused(served: Served) -> None:
    """Knowing the authority is not enough: the client's own certificate has to be of the run."""
    other = new_authority().client
    mixed = replace(served.authority.client, certificate=other.certificate, key=other.key)

    with pytest.raises(CoordinatorUnreachable):
        served.link(mixed).call("Echo", b"", 5)


def test_a_wrong_token_is_refused(served: Served) -> None:
    """A right certificate with the token of another run is refused by name, without showing a token."""
    wrong = replace(served.authority.client, token="0" * 64)

    with pytest.raises(CoordinatorRefused, match="another coordinator run") as refused:
        served.link(wrong).call("Echo", b"", 5)

    assert served.authority.client.token not in str(refused.value)


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


def test_a_gone_server_is_unreachable(served: Served) -> None:
    """Calls to a port that nobody serves any more say so."""
    link = served.link()
    link.call("Echo", b"", 5)
    served.server.stop(5)

    with pytest.raises(CoordinatorUnreachable):
        link.call("Echo", b"", 2)


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
