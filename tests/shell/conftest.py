"""What all tests of the shell share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sparkcohort.runtime.shell.rpc.flight import Link
from tests.kit.record_sources import SOURCES, read_by


@pytest.fixture(autouse=True)
def ended_streams(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ends the open streams of the test's own Links: a server in this process can't end before its clients' streams do."""
    made: list[Link] = []
    whole = Link.__init__

    def noted(link: Link, *arguments: Any) -> None:
        whole(link, *arguments)
        made.append(link)

    monkeypatch.setattr(Link, "__init__", noted)
    yield
    for link in made:
        for stream in list(link._streams):
            stream.close()


@pytest.fixture(params=SOURCES)
def each_source(request: pytest.FixtureRequest) -> Iterator[str]:
    """The test once with the native source and once with the one in Python; without this fixture it has the native one."""
    with read_by(request.param):
        yield request.param
