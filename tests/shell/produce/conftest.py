"""Fixtures of the producer's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit.written_records import WrittenRecords


@pytest.fixture(scope="module")
def java() -> Iterator[WrittenRecords]:
    """Kafka's own consumer."""
    with WrittenRecords() as reader:
        yield reader
