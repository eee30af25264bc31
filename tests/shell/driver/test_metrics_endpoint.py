"""The metrics endpoint on a real port."""

from __future__ import annotations

import socket
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.driver import metrics
from sparkcohort.runtime.shell.driver.live_page import MOST
from sparkcohort.runtime.shell.driver.metric_specs import METRICS
from sparkcohort.runtime.shell.driver.metrics import MetricsEndpoint
from tests.kit.status import a_status
from tests.kit.waiting import hold_for, wait_until


@contextmanager
def serving(status: Callable[[], dict[str, Any]], address: str = "127.0.0.1") -> Iterator[MetricsEndpoint]:
    """An endpoint on a free port."""
    endpoint = MetricsEndpoint(address, 0, status)
    endpoint.start()
    try:
        yield endpoint
    finally:
        endpoint.close()


def scrape(endpoint: MetricsEndpoint, host: str = "127.0.0.1") -> str:
    """The text of one scrape."""
    with urllib.request.urlopen(f"http://{host}:{endpoint.port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def test_a_scrape_serves_every_metric_of_the_table() -> None:
    """All metrics of the table arrive over HTTP, and no others."""
    with serving(a_status) as endpoint:
        families = list(text_string_to_metric_families(scrape(endpoint)))
    said = {family.name + ("_total" if family.type == "counter" else "") for family in families}
    assert said == {spec.name for spec in METRICS}


def test_every_scrape_asks_anew() -> None:
    """A second scrape shows what changed in between."""
    generations = iter([7, 8])
    with serving(lambda: a_status(generation=next(generations))) as endpoint:
        assert 'cohort_group_generation{group="billing"} 7.0' in scrape(endpoint)
        assert 'cohort_group_generation{group="billing"} 8.0' in scrape(endpoint)


def test_a_coordinator_that_does_not_answer_is_down() -> None:
    """A failing status is a scrape with cohort_up 0, not a broken one."""
    answers = iter([a_status(), None])

    def status() -> dict[str, Any]:
        answer = next(answers)
        if answer is None:
            raise TimeoutError
        return answer

    with serving(status) as endpoint:
        scrape(endpoint)
        text = scrape(endpoint)
    assert 'cohort_up{group="billing"} 0.0' in text
    assert "cohort_group_generation" not in text


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (a_status(), 200, "ok"),
        (a_status(fenced=True), 503, "a newer driver has taken the group over"),
        ({}, 503, "the query is ending"),
        (TimeoutError("5 s"), 503, "the coordinator does not answer: 5 s"),
    ],
)
def test_health_is_a_word_and_a_code(answer: Any, code: int, words: str) -> None:
    """What a load balancer or a Kubernetes probe asks for."""

    def status() -> dict[str, Any]:
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)

    with serving(status) as endpoint:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}/healthz", timeout=10) as found:
                seen = found.status, found.read()
        except urllib.error.HTTPError as error:
            seen = error.code, error.read()
    assert seen == (code, f"{words}\n".encode())


def test_a_port_in_use_is_one_error() -> None:
    """The error names the option, the port, and what to do."""
    with (
        serving(a_status) as first,
        pytest.raises(CohortError, match=rf"metrics.port={first.port}: the port is in use .* a port of its own"),
    ):
        MetricsEndpoint("127.0.0.1", first.port, a_status).start()


@pytest.mark.parametrize("address", ["203.0.113.77", "no such host", "a..b"])
def test_an_address_that_is_not_ours_is_one_error(address: str) -> None:
    """The error names metrics.address."""
    with pytest.raises(CohortError, match=r"metrics\.address=.*127\.0\.0\.1"):
        MetricsEndpoint(address, 0, a_status).start()


def test_the_port_is_loopback_only_unless_asked() -> None:
    """The socket is bound to the address that was given and no other."""
    with serving(a_status) as endpoint, closing(socket.socket()) as other:
        other.bind(("127.0.0.2", endpoint.port))  # would fail if the endpoint held all addresses


def test_an_ipv6_address_works() -> None:
    """::1 is an address like any other."""
    with serving(a_status, "::1") as endpoint:
        assert "cohort_up" in scrape(endpoint, "[::1]")


def test_close_gives_the_port_back() -> None:
    """After close the port can be taken, and close can be repeated."""
    with serving(a_status) as endpoint:
        port = endpoint.port
        scrape(endpoint)
    endpoint.close()
    again = MetricsEndpoint("127.0.0.1", port, a_status)
    again.start()
    again.close()


@pytest.mark.parametrize(
    "said", [b"", b"GET /met", b"GET /metrics HTTP/1.1\r\nHost: x\r\n"], ids=["nothing", "half", "no end"]
)
def test_silent_clients_hold_nobody_up(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scrape beside them is answered, and their threads end after a while."""
    monkeypatch.setattr(metrics._ScrapeHandler, "timeout", 1.0)
    before = threading.active_count()
    with serving(a_status) as endpoint, ExitStack() as stack:
        for _ in range(MOST - 1):
            silent = stack.enter_context(socket.create_connection(("127.0.0.1", endpoint.port), 10))
            silent.sendall(said)
        assert "cohort_up" in scrape(endpoint)
        wait_until(lambda: threading.active_count() <= before + 1, 10, "their threads to end")


def test_scrapes_that_the_coordinator_keeps_waiting_are_few() -> None:
    """What can't be ended is bounded, and a close does not wait for it."""
    go, asked = threading.Event(), Counter[str]()

    def status() -> dict[str, Any]:
        asked["scrapes"] += 1
        go.wait(30)
        return a_status()

    with serving(status) as endpoint, ExitStack() as stack:
        for _ in range(3 * MOST):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", endpoint.port), 10))
            with suppress(ConnectionError):  # one too many
                client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        wait_until(lambda: asked["scrapes"], 10, "a scrape")
        hold_for(lambda: asked["scrapes"] <= MOST, 0.5, "no more than there is room for")
        go.set()
        wait_until(lambda: answered(endpoint), 10, "room again")


def answered(endpoint: MetricsEndpoint) -> bool:
    """Whether a scrape is answered."""
    try:
        return "cohort_up" in scrape(endpoint)
    except OSError:
        return False
