"""Fixtures of the end-to-end tests.

``spark``       one session in this process for all tests that need no driver of their own
``application`` one driver process with three executors to kill, for all tests that need real ones; Spark's own source is there
``other``       another application, on two cores
``listener``    tells the Kafka groups of all queries of that session which batches Spark has committed
``sparks_checkpoint_files``  the files of checkpoints written as Spark writes them by default
``checkpoint``  a folder for this test's checkpoint
``port``        a port that nobody listens on
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparkcohort import ProgressListener
from tests.kit.application import Application
from tests.kit.faults import Faults
from tests.kit.jars import reader_jar
from tests.kit.ports import free_port
from tests.kit.tier import is_thorough


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that is marked ``both_readers`` runs once with each, where both are there."""
    if is_thorough() and reader_jar() and metafunc.definition.get_closest_marker("both_readers"):
        metafunc.fixturenames.append("reader")
        metafunc.parametrize("reader", ("jvm", "python"), indirect=True)


@pytest.fixture
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader of this test's queries."""
    from tests.kit import streams

    monkeypatch.setitem(streams.READER, "reader", request.param)


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The shared session, with ``format("cohort")`` installed and ``format("kafka")`` on its class path.

    It ends with the last file of this folder that the worker has: other tests need its CPU and memory.
    """
    from tests.kit import streams  # not before pytest knows the tier

    with streams.session(tmp_path_factory.mktemp("spark")) as running:
        yield running


@pytest.fixture
def sparks_checkpoint_files(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test whose subject is the files of a checkpoint: the shared session writes them as Spark does by default."""
    if "spark" not in request.fixturenames:
        yield
        return
    from tests.kit import streams

    with streams.sparks_checkpoint_files(request.getfixturevalue("spark")):
        yield


@pytest.fixture
def listener(spark: SparkSession) -> Iterator[ProgressListener]:
    """A listener for all queries of the session."""
    listens = ProgressListener()
    spark.streams.addListener(listens)
    yield listens
    spark.streams.removeListener(listens)
    listens.close()


@pytest.fixture(scope="package")
def _application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """The shared application, for as long as there are tests of this folder."""
    faults = Faults(tmp_path_factory.mktemp("faults"))
    # No job before all executors are there: the first batch is what brings the agents up.
    conf = {"spark.scheduler.minRegisteredResourcesRatio": "1.0"}
    folder = tmp_path_factory.mktemp("application") / "app"
    with Application(
        folder, master="local-cluster[3,1,1024]", conf=conf, env=faults.environment(), kafka=True
    ) as running:
        running.faults = faults
        yield running
    assert running.driver.left == []


@pytest.fixture
def application(_application: Application) -> Iterator[Application]:
    """The shared application; what a test kills in it is replaced, a query that the test leaves is stopped."""
    yield _application
    _application.stop_all()


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """Another Spark application, with a driver of its own."""
    with Application(tmp_path_factory.mktemp("other") / "app", master="local[2]") as running:
        yield running


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint location that is not there yet."""
    return tmp_path / "checkpoint"


@pytest.fixture
def port() -> int:
    """A port that nobody uses."""
    return free_port()
