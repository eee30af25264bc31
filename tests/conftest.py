"""Fixtures that all tests share.

``broker``       one real broker for the whole session, started when first asked for
``guarded``      another one, with logins of every kind, certificates and permissions
``pair``         two brokers, the second one behind a relay
``mock_broker``  librdkafka's mock cluster, one per test
``topic``        a topic name that no other test uses
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How long one example takes is the machine's business: a law does not fail because another process is busy.
for name, examples in (("quick", 25), ("thorough", 100)):
    settings.register_profile(
        name,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        max_examples=examples,
        derandomize=name == "quick",
    )

ROOT = Path(__file__).resolve().parents[1]
# pytest puts the tree first on the path, for `tests.kit`.  There it would shadow the installed wheel's
# pyspark_cohort, and what ships is what is tested: so it goes last.
sys.path[:] = [entry for entry in sys.path if entry and Path(entry).resolve() != ROOT] + [str(ROOT)]

from tests.kit import watchdog  # noqa: E402  after the path is right
from tests.kit.broker import Broker, Cluster  # noqa: E402  after the path is right
from tests.kit.mock import MockCluster  # noqa: E402  after the path is right
from tests.kit.processes import MARK  # noqa: E402  after the path is right
from tests.kit.shared_brokers import guarded, pair, put_back  # noqa: E402, F401  fixtures, after the path is right
from tests.kit.tier import TIER, is_thorough  # noqa: E402  after the path is right

DURATIONS = ROOT / ".cache" / "tests" / "durations.json"
# What one worker has for a whole run: a Spark session, an application with executors, the brokers that are dear to start.
SHARED_BY_ONE_WORKER = ("spark", "application", "guarded", "pair", "sparks")
SHARED_BROKERS = ("broker", "guarded", "pair")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of ``tools/run_tests.py``."""
    parser.addoption("--tier", choices=("test", "all"), default=None, help="all: the tests marked thorough too")
    parser.addoption("--failures", type=Path, help="append each failure to this file, a JSON object a line")


def pytest_configure(config: pytest.Config) -> None:
    """Have each test watched, choose the tier, and mark what a worker of pytest-xdist will start."""
    config.pluginmanager.register(watchdog)
    if config.option.tier is not None:
        os.environ[TIER] = config.option.tier
    settings.load_profile("thorough" if is_thorough() else "quick")
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is not None:
        os.environ[MARK] = f"{worker}-{os.getpid()}"
    elif config.getoption("dist", "no") != "no":
        from tests.kit import scheduling  # the oldest environment is without pytest-xdist

        config.pluginmanager.register(scheduling)
        config.pluginmanager.register(Results(config))


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is for the other tier; the rest in units that one worker runs, the longest of the last run first."""
    for item in items:
        for marker in item.iter_markers("thorough"):
            if not (len(marker.args) == 1 and isinstance(marker.args[0], str) and marker.args[0] and not marker.kwargs):
                raise pytest.UsageError(f"{item.nodeid}: thorough has one text, the reason")
    if config.option.tier == "test":
        chosen = [item for item in items if item.get_closest_marker("thorough") is None]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
        items[:] = chosen
    units = {item: unit(item) for item in items}
    last = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
    items.sort(key=lambda item: (-last.get(units[item], 0.0), units[item] not in SHARED_BY_ONE_WORKER))
    for item, name in units.items():
        item.add_marker(pytest.mark.xdist_group(name))
        item.user_properties.append(("unit", name))


def unit(item: pytest.Item) -> str:
    """What a worker takes at once: all tests of the shared session, all of the shared application, or a file."""
    fixtures = getattr(item, "fixturenames", ())
    return next((name for name in SHARED_BY_ONE_WORKER if name in fixtures), str(item.path.relative_to(ROOT)))


class Results:
    """What the process that leads the workers writes down: how long each unit took, and what failed."""

    def __init__(self, config: pytest.Config) -> None:
        """Nothing has run."""
        self._failures: Path | None = config.option.failures
        self._seconds: dict[str, float] = defaultdict(float)

    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Groups come as the ends of names; without them each worker would start its own of everything, and nothing would say so."""
        if not all("@" in name for name in ids):
            raise pytest.UsageError("pytest-xdist keeps no groups with this pytest: see pytest in pyproject.toml")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a phase of a test, and note its failure."""
        test = report.nodeid.partition("@")[0]
        self._seconds[str(dict(report.user_properties).get("unit", test))] += report.duration
        if report.failed:
            self._note(test, report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that can't be imported fails as a whole."""
        if report.failed:
            self._note(report.nodeid, report)

    def _note(self, test: str, report: pytest.TestReport | pytest.CollectReport) -> None:
        if self._failures is None:
            return
        parts = [report.longreprtext, *(f"--- {title}\n{text}" for title, text in report.sections)]
        with self._failures.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"test": test, "text": "\n".join(parts)}) + "\n")

    def pytest_sessionfinish(self) -> None:
        """Keep the durations for the next run; units that did not run keep theirs."""
        DURATIONS.parent.mkdir(parents=True, exist_ok=True)
        last = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
        DURATIONS.write_text(json.dumps(last | {name: round(s, 1) for name, s in self._seconds.items()}, indent=1))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that fails tells what the session's brokers had to say, whose folders are gone at the end."""
    report = yield
    for name in SHARED_BROKERS if report.failed else ():
        shared = getattr(item, "funcargs", {}).get(name)
        for node in shared.nodes if isinstance(shared, Cluster) else ():
            report.sections.append((f"the end of the log of {name} {node.node_id}", node.log_tail()))
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
