"""Fixtures that all tests share.

``broker``       one real broker for the whole session, started when first asked for
``mock_broker``  librdkafka's mock cluster, one per test
``topic``        a topic name that no other test uses
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How long one example takes is the machine's business: a law does not fail because another process is busy.
settings.register_profile("cohort", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("cohort")

ROOT = Path(__file__).resolve().parents[1]
# pytest puts the tree first on the path, for `tests.kit`.  There it would shadow the installed wheel's
# pyspark_cohort, and what ships is what is tested: so it goes last.
sys.path[:] = [entry for entry in sys.path if entry and Path(entry).resolve() != ROOT] + [str(ROOT)]

from tests.kit.broker import Broker  # noqa: E402  after the path is right
from tests.kit.mock import MockCluster  # noqa: E402  after the path is right
from tests.kit.processes import MARK  # noqa: E402  after the path is right

# pytest-timeout's thread needs the interpreter's lock, which some of librdkafka's bindings keep while they wait
# (``Consumer.assignment``): without this, such a test would hang for good, and nothing would tell which.
BEYOND_S = 60
ERRORS = pytest.StashKey[int]()

# The files that take more than half a minute, the longest first (``--durations=0``): what is short comes last, and so all
# workers end together.
LONG = """clusters interpreters scenarios either_way parity brokers switching dynamic_allocation tokens stateful restarts submit
    async_progress network oldest batch_reads executors fail_over exclusivity client checkpoint_repair semantics thread_faults agents
    columns connect range_reader_broker trickle broker assignors coordinator_down odd_data leftovers metrics_endpoint
    kafka_membership_faults certificates errors isolation delegation_tokens batch_refusals sources cut_off handover reset_offsets
    wheels_that_ship checkpoints driver sanitized logins typed_values metrics prefetch""".split()  # noqa: SIM905  a word a line else


def pytest_configure(config: pytest.Config) -> None:
    """Keep where errors go before tests' output is captured, and mark what a worker of pytest-xdist will start."""
    config.stash[ERRORS] = os.dup(2)
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is not None:
        os.environ[MARK] = f"{worker}-{os.getpid()}"


def turns(files: Iterable[Path]) -> dict[Path, float]:
    """Where each file stands from 0 to 1: those of Spark, which want the CPU, and those of the shell, which wait, take turns."""
    places: dict[Path, float] = {}
    for part in ("e2e", "shell"):
        mine = [path for path in files if path.is_relative_to(ROOT / "tests" / part)]
        mine.sort(key=lambda path: LONG.index(name) if (name := path.stem.removeprefix("test_")) in LONG else len(LONG))
        places |= {path: number / len(mine) for number, path in enumerate(mine)}
    return places


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order of the files; within a file it stays."""
    places = turns(list(dict.fromkeys(item.path for item in items)))
    items.sort(key=lambda item: places.get(item.path, 0.0))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A minute after pytest-timeout should have, a watchdog in C prints where every thread is and ends the run."""
    mark = item.get_closest_marker("timeout")
    limit_s = float(mark.args[0] if mark and mark.args else item.config.getini("timeout"))
    faulthandler.dump_traceback_later(limit_s + BEYOND_S, exit=True, file=item.config.stash[ERRORS])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that fails tells what the session's broker had to say, whose folder is gone at the end."""
    report = yield
    shared = getattr(item, "funcargs", {}).get("broker")
    if report.failed and isinstance(shared, Broker):
        report.sections.append(("the end of the broker's log", shared.nodes[0].log_tail()))
    return report


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """The session's broker; a test that stops or pauses it must put it back, or start a Broker of its own."""
    with Broker(heap_mb=1024) as running:
        yield running


@pytest.fixture
def mock_broker() -> Iterator[MockCluster]:
    """A mock cluster of one broker."""
    with MockCluster() as running:
        yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name for this test's topic (not created)."""
    plain = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    return f"{plain[:80].strip('-')}-{abs(hash(request.node.nodeid)) % 10_000}"
