"""What all tests of the shell share."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkcohort.runtime.batches import hold, range_progress, suspected_loss
from sparkcohort.runtime.shell.rpc.flight import Link
from tests.kit.agents import World
from tests.kit.mock import MockCluster
from tests.kit.record_sources import SOURCES, read_by
from tests.kit.spark_avro import SparkAvro

KIT = Path(__file__).parents[1] / "kit"


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


@pytest.fixture
def world(mock_broker: MockCluster) -> Iterator[World]:
    """A running coordinator over a mock broker with records, in whose group real agents are."""
    running = World(mock_broker)
    yield running
    running.close()


@pytest.fixture(scope="session")
def sparks() -> Iterator[SparkAvro]:
    """Spark's own readers of Avro and JSON, in a JVM of their own."""
    with SparkAvro() as running:
        yield running


@pytest.fixture(scope="session")
def short_of_memory(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that calls ``fail_large`` to have its next large allocations fail (``short_of_memory.c``)."""
    shim, code = tmp_path_factory.mktemp("shim") / "short_of_memory.so", KIT / "short_of_memory.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", shim, code], check=True, timeout=60)
    return {"LD_PRELOAD": str(shim)}


@pytest.fixture
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """One broker is behind no other: what it says of a log is believed after half a second."""
    monkeypatch.setattr(suspected_loss, "LAG_S", 0.5)
    monkeypatch.setattr(hold, "LAG_S", 0.5)
    monkeypatch.setattr(range_progress, "RECHECK_S", 0.1)


@pytest.fixture(params=SOURCES)
def each_source(request: pytest.FixtureRequest) -> Iterator[str]:
    """The test once with our own client and once with confluent-kafka's consumer; without this fixture it has ours."""
    with read_by(request.param):
        yield request.param
