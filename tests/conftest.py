"""Fixtures that all tests share.

``broker``       one real broker for the whole session, started when first asked for
``mock_broker``  librdkafka's mock cluster, one per test
``topic``        a topic name that no other test uses
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How long one example takes is the machine's business: a law does not fail because another process is busy.
settings.register_profile("cohort", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("cohort")

ROOT = Path(__file__).resolve().parents[1]
# pytest puts the tree first on the path, for `tests.support`.  There it would shadow the installed wheel's
# pyspark_cohort, and what ships is what is tested: so it goes last.
sys.path[:] = [entry for entry in sys.path if entry and Path(entry).resolve() != ROOT] + [str(ROOT)]

from tests.support.broker import Broker  # noqa: E402  after the path is right
from tests.support.mock import MockCluster  # noqa: E402  after the path is right


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
