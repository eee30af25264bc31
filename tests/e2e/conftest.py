"""Fixtures of the end-to-end tests.

``spark``       one session in this process for all tests that need no driver of their own
``checkpoint``  a folder for this test's checkpoint
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support import streams


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The shared session, with ``format("cohort")`` installed and ``format("kafka")`` on its class path."""
    with streams.session(tmp_path_factory.mktemp("spark")) as running:
        yield running


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint location that is not there yet."""
    return tmp_path / "checkpoint"
