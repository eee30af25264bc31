"""The page, its document and its events, over HTTP on a real port."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sparkcohort.runtime.shell.driver import live_feed
from sparkcohort.runtime.shell.driver.document import Document
from sparkcohort.runtime.shell.driver.live_page import STREAMS
from sparkcohort.runtime.shell.driver.metrics import MetricsEndpoint, _ScrapeHandler
from tests.kit.ports import free_port
from tests.kit.scripted_group import ScriptedGroup
from tests.kit.status import a_status
from tests.kit.waiting import hold_for, wait_until
from tests.shell.cli.test_main import a_run
from tests.unit.driver.test_live_feed import applied

MOST_PAGE_BYTES = 80_000


@contextmanager
def serving(status: Callable[[], dict[str, Any]], address: str = "127.0.0.1") -> Iterator[int]:
    """The port of an endpoint."""
    endpoint = MetricsEndpoint(address, 0, status, rebalance=lambda generation: {"generation": generation})
    endpoint.start()
    try:
        yield endpoint.port
    finally:
        endpoint.close()


def ask(port: int, path: str, method: str = "GET", host: str = "") -> tuple[int, str, str]:
    """Status, text and content security policy of an answer."""
    headers = {"Host": host} if host else {}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310  our own port
            return answer.status, answer.read().decode(), answer.headers["Content-Security-Policy"] or ""
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), ""


class Viewer:
    """One event stream, and the document that it has led to."""

    def __init__(self, port: int, last_id: str = "") -> None:
        """Ask for the stream."""
        self._connection = HTTPConnection("127.0.0.1", port, timeout=20)
        self._connection.request("GET", "/events", headers={"Last-Event-ID": last_id} if last_id else {})
        self.answer = self._connection.getresponse()
        self.document: Any = None
        self.last_id, self.kinds = last_id, list[str]()

    def follow(self) -> str:
        """The next event taken; its kind."""
        fields: dict[str, str] = {}
        while "data" not in fields or fields["data"] is None:
            line = self.answer.readline().decode()
            assert line, "the stream has ended"
            line = line.rstrip("\n")
            if ": " in line:
                name, _, text = line.partition(": ")
                fields[name] = text
        value, kind = json.loads(fields["data"]), fields["event"]
        self.document = value if kind == "document" else applied(self.document, value) if kind == "change" else value
        self.last_id = fields["id"]
        self.kinds.append(kind)
        return kind

    def close(self) -> None:
        """Go away."""
        self.answer.close()
        self._connection.close()


def test_the_page_is_one_document_that_asks_nobody() -> None:
    """Small, with its script and style inside, and a policy that lets nothing else run."""
    with serving(ScriptedGroup(2, 4).status) as port:
        code, text, policy = ask(port, "/")
    assert (code, text[:15]) == (200, "<!doctype html>")
    assert len(text.encode()) <= MOST_PAGE_BYTES
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not [
        word for word in ("http://", "https://", "//", "src=", "@import", "innerHTML", "eval(") if word in strip(text)
    ]


def strip(text: str) -> str:
    """The page without its comments and the name of SVG's namespace."""
    lines = [line.partition("// ")[0] for line in text.splitlines()]
    return "\n".join(lines).replace('"http://www.w3.org/2000/svg"', "").replace("${location.protocol}//", "")


def test_the_document_and_its_schema() -> None:
    """Both are served; the rebalance of a generation, too."""
    with serving(ScriptedGroup(2, 4).status) as port:
        document, schema = (json.loads(ask(port, path)[1]) for path in ("/status.json", "/schema.json"))
        assert json.loads(ask(port, "/rebalances/7")[1]) == {"generation": 7}
        assert [ask(port, path)[0] for path in ("/rebalances/x", "/nothing", "/../etc")] == [404] * 3
    msgspec.convert(document, Document)
    assert set(schema["$defs"]["Document"]["required"]) == set(Document.__annotations__)


@pytest.mark.parametrize("path", ["/", "/status.json", "/events", "/metrics", "/healthz"])
def test_it_is_read_only_and_for_its_own_host(path: str) -> None:
    """No other method; on loopback no name that somebody else's name server can point here."""
    with serving(ScriptedGroup(2, 4).status) as port:
        assert [ask(port, path, method)[0] for method in ("POST", "PUT", "DELETE", "OPTIONS")] == [405] * 4
        assert [ask(port, path, host=name)[0] for name in ("evil.example", "127.0.0.1.evil.example:80", "[::2]")] == [
            403
        ] * 3
        if path != "/events":
            allowed = ("localhost", f"localhost:{port}", "[::1]:80", "127.0.0.1", "a.localhost")
            assert [ask(port, path, host=name)[0] for name in allowed] == [200] * 5
    with serving(ScriptedGroup(2, 4).status, "0.0.0.0") as port:
        assert ask(port, "/healthz", host="driver.example.org")[0] == 200


def test_a_viewer_is_led_to_the_document_and_goes_on_where_it_was() -> None:
    """Whole first, then changes; with its last id also on a new stream; another run's id begins anew."""
    group = ScriptedGroup(3, 12)
    with serving(group.status) as port, closing(Viewer(port)) as viewer:
        viewer.follow()
        group.flow(100)
        group.give([0, 3], "2", "load")
        wait_until(lambda: viewer.follow() and viewer.document["generation"] == 8, 20, "the rebalance")
        assert viewer.kinds == ["document", *["change"] * (len(viewer.kinds) - 1)]
        assert viewer.document["partitions"] == json.loads(json.dumps(group.status()["partitions"]))
        with closing(Viewer(port, viewer.last_id)) as back, closing(Viewer(port, "other.7")) as strange:
            back.document = viewer.document
            assert (back.follow(), strange.follow()) == ("change", "document")
            assert back.document["members"] == strange.document["members"]


def test_ten_viewers_cost_one_rendering_and_none_costs_nothing() -> None:
    """The status is asked for once for all, and not at all when the last viewer has gone."""
    asked, group = [0], ScriptedGroup(2, 4)

    def status() -> dict[str, Any]:
        asked[0] += 1
        return group.status()

    with serving(status) as port:
        with ExitStack() as stack:
            viewers = [stack.enter_context(closing(Viewer(port))) for _ in range(10)]
            for viewer in viewers * 3:
                viewer.follow()
            assert asked[0] <= 5
        wait_until(lambda: still(asked), 20, "the streams to notice")
        hold_for(lambda: still(asked), 1.5, "nobody asks")


def still(asked: list[int]) -> bool:
    """Whether nobody asks for longer than two renderings take."""
    before, deadline = asked[0], time.monotonic() + 1.2
    wait_until(lambda: time.monotonic() > deadline, 5, "two renderings")
    return asked[0] == before


def test_streams_are_few_and_a_slow_viewer_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """One too many is refused and scrapes go on; who doesn't read is not waited for, and gives its place back."""
    monkeypatch.setattr(_ScrapeHandler, "timeout", 1.0)
    few, many, full = ScriptedGroup(1, 1), ScriptedGroup(10, 300), threading.Event()

    def status() -> dict[str, Any]:
        """Of a few bytes, which wait for each viewer in its socket, until all places are taken."""
        if not full.is_set():
            return few.status()
        many.flow(7)
        return many.status()

    with serving(status) as port, ExitStack() as stack:
        for _ in range(STREAMS):
            slow = stack.enter_context(closing(socket.socket()))
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect(("127.0.0.1", port))
            slow.sendall(b"GET /events HTTP/1.0\r\n\r\n")
        wait_until(lambda: not has_place(port), 20, "all places taken")
        monkeypatch.setattr(live_feed, "EVERY_S", 0.05)
        monkeypatch.setattr(live_feed, "SHARE", 1.0)
        full.set()
        assert ask(port, "/healthz")[0] == 200
        # Not once more after one that was let in and has gone: its place is free only when the next event can't be sent.
        with closing(wait_until(lambda: admitted(port), 60, "a place")) as viewer:
            viewer.follow()
            assert viewer.follow() == "change"


def admitted(port: int) -> Viewer | None:
    """One more viewer, where it is let in."""
    viewer = Viewer(port)
    if viewer.answer.status == 200:
        return viewer
    viewer.close()
    return None


def has_place(port: int) -> bool:
    """Whether one more viewer is let in."""
    viewer = admitted(port)
    if viewer is None:
        return False
    viewer.close()
    return True


def test_the_queries_of_this_application_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with the address of its page and how it is; one that does not answer, too.  A host's proxy is not asked.

    A query of another application is a process with another parent.
    """
    monkeypatch.setenv("COHORT_HOME", str(tmp_path))
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("no_proxy", "")
    fenced = a_status(group="orders", fenced=True)
    with serving(ScriptedGroup(2, 4).status) as port, serving(lambda: fenced) as other:
        pages = [f"http://127.0.0.1:{number}/" for number in (port, other, free_port())]
        with (
            a_run("r1", a_status, pages[0]),
            a_run("r2", lambda: fenced, pages[1]),
            a_run("r3", lambda: a_status(group="returns"), pages[2]),
            a_run("r4", lambda: a_status(group="without a page")),
            ExitStack() as stack,
        ):
            with monkeypatch.context() as patch:
                patch.setattr(os, "getpid", os.getppid)
                stack.enter_context(a_run("r5", lambda: a_status(group="of another"), pages[0]))
            rows = json.loads(ask(port, "/queries.json")[1])
    assert [(row["group"], row["page"]) for row in rows] == list(
        zip(("billing", "orders", "returns"), pages, strict=True)
    )
    assert [row["health"] for row in rows[:2]] == ["ok", "a newer driver has taken the group over"]
    assert rows[2]["health"].startswith("no answer: ")


def test_the_end_is_told() -> None:
    """A query that is ending ends its streams; a coordinator that does not answer is told of, and waited for."""
    group, answers = ScriptedGroup(2, 4), threading.Event()
    answers.set()

    def status() -> dict[str, Any]:
        if not answers.is_set():
            raise TimeoutError("no answer within 5 s")
        return group.status()

    with serving(status) as port, closing(Viewer(port)) as viewer:
        viewer.follow()
        answers.clear()
        wait_until(lambda: viewer.follow() == "failed", 20, "the failure")
        assert viewer.document == "no answer within 5 s"
        answers.set()
        with closing(Viewer(port)) as other:
            assert other.follow() == "document"
        group.status = dict  # type: ignore[method-assign]
        wait_until(lambda: viewer.follow() == "failed" and viewer.document == "the query is ending", 20, "the end")
        assert viewer.answer.read().strip() == b""
